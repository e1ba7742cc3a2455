// Operators that a program in Python declares.
#pragma once

#include <nanobind/nanobind.h>

namespace anfora::bindings {

namespace nb = nanobind;

void bind_operators(nb::module_& module);

}  // namespace anfora::bindings
