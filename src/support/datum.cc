#include "support/datum.h"

#include "anfora/error.h"

namespace anfora {
namespace {

[[noreturn]] void wrong_kind(const char* wanted) {
  throw Error(ErrorCode::TypeMismatch, std::string("expected ") + wanted + ", got another kind of value");
}

}  // namespace

Datum Datum::sequence(std::vector<Datum> items) {
  Datum d;
  d.kind_ = Kind::Sequence;
  d.object_ = std::make_shared<std::vector<Datum>>(std::move(items));
  return d;
}
Datum Datum::tuple(std::vector<Datum> items) {
  Datum d = sequence(std::move(items));
  d.kind_ = Kind::Tuple;
  return d;
}
Datum Datum::map(Tensor keys, Tensor values) {
  Datum d;
  d.kind_ = Kind::Map;
  d.object_ = std::make_shared<Map>(Map{std::move(keys), std::move(values)});
  return d;
}
Datum Datum::function(std::shared_ptr<Function> function) {
  Datum d;
  d.kind_ = Kind::Function;
  d.object_ = std::move(function);
  return d;
}

const Tensor& Datum::tensor() const {
  if (kind_ != Kind::Tensor) wrong_kind("a tensor");
  return tensor_;
}
Tensor& Datum::tensor() {
  if (kind_ != Kind::Tensor) wrong_kind("a tensor");
  return tensor_;
}
const std::vector<Datum>& Datum::items() const {
  if (kind_ != Kind::Sequence && kind_ != Kind::Tuple) wrong_kind("a sequence");
  return object<std::vector<Datum>>();
}
std::vector<Datum> Datum::take_items() && {
  if (kind_ != Kind::Sequence && kind_ != Kind::Tuple) wrong_kind("a sequence");
  auto& items = object<std::vector<Datum>>();
  return object_.use_count() == 1 ? std::move(items) : items;
}
const Datum::Map& Datum::as_map() const {
  if (kind_ != Kind::Map) wrong_kind("a map");
  return object<Map>();
}
std::shared_ptr<Datum::Function> Datum::as_function() const {
  if (kind_ != Kind::Function) wrong_kind("a function");
  return std::static_pointer_cast<Function>(object_);
}

}  // namespace anfora
