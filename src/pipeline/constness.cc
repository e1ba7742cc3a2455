#include "pipeline/constness.h"

namespace anfora::pipeline {

using namespace ir;

size_t freeze_defaults(Module& module, FunctionRef<bool(std::string_view)> is_frozen) {
  size_t frozen = 0;
  for (size_t i = module.main()->parameters().size(); i-- > 0;) {
    Parameter* parameter = module.main()->parameter(i);
    Value* value = module.default_of(parameter);
    if (!value || !is_frozen(parameter->name())) continue;
    if (parameter->has_uses()) module.replace(parameter, value);
    module.set_default(parameter, nullptr);
    module.remove_parameter(parameter);
    ++frozen;
  }
  return frozen;
}

size_t prune_inputs(Module& module) {
  size_t pruned = 0;
  for (size_t i = module.main()->parameters().size(); i-- > 0;) {
    Parameter* parameter = module.main()->parameter(i);
    if (parameter->has_uses()) continue;
    module.set_default(parameter, nullptr);
    module.remove_parameter(parameter);
    ++pruned;
  }
  return pruned;
}

}  // namespace anfora::pipeline
