// What control flow needs beside functions and Switch: a loop collects its results in a sequence and stacks them at its
// end, where ONNX's Loop and Scan give a tensor.
#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_stack_sequence(InferenceContext& ctx) {
  const Type* sequence = ctx.input(0);
  bool is_unknown = sequence->is_tensor() && sequence->dtype() == DType::Undefined;
  if (!is_unknown && (sequence->kind() != ir::TypeKind::Sequence || !sequence->element()->is_tensor())) {
    ctx.fail(fmt::format("{} is no sequence of tensors", to_string(sequence)));
  }
  const Type* element = is_unknown ? nullptr : sequence->element();
  DType dtype = element ? element->dtype() : DType::Undefined;
  if (dtype == DType::Undefined) dtype = dtype_attribute(ctx, "dtype", DType::Undefined);

  std::vector<int64_t> declared = ctx.attributes().get_ints("shape");
  const bool is_declared = ctx.attributes().has("shape");
  Dims dims;
  if (element && element->has_rank()) {
    if (is_declared && element->rank() != std::ssize(declared)) {
      ctx.fail(fmt::format("the items have type {}, {} axes are declared", ir::to_string(element), declared.size()));
    }
    dims.assign(element->dims().begin(), element->dims().end());
  } else if (is_declared) {
    for (int64_t size : declared) dims.push_back(size < 0 ? ctx.unknown() : ctx.dim(size));
  } else {
    return ctx.set_unranked(0, dtype);
  }
  int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims.size()) + 1);
  dims.insert(dims.begin() + axis, ctx.fresh_dim());
  ctx.set_tensor(0, dtype, dims);
}

}  // namespace

void declare_control(Declarations& declare) {
  declare.op("StackSequence", 1, "anfora")
      .doc(
          "The tensors of a sequence, all of one shape, stacked along a new axis; the last first with reverse. An "
          "empty "
          "sequence gives no elements of the dtype and the shape that the attributes say, -1 counting as 0.")
      .input("sequence", "S")
      .output("stacked", "T")
      .type("S", kAnyType)
      .type("T", kAllDTypes)
      .attribute("axis", 0)
      .attribute("reverse", 0)
      .optional_attribute("dtype", AttributeKind::Int)
      .optional_attribute("shape", AttributeKind::Ints)
      .infer(infer_stack_sequence);
}

}  // namespace anfora::ops
