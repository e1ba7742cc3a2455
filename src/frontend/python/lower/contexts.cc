// What `with` does on entry and on exit.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {
namespace {

// contextlib.nullcontext(value), numpy.errstate(…): nothing happens.
class NoContext : public Live {
 public:
  std::string describe() const override { return "a context manager"; }
  std::optional<Object> attribute(const std::string&) const override { return std::nullopt; }
  std::optional<Object> overload(std::span<const std::string>) const override { return std::nullopt; }
  std::vector<std::string> fields() const override { return {}; }
  bool is_a(const Live& type) const override { return type.identity() == this; }
  bool is_a(std::string_view) const override { return false; }
  bool is_base_of(std::string_view) const override { return false; }
  const void* identity() const override { return this; }
  bool is_equal_by_identity() const override { return true; }
};

const Items* as_no_context(const Object& manager) {
  const Items* items = manager.tuple();
  return items && dynamic_cast<const NoContext*>(items->type.get()) ? items : nullptr;
}

}  // namespace

// numpy.errstate says what a division by zero and the like do besides giving an infinity or NaN. Nothing, in a compiled function; so it may not
// ask for an error.
Object Lowering::make_context(const std::string& name, const Arguments& arguments) {
  const bool is_errstate = name == "numpy.errstate";
  Object entered{Constant{NoneValue()}};
  if (arguments.positional.size() > (is_errstate ? 0 : 1)) {
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() takes {}", name, is_errstate ? "keywords alone" : "one argument"));
  }
  if (!arguments.positional.empty()) entered = arguments.positional[0];
  for (const auto& [key, value] : arguments.named) {
    constexpr std::string_view kSilent[] = {"ignore", "warn"};
    if (is_errstate && !std::ranges::count(kSilent, text_of(value).value_or(""))) {
      emit_.fail(ErrorCode::Unsupported, fmt::format("errstate({}=…) is not supported but for 'ignore' and 'warn'", key),
                 "test for what is wrong, with assert or numpy.isfinite()");
    }
    if (!is_errstate && key != "enter_result") emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() has no argument '{}'", name, key));
    if (!is_errstate) entered = value;
  }
  static const std::shared_ptr<const Live> type = std::make_shared<NoContext>();
  return make_tuple({entered}, {"enter_result"}, type);
}

Object Lowering::enter_context(const Object& manager) {
  if (const Items* nothing = as_no_context(manager)) return nothing->items[0];
  return call(attribute(manager, "__enter__"), {});
}

// `raises`: for an exception, which __exit__ would be told, and might keep.
Object Lowering::exit_context(const Object& manager, bool raises) {
  const Object none{Constant{NoneValue()}};
  if (as_no_context(manager)) return none;
  if (raises) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("this exception would pass the __exit__ of {}", describe(manager)),
               "raise it behind the with, or test for the condition before");
  }
  return call(attribute(manager, "__exit__"), {.positional = {none, none, none}, .named = {}});
}

}  // namespace anfora::python
