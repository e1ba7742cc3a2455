#include "driver/interface.h"

#include "frontend/onnx/declared_type.h"

namespace anfora::driver {

NamedTypes inputs_of(const ir::Module& module) {
  NamedTypes inputs;
  for (const ir::Parameter* p : module.main()->parameters()) inputs.emplace_back(std::string(p->name()), p->type());
  return inputs;
}

NamedTypes outputs_of(const ir::Module& module) {
  const ir::Type* result = module.main()->result()->type();
  const std::vector<std::string>& names = module.output_names();
  const std::vector<const ir::Type*>& declared = module.metadata().output_types;
  // One output is the result itself. Text need not name what main returns.
  const bool is_tuple = names.size() != 1 && result && result->is_tuple();
  const size_t count = !names.empty() ? names.size() : is_tuple ? result->elements().size() : 1;
  NamedTypes outputs;
  for (size_t i = 0; i < count; ++i) {
    const ir::Type* found = is_tuple ? result->element(i) : count == 1 ? result : nullptr;
    const ir::Type* stated = i < declared.size() ? declared[i] : nullptr;
    const ir::Type* refined = stated ? onnx::refined_type(module.context(), stated, found) : nullptr;
    outputs.emplace_back(i < names.size() ? names[i] : "", refined ? refined : found);
  }
  return outputs;
}

}  // namespace anfora::driver
