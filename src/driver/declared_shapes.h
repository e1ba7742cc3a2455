// What a model declares of the shapes of its inputs and outputs, beside what a run has.
//
// To ONNX Runtime the name of a dimension is no more than a remark: it runs a model whose inputs give one name two sizes, and
// says so. Anfora relies on names, so such a model is read once more without those that do not hold.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driver/model.h"
#include "runtime/signature.h"
#include "support/function_ref.h"

namespace anfora::driver {

struct Contradiction {
  std::set<std::string, std::less<>> names;  // of dimensions that have several sizes
  std::string message;                       // empty: there is none
  explicit operator bool() const { return !message.empty(); }
};

// Independent of the module that it was made of.
class DeclaredShapes {
 public:
  DeclaredShapes() = default;  // nothing is declared
  explicit DeclaredShapes(const ir::Module& module);

  // Where inputs are not given, their defaults count.
  Contradiction check_inputs(const runtime::NamedData& inputs) const;
  // By position.
  Contradiction check_inputs(std::span<const Datum> inputs) const;
  // By position. Only what the file states counts, and not what is inferred.
  Contradiction check_outputs(std::span<const Datum> outputs) const;

 private:
  struct Input {
    std::string name;
    std::vector<std::string> dims;  // names; empty where a dimension has none
    Shape otherwise;                // of the default
    bool has_default = false;
  };
  struct Output {
    std::string name, type;
    std::vector<int64_t> dims;  // −1: not a number
    bool is_known = false;      // a tensor with a rank
  };
  using Given = FunctionRef<const Datum*(size_t input)>;
  Contradiction check(Given given) const;
  const Shape* shape_of(size_t input, Given given) const;  // null: none, or one of another rank
  bool is_contradicted(Given given) const;  // or a shape is not known

  // Two dimensions of one name: in order, the first one that has it, and another.
  struct Axis {
    size_t input, axis;
  };
  std::vector<std::pair<Axis, Axis>> named_alike_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

// Reads the model again, without the names that the inputs contradict, if any. What a warning is to say.
Contradiction reload_if_contradicted(LoadedModel& model, const ModelSource& source,
                                     const runtime::NamedData& inputs);

}  // namespace anfora::driver
