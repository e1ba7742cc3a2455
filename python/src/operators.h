// Operators and kernels that are written in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace anfora::bindings {

void bind_operators(nanobind::module_& module);

}  // namespace anfora::bindings
