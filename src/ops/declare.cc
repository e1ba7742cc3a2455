#include "ops/declare.h"

#include <algorithm>
#include <exception>

namespace anfora::ops {

using enum DType;
using Arity = ir::Formal::Arity;

std::vector<DType> operator|(const std::vector<DType>& a, const std::vector<DType>& b) {
  std::vector<DType> both = a;
  for (DType d : b) {
    if (!std::ranges::count(both, d)) both.push_back(d);
  }
  return both;
}

const std::vector<DType> kFloats = {F16, F32, F64, BF16};
const std::vector<DType> kFloat8s = {F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ};
const std::vector<DType> kSignedIntegers = {I8, I16, I32, I64};
const std::vector<DType> kUnsignedIntegers = {U8, U16, U32, U64};
const std::vector<DType> kIntegers = kSignedIntegers | kUnsignedIntegers;
const std::vector<DType> kNumbers = kFloats | kIntegers;
const std::vector<DType> kSignedNumbers = kFloats | kSignedIntegers;
const std::vector<DType> kComplexes = {C64, C128};
const std::vector<DType> kPlainDTypes = kNumbers | kComplexes | std::vector{Bool, String};
const std::vector<DType> kAllDTypes = [] {
  std::vector<DType> all;
  for (int i = 1; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}();
const std::vector<DType> kAnyType = {};

Declaration& Declaration::doc(std::string text) { return op_.doc = std::move(text), *this; }
Declaration& Declaration::input(std::string name, std::string type) {
  return op_.inputs.push_back({std::move(name), std::move(type), Arity::Required, 1}), *this;
}
Declaration& Declaration::optional_input(std::string name, std::string type) {
  return op_.inputs.push_back({std::move(name), std::move(type), Arity::Optional, 0}), *this;
}
Declaration& Declaration::variadic_input(std::string name, std::string type, int at_least) {
  return op_.inputs.push_back({std::move(name), std::move(type), Arity::Variadic, at_least}), *this;
}
Declaration& Declaration::output(std::string name, std::string type) {
  return op_.outputs.push_back({std::move(name), std::move(type), Arity::Required, 1}), *this;
}
Declaration& Declaration::optional_output(std::string name, std::string type) {
  return op_.outputs.push_back({std::move(name), std::move(type), Arity::Optional, 0}), *this;
}
Declaration& Declaration::variadic_output(std::string name, std::string type, int at_least) {
  return op_.outputs.push_back({std::move(name), std::move(type), Arity::Variadic, at_least}), *this;
}
Declaration& Declaration::type(std::string variable, std::vector<DType> dtypes) {
  return op_.variables.push_back({std::move(variable), std::move(dtypes)}), *this;
}

Declaration& Declaration::attribute(std::string name, int64_t otherwise) {
  return op_.attributes.push_back({std::move(name), AttributeKind::Int, false, otherwise}), *this;
}
Declaration& Declaration::attribute(std::string name, float otherwise) {
  return op_.attributes.push_back({std::move(name), AttributeKind::Float, false, otherwise}), *this;
}
Declaration& Declaration::attribute(std::string name, const char* otherwise) {
  return op_.attributes.push_back({std::move(name), AttributeKind::String, false, std::string(otherwise)}), *this;
}
Declaration& Declaration::attribute(std::string name, std::vector<int64_t> otherwise) {
  return op_.attributes.push_back({std::move(name), AttributeKind::Ints, false, std::move(otherwise)}), *this;
}
Declaration& Declaration::attribute(std::string name, std::vector<float> otherwise) {
  return op_.attributes.push_back({std::move(name), AttributeKind::Floats, false, std::move(otherwise)}), *this;
}
Declaration& Declaration::optional_attribute(std::string name, AttributeKind kind) {
  return op_.attributes.push_back({std::move(name), kind, false, std::nullopt}), *this;
}
Declaration& Declaration::required_attribute(std::string name, AttributeKind kind) {
  return op_.attributes.push_back({std::move(name), kind, true, std::nullopt}), *this;
}

Declaration& Declaration::infer(void (*function)(InferenceContext&)) { return op_.infer = function, *this; }
Declaration& Declaration::flops(double (*function)(const InferenceContext&)) { return op_.flops = function, *this; }
Declaration& Declaration::range(ValueRange (*function)(RangeContext&)) { return op_.range = function, *this; }
Declaration& Declaration::fusion(FusionKind kind) {
  op_.fusion = kind;
  op_.widens = kind == FusionKind::Elementwise || kind == FusionKind::Broadcast || kind == FusionKind::Reduction ||
               kind == FusionKind::Anchor;
  if (kind == FusionKind::View && op_.outputs[0].type == op_.inputs[0].type) takes_elements();  // bits of another type are other elements
  op_.total = kind == FusionKind::Anchor;
  if (op_.widens || op_.takes_elements) op_.fails = Fails::Never;
  return *this;
}
Declaration& Declaration::broadcasts_to_first() { return op_.broadcasts_to_first = true, *this; }
Declaration& Declaration::effect(Effect effect) { return op_.effect = effect, *this; }
Declaration& Declaration::in_place(std::vector<int> inputs) { return op_.in_place = std::move(inputs), *this; }
Declaration& Declaration::commutative() { return op_.commutative = true, *this; }
Declaration& Declaration::associative() { return op_.associative = true, *this; }
Declaration& Declaration::axis() { return op_.has_axis = true, *this; }
Declaration& Declaration::takes_elements() { return op_.takes_elements = true, odd().scales(); }
Declaration& Declaration::calls() { return op_.calls = true, *this; }
Declaration& Declaration::sums() { return op_.sums = true, *this; }
Declaration& Declaration::widens(bool does) { return op_.widens = does, *this; }
Declaration& Declaration::total() { return op_.total = true, *this; }
Declaration& Declaration::rising() { return op_.rising = true, *this; }
Declaration& Declaration::in_file() { return op_.in_file = true, *this; }
Declaration& Declaration::at_least_operand() { return op_.at_least_operand = true, *this; }
Declaration& Declaration::at_most_operand() { return op_.at_most_operand = true, *this; }
Declaration& Declaration::keeps_sign() { return op_.keeps_sign = true, *this; }
Declaration& Declaration::scales() { return op_.scales = true, *this; }
Declaration& Declaration::mirror(std::string other) { return op_.mirror = std::move(other), *this; }
Declaration& Declaration::odd() { return mirror(op_.name); }
Declaration& Declaration::keeps_nan() { return op_.keeps_nan = true, *this; }
Declaration& Declaration::piecewise(PiecewiseOp function) { return op_.piecewise = function, *this; }
Declaration& Declaration::movement(Movement kind) { return op_.movement = kind, *this; }
Declaration& Declaration::reduces(Reduces what) { return op_.reduces = what, *this; }
Declaration& Declaration::whole(Whole when) { return op_.whole = when, *this; }
Declaration& Declaration::fails(Fails on) { return op_.fails = on, *this; }
Declaration& Declaration::layout(bool (*function)(ChannelsLast&)) { return op_.layout = function, *this; }
Declaration& Declaration::kernel(std::string name) { return op_.kernel = std::move(name), *this; }
Declaration& Declaration::means(std::string_view functions) { return op_.meaning = functions, no_kernel(); }
Declaration& Declaration::no_kernel() { return op_.kernel.clear(), *this; }

Declaration Declarations::op(std::string name, int since, std::string domain) {
  auto op = std::make_unique<ir::Operator>();
  op->qualified = ir::qualified_name(domain, name);
  op->name = std::move(name);
  op->domain = std::move(domain);
  op->since = since;
  op->kernel = op->qualified;
  pending_.push_back(std::move(op));
  return Declaration(*pending_.back());
}

Declarations::~Declarations() noexcept(false) {
  if (std::uncaught_exceptions() > 0) return;  // without memory for all of them; a second exception would end the process
  for (auto& op : pending_) table_.declare(std::move(*op));
}

}  // namespace anfora::ops
