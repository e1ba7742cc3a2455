// A constant that folding made, and all of whose elements are one number, is stored as what generates it:
//
//     f32[512, 2048] 0.0     →     ConstantOfShape{value = 0.0}([512, 2048])
//
// Until here it was a constant so that other rewrites could see through it (a normalization whose statistics are made by
// ConstantOfShape goes into the weights); what is left of that shall not make the file larger. Constants that the model had
// stay: an operator more is not what its owner asked for.
#include <cstring>
#include <vector>

#include "passes/pass.h"
#include "rewrite/match.h"

namespace anfora::passes {

using namespace ir;

namespace {

// An operator with its shape takes about as much space in a file.
constexpr size_t kGeneratorBytes = 512;

bool generates(DType dtype) {
  return dtype != DType::String && element_bits(dtype) >= 8 && (is_integer(dtype) || is_float(dtype));
}

Tensor first_element(const Tensor& t) {
  int64_t one = 1;
  Tensor value = Tensor::allocate(t.dtype(), {&one, 1});
  std::memcpy(value.raw(), t.raw(), element_bytes(t.dtype()));
  return value;
}

}  // namespace

size_t generate_constants(Module& module, uint32_t first_id, rewrite::Remarks& remarks) {
  const Operator& constant_of_shape = module.context().get_operator("ConstantOfShape");
  std::vector<Value*> constants(module.constants().begin(), module.constants().end());
  size_t generated = 0;
  for (Value* value : constants) {
    const Tensor& t = value->tensor();
    bool is_new = value->id() >= first_id && value->has_uses();
    if (!is_new || t.bytes() <= kGeneratorBytes || !generates(t.dtype()) || !rewrite::splat_value(value)) continue;
    Value* shape = module.constant(Tensor::vector<int64_t>(std::span<const int64_t>(t.shape())));
    Apply* made = module.apply(module.main(), constant_of_shape, {shape}, {{"value", first_element(t)}});
    made->set_type(value->type());
    module.replace(value, made);
    remarks.applied("generate", "constant-of-shape", *made);
    ++generated;
  }
  return generated;
}

}  // namespace anfora::passes
