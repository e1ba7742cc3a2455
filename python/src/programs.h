// Functions of the Python that is running, as modules.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "driver/model.h"

namespace anfora::bindings {

namespace nb = nanobind;

struct Program {
  driver::LoadedModel model;
  uint64_t id = 0;
  std::string name;   // "file.py::function"
  nb::object result;  // how outputs become what the function returns, see anfora/_program.py
  nb::list inputs;    // paths to the inputs: arguments, and tensors that the function reads from elsewhere
  nb::list guards;    // (path, object): what the module holds for
};

// Lowers a function for arguments of these types. `dims`: names or sizes of the dimensions of tensors, a list by the path of each; those of
// others are what they are now, which guards watch. None: each dimension has a name of its own, n0_1 of input 0's axis 1.
// `sizes`: by the names of dimensions, what they are now, by which sizes may be assumed to lie in a range that the guards watch:
// (path, "within", axis, least, most). `keeps_stages`: what was made on the way is in the model, see pipeline::TextStage.
Program lower_program(nb::object function, nb::tuple arguments, nb::dict keywords, nb::object dims, nb::dict sizes, bool keeps_stages);

// Records calls, made one after another by a Python function that runs, as a module. Values of the module are Symbols, which `wrap`
// makes the values of Python that the function works with.
class Tracer {
 public:
  Tracer(nb::object wrap, const std::string& name, nb::tuple arguments, nb::dict keywords, nb::object dims);
  ~Tracer();
  nb::tuple arguments();    // (positional, by name)
  nb::list inputs() const;  // paths to the inputs so far
  // `place`: (file, line, column, last line, column behind it).
  nb::object call(nb::object function, nb::tuple arguments, nb::dict keywords, nb::tuple place);
  Program finish(nb::object result);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

void bind_symbols(nb::module_& module);


}  // namespace anfora::bindings
