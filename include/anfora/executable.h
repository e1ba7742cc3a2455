// Compiled models from C++: load and run, with libanfora_runtime alone.
//
//     const anfora::Executable executable = anfora::Executable::load("resnet50.anf");
//     anfora::NamedTensors outputs = executable.run({{"image", image}});
//
// The file is what Executable::save() or `anfora compile` wrote. How a model is compiled: model.h. Everything that can go wrong throws
// anfora::Error (error.h); so does what is used after it was moved from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "anfora/error.h"
#include "anfora/tensor.h"
#include "anfora/version.h"

namespace [[gnu::visibility("default")]] anfora {

using NamedTensors = std::map<std::string, Tensor>;

// The size of a dimension that is known only at run time, such as that of a batch.
inline constexpr int64_t kUnknownSize = -1;

// An input or an output.
struct ValueInfo {
  std::string name;
  std::string type;                // as people write it: "f32[N, 128]", "seq(f32[?])"
  DType dtype = DType::Undefined;  // of a tensor; Undefined: any, or no tensor
  bool has_rank = false;           // whether `shape` says something
  Shape shape;                     // of a tensor; kUnknownSize where only the run tells
};

// A model that is ready to run, by any number of threads at once; kernels use several threads inside.
class Executable {
 public:
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  // What save() wrote, which runs without being compiled: weights are mapped, packed as kernels want them. The file must not be
  // changed in place while it is in use. It is code: load only what you would run. `threads`: of kernels; 0: as it was compiled
  // for. Throws NotFound, Io, InvalidModel where the file is damaged, Unsupported where it was made by another version of Anfora
  // or for another processor.
  static Executable load(const std::filesystem::path& path, int threads = 0);
  // Writes the file (.anf) whole or not at all. Not while a run is under way. Throws Io.
  void save(const std::filesystem::path& path) const;

  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;

  // The outputs belong to the caller; a later run does not overwrite them. Inputs are not written to, but for donated ones. When inputs give one
  // name of a dimension several sizes, what Model::compile() gave is read from its file and compiled again without that name; what load() gave
  // throws. Throws
  // InvalidArgument when names, element types or shapes do not fit, or a donated input shares memory with another, Unsupported for inputs or outputs that
  // are no tensors and for operators that have no kernel, ResourceExhausted when memory is short.
  NamedTensors run(const NamedTensors& inputs) const;
  // The same, with outputs written to memory of the caller: `outputs` has a tensor of the right type and shape for each that is
  // to be had, which is filled, and shares no memory with an input. Where shapes repeat this allocates nothing, but for strings,
  // sequences, and what oneDNN needs for a moment. Throws InvalidArgument where a tensor does not fit.
  void run(const NamedTensors& inputs, const NamedTensors& outputs) const;

 private:
  friend class Model;
  struct State;
  explicit Executable(std::unique_ptr<State> state);
  State& state() const;
  std::unique_ptr<State> state_;
};

}  // namespace anfora
