// What a model declares of the shapes of its inputs and outputs, beside what a run has.
//
// To ONNX Runtime the name of a dimension is no more than a remark: it runs a model whose inputs give one name two sizes, and
// says so. Anfora relies on names, so such a model is read once more without those that do not hold.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "driver/model.h"
#include "runtime/signature.h"

namespace anfora::driver {

struct Contradiction {
  std::set<std::string, std::less<>> names;  // of dimensions that have several sizes
  std::string message;                       // empty: there is none
  explicit operator bool() const { return !message.empty(); }
};

// Independent of the module that it was made of.
class DeclaredShapes {
 public:
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
  Contradiction check(const std::function<const Datum*(size_t input)>& given) const;

  bool has_names_ = false;  // of dimensions, twice or more
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

// Reads the model again, without the names that the inputs contradict, if any. What a warning is to say.
Contradiction reload_if_contradicted(LoadedModel& model, const ModelSource& source,
                                     const runtime::NamedData& inputs);

}  // namespace anfora::driver
