#include "driver/interface.h"

#include "ir/readable.h"

namespace anfora::driver {

NamedTypes inputs_of(const ir::Module& module) {
  NamedTypes inputs;
  for (const ir::Parameter* p : module.main()->parameters()) inputs.emplace_back(p->name(), ir::readable(p->type()));
  return inputs;
}

NamedTypes outputs_of(const ir::Module& module) {
  NamedTypes outputs;
  const ir::Node* result = module.main()->result();
  const ir::Apply* tuple = result->as(ir::Primitive::MakeTuple);
  for (size_t i = 0; i < module.output_names().size(); ++i) {
    const ir::Node* value = tuple && i < tuple->num_inputs() ? tuple->input(i) : result;
    outputs.emplace_back(module.output_names()[i], ir::readable(value->type()));
  }
  return outputs;
}

}  // namespace anfora::driver
