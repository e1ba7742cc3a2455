#include "operators.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "anfora/operator.h"

namespace anfora::bindings {

void bind_operators(nb::module_& module) {
  module.def(
      "register_operator",
      [](const std::string& name, const std::string& signature,
         const std::map<std::string, AttributeDefault>& attributes,
         const std::string& doc) { register_operator({name, signature, attributes, doc}); },
      nb::arg("name"), nb::arg("signature"), nb::arg("attributes"), nb::arg("doc"));
}

}  // namespace anfora::bindings
