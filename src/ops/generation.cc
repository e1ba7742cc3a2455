// Operators that make tensors from attributes and sizes alone.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"
#include "support/element_types.h"

namespace anfora::ops {
namespace {

struct ToType {
  InferenceContext& ctx;
  const Type* operator()(int64_t) const { return scalar(DType::I64); }
  const Type* operator()(float) const { return scalar(DType::F32); }
  const Type* operator()(const std::string&) const { return scalar(DType::String); }
  const Type* operator()(const Tensor& t) const { return ctx.context().tensor_type(t.dtype(), t.shape()); }
  const Type* operator()(const std::vector<int64_t>& v) const { return vector(DType::I64, v.size()); }
  const Type* operator()(const std::vector<float>& v) const { return vector(DType::F32, v.size()); }
  const Type* operator()(const std::vector<std::string>& v) const { return vector(DType::String, v.size()); }
  const Type* operator()(const std::vector<Tensor>&) const { ctx.fail("the value is a list of tensors"); }

  const Type* scalar(DType dtype) const { return ctx.context().tensor_type(dtype, std::span<const Dim>{}); }
  const Type* vector(DType dtype, size_t size) const {
    return ctx.context().tensor_type(dtype, Dims{ctx.dim(static_cast<int64_t>(size))});
  }
};

void infer_constant(InferenceContext& ctx) {
  for (const auto& [name, value] : ctx.attributes()) {
    if (name.starts_with("value")) return ctx.set_output(0, std::visit(ToType{ctx}, value));
  }
  ctx.fail("there is no value");
}

void infer_constant_of_shape(InferenceContext& ctx) {
  const Tensor* value = ctx.attributes().get_tensor("value");
  if (value && value->size() != 1)
    ctx.fail(fmt::format("the value has shape {}, not one element", to_string(value->shape())));
  const DType dtype = value ? value->dtype() : DType::F32;
  set_tensor_of_shape(ctx, 0, dtype, 0);
  auto shape = ctx.constant_integers(0);
  if (!value || !shape || shape->size() > 1 || !is_integer(dtype) || is_sub_byte(dtype)) return;
  const int64_t count = shape->empty() ? 1 : (*shape)[0];
  if (count < 0 || count > static_cast<int64_t>(kMostTrackedElements)) return;
  int64_t filling = dispatch<Integers>(dtype, [&]<class T>() { return static_cast<int64_t>(value->data<T>()[0]); });
  ctx.set_elements(0, Dims(static_cast<size_t>(count), ctx.dim(filling)));
}

std::optional<double> constant_number(InferenceContext& ctx, size_t i) {
  const Tensor* tensor = ctx.constant(i);
  if (!tensor || tensor->size() != 1) return std::nullopt;
  return dispatch<Numbers>(tensor->dtype(), [&]<class T>() {
    return static_cast<double>(static_cast<ComputeType<T>>(tensor->data<T>()[0]));
  });
}

void infer_range(InferenceContext& ctx) {
  for (const size_t scalar : {0, 1, 2}) require_scalar(ctx, scalar);
  const DType dtype = ctx.dtype(0);
  if (is_float(dtype)) {
    auto start = constant_number(ctx, 0), limit = constant_number(ctx, 1), delta = constant_number(ctx, 2);
    // Only what is exact in every precision: the kernel computes the count in that of the operands.
    bool whole = start && limit && delta && *start == std::trunc(*start) && *limit == std::trunc(*limit) &&
                 *delta == 1 && std::abs(*start) <= 256 && std::abs(*limit) <= 256;
    Dim count = whole ? ctx.dim(std::max<int64_t>(0, static_cast<int64_t>(*limit - *start))) : ctx.unknown();
    return ctx.set_tensor(0, dtype, Dims{count});
  }
  auto start = ctx.elements(0), limit = ctx.elements(1);
  auto delta = ctx.constant_integers(2);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 || delta->size() != 1) {
    return ctx.set_tensor(0, dtype, Dims{ctx.unknown()});
  }
  const int64_t step = (*delta)[0];
  if (step == 0) ctx.fail("the delta of a range is 0");
  Dim length = step > 0 ? (*limit)[0] - (*start)[0] : (*start)[0] - (*limit)[0];
  Dim count = ceil_div(max(length, ctx.dim(0)), std::abs(step));
  ctx.set_tensor(0, dtype, Dims{count});
  auto known = count.as_constant();
  if (!known || *known > static_cast<int64_t>(kMostTrackedElements)) return;
  Dims elements;
  for (int64_t i = 0; i < *known; ++i) elements.push_back((*start)[0] + i * step);
  ctx.set_elements(0, elements);
}

void infer_eye_like(InferenceContext& ctx) {
  require_rank(ctx, 0, 2);
  ctx.set_tensor(0, dtype_attribute(ctx, "dtype", ctx.dtype(0)), ctx.dims(0).value_or(Dims(2, ctx.unknown())));
}

void infer_window(InferenceContext& ctx) {
  require_scalar(ctx, 0);
  auto size = ctx.elements(0);
  ctx.set_tensor(0, dtype_attribute(ctx, "output_datatype", DType::F32),
                 Dims{size && size->size() == 1 ? (*size)[0] : ctx.unknown()});
}

}  // namespace

