#include "kernels.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <utility>

#include "anfora/kernel.h"
#include "values.h"

namespace anfora::bindings {
namespace {

// function(*operands, **attributes) gives an array, or a tuple of them. Operands are copies, which it may keep or write to.
void run(nb::handle function, const std::vector<std::string>& attributes, KernelCall& call) {
  nb::gil_scoped_acquire gil;
  nb::list operands;
  for (size_t i = 0; i < call.num_inputs(); ++i) operands.append(to_python(Datum(call.input(i).clone())));
  nb::dict named;
  for (const std::string& name : attributes) named[name.c_str()] = nb::cast(call.attribute(name));
  const nb::list results = nb::cast<nb::list>(function(nb::tuple(operands), named));
  if (results.size() != call.num_outputs()) {
    throw Error(ErrorCode::InvalidArgument, "the kernel gives " + std::to_string(results.size()) + " results, and " +
                                                std::to_string(call.num_outputs()) + " are asked for");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const Datum given = to_datum(results[i], "result");
    const Tensor& tensor = given.tensor();
    Tensor& output = call.output(i, tensor.dtype(), tensor.shape());
    std::memcpy(output.raw(), tensor.raw(), tensor.bytes());
  }
}

}  // namespace

void bind_kernels(nb::module_& module) {
  module.def(
      "register_kernel",
      // The caller keeps the function.
      [](const std::string& name, nb::object function, std::vector<std::string> attributes) {
        if (function.is_none()) return register_kernel(name, {});
        register_kernel(name, [function = nb::handle(function), attributes = std::move(attributes)](KernelCall& call) {
          run(function, attributes, call);
        });
      },
      nb::arg("name"), nb::arg("function").none(), nb::arg("attributes"));
}

}  // namespace anfora::bindings
