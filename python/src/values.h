// Values between Python and the runtime, without copies where memory allows it.
#pragma once

#include <nanobind/nanobind.h>

#include "support/datum.h"

namespace anfora::bindings {

namespace nb = nanobind;

// From a `Value`, None, or anything with __dlpack__ or a buffer, whose memory is then used as it is; it is copied where it is not
// dense. Throws InvalidArgument for anything else. `name` is the input, for the message.
Datum to_datum(nb::handle object, const char* name);

// Throws InvalidArgument for an array that must not be written to.
void require_writable(nb::handle array, const char* name);
// Whether it is numpy's array of the memory that the tensor has.
bool is_array_on(nb::handle array, const Tensor& tensor);

// A tensor of an element type that numpy has becomes an array that owns the tensor's memory; None none; the rest a `Value`.
nb::object to_python(Datum datum);

// What has no array of its own, such as strings, sequences, maps and narrow floats.
struct Value {
  Datum datum;
};
// The class `Value`; of anfora._runtime.
void bind_values(nb::module_& module);

}  // namespace anfora::bindings