void declare_generation(Declarations& declare) {
  declare.op("Constant", 25)
      .doc("The value of its attribute. Models are imported with constants of the IR instead.")
      .output("output", "T")
      .type("T", kAllDTypes)
      .optional_attribute("value", AttributeKind::Tensor)
      .optional_attribute("value_float", AttributeKind::Float)
      .optional_attribute("value_floats", AttributeKind::Floats)
      .optional_attribute("value_int", AttributeKind::Int)
      .optional_attribute("value_ints", AttributeKind::Ints)
      .optional_attribute("value_string", AttributeKind::String)
      .optional_attribute("value_strings", AttributeKind::Strings)
      .infer(infer_constant);
  declare.op("ConstantOfShape", 25)
      .doc("A tensor of the given shape, each element the value, by default the f32 0.")
      .input("input", "i64")
      .output("output", "T2")
      .type("T2", kAllDTypes)
      .optional_attribute("value", AttributeKind::Tensor)
      .infer(infer_constant_of_shape)
      .range(range_of_fill);
  declare.op("Range", 27)
      .doc("start, start + delta, … up to limit, exclusive.")
      .input("start", "T")
      .input("limit", "T")
      .input("delta", "T")
      .output("output", "T")
      .type("T", kFloats | std::vector<DType>{DType::I16, DType::I32, DType::I64})
      .attribute("stash_type", 1)
      .infer(infer_range)
      .flops(flops_per_element<2>)
      .range(range_of_steps);
  const std::vector<DType> eye_types = kNumbers | std::vector<DType>{DType::Bool};
  declare.op("EyeLike", 22)
      .doc("A matrix of the input's shape with ones on diagonal k.")
      .input("input", "T1")
      .output("output", "T2")
      .type("T1", eye_types)
      .type("T2", eye_types)
      .optional_attribute("dtype", AttributeKind::Int)
      .attribute("k", 0)
      .infer(infer_eye_like);
  for (auto [name, doc] : {std::pair("HannWindow", "A Hann window of the given size."),
                           std::pair("HammingWindow", "A Hamming window of the given size."),
                           std::pair("BlackmanWindow", "A Blackman window of the given size.")}) {
    declare.op(name, 17)
        .doc(doc)
        .input("size", "T1")
        .output("output", "T2")
        .type("T1", {DType::I32, DType::I64})
        .type("T2", kNumbers)
        .attribute("output_datatype", static_cast<int>(DType::F32))
        .attribute("periodic", 1)
        .infer(infer_window)
        .flops(flops_per_element<20>);
  }
}

}  // namespace anfora::ops
