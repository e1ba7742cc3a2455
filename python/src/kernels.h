// Kernels that are written in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace anfora::bindings {

namespace nb = nanobind;

void bind_kernels(nb::module_& module);

}  // namespace anfora::bindings
