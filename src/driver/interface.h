// What main takes and gives.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace anfora::driver {

// An input or an output. Reports write the type as ir::readable() does.
struct NamedType {
  std::string name;      // may be empty in the text form
  const ir::Type* type;  // null where nothing is known
};
using NamedTypes = std::vector<NamedType>;
NamedTypes inputs_of(const ir::Module& module);
// With the sizes that the source declares where inference finds less.
NamedTypes outputs_of(const ir::Module& module);

}  // namespace anfora::driver
