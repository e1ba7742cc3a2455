// A function of a Python file as a module.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontend/python/lower/lowering.h"
#include "frontend/python/lower/object.h"
#include "frontend/python/tree.h"
#include "ir/module.h"

namespace anfora::python {

// The names of a file: its functions, what it imports, its constants.
std::shared_ptr<const Globals> globals_of(Source& source);

// A function of the program as an object that can be called.
Object function_object(Source& source, const Tree& function, std::shared_ptr<const Globals> globals);

// The same with the decorators that the compiler knows: a function with a gradient of its own.
Object decorated_function(Source& source, const Tree& function, std::shared_ptr<const Globals> globals);

// A parameter of the module, as an argument: a number of Python where it says so, else a tensor.
struct ArgumentType {
  std::string name, type;  // "f32[N, 4]" as the text form has it
  bool is_number = false;
};
// The arguments as the annotations of a function say them: "f32[N, 4]", int, float, bool; up to the first default without one. Throws
// InvalidModel where an argument has neither.
std::vector<ArgumentType> annotated_arguments(const Source& source, const Tree& function);

// How a caller gives arguments to a function, and takes its result.
class FunctionCall {
 public:
  virtual ~FunctionCall() = default;
  // Makes the parameters of main that the arguments need.
  virtual Arguments arguments(Lowering& lowering, ir::Builder& main) = 0;
  // The nodes that the module is to return.
  virtual std::vector<ir::Node*> results(Lowering& lowering, const Object& result) = 0;
};

// The module returns these nodes from where lowering is; what nothing uses goes.
void set_results(Lowering& lowering, std::span<ir::Node* const> nodes);

// The functions of a program that was lowered, each form behind the other: as they are written, folded, and as control flow.
struct SourceStages {
  std::string written, folded, control_flow;
};

// Makes main of a module: a call of the function. `stages`: null where nobody asks for them. Throws InvalidModel, TypeMismatch, Unsupported with the place in the source. The module
// is typed where the code needed it, and not verified.
void lower_function(ir::Module& module, const Object& function, FunctionCall& call, SourceStages* stages = nullptr);
// The same with parameters for the arguments; its results are the tensors and numbers in what it returns.
void lower_function(ir::Module& module, const Object& function, std::span<const ArgumentType> arguments,
                    SourceStages* stages = nullptr);

}  // namespace anfora::python
