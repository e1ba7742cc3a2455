// Functions of the Python that is running, as modules.
#pragma once

#include <nanobind/nanobind.h>

#include "driver/model.h"

namespace anfora::bindings {

namespace nb = nanobind;

struct Program {
  driver::LoadedModel model;
  std::string name;   // "file.py::function"
  nb::object result;  // how outputs become what the function returns, see anfora/_program.py
  nb::list inputs;    // paths to the inputs: arguments, and tensors that the function reads from elsewhere
  nb::list guards;    // (path, object): what the module holds for
};

// Lowers a function for arguments of these types. `dims`: names or sizes of the dimensions of tensors, a list by the path of each; those of
// others are what they are now, which guards watch.
Program lower_program(nb::object function, nb::tuple arguments, nb::dict keywords, nb::dict dims);

}  // namespace anfora::bindings
