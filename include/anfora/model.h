// Models from C++: load, optimize, compile, run.
//
//     anfora::Model model = anfora::Model::load("resnet50.onnx");
//     model.optimize();
//     anfora::Executable executable = std::move(model).compile();
//     anfora::Tensor image = anfora::Tensor::zeros(anfora::DType::F32, shape);
//     anfora::NamedTensors outputs = executable.run({{"image", image}});
//
// Everything that can go wrong throws anfora::Error (error.h); so does what is used after it was moved from. A program that only runs
// what was compiled before includes executable.h alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "anfora/executable.h"

namespace [[gnu::visibility("default")]] anfora {

// What rewrites may change.
enum class Math : uint8_t {
  Exact,   // no bit
  Finite,  // results that are NaN or infinite
  Real,    // and rounding
};

struct OptimizeOptions {
  Math math = Math::Real;
  std::string target = "onnx";  // the runtime that the model is saved for: "onnx" (any), "onnxruntime"
  std::string opset = "keep";   // the operator set that it is saved in, see save()
  std::vector<std::filesystem::path> rules = {};  // files of rules of your own, tried before the built-in ones
  // A constant that is computed beforehand may take this many bytes more than the constants it is made of. None: 64 kB, or a
  // 400th of what all constants have where that is more.
  std::optional<int64_t> fold_limit;
};

struct OptimizeReport {
  size_t operators_before = 0, operators_after = 0;
  double seconds = 0;
};

// How much is measured to choose kernels, inside the model, on inputs that are made up; once a shape and machine: what was found is
// kept in the cache folder (ANFORA_CACHE, else ~/.cache/anfora). Another choice may round differently.
enum class Tune : uint8_t {
  Off,   // nothing: a cost model decides
  Fast,  // the two implementations of each kernel that are expected to be the fastest: 5 s of runs at most, besides compiling
  Full,  // all of them: two minutes likewise
};

struct CompileOptions {
  int threads = 0;         // of kernels; 0: all processors
  bool optimize = true;    // the graph first
  Math math = Math::Real;  // what that may change
  // Inputs whose memory is given away, by name: a run overwrites it, and returns outputs of as many bytes in it where it can, as new
  // parameters in the place of old ones. Their tensors are not to be read afterwards, and share no memory with other inputs.
  std::vector<std::string> donate = {};
  Tune tune = Tune::Off;
};

// A model as a graph that can be rewritten. Its weights stay in the file, which must not change meanwhile.
// One thread at a time may use a model; different models are independent.
class Model {
 public:
  // Reads .onnx, verifies it, and infers all types and shapes. Throws NotFound, Io, InvalidModel,
  // TypeMismatch, Unsupported.
  static Model load(const std::filesystem::path& path);
  // The same from the bytes of an .onnx file. `owner` keeps them alive as long as they are needed; null: they are copied.
  static Model load(std::span<const std::byte> bytes, std::shared_ptr<void> owner = nullptr);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;
  size_t num_operators() const;
  // Properties of the source, with its producer ("producer_name", "producer_version"), domain and documentation.
  std::map<std::string, std::string> metadata() const;

  // Folds what is constant, removes what has no effect, merges what is equal, until nothing changes.
  OptimizeReport optimize(const OptimizeOptions& options = {});

  // Writes .onnx, or .ir; the file appears whole or not at all. `opset`: the operator set of ONNX, "keep"
  // (that of the source), "newest", or a number; a higher one is taken where an operator needs it. Documentation and
  // other metadata of the source are kept, training_info is not. Throws Io, Unsupported.
  void save(const std::filesystem::path& path, const std::string& opset = "keep") const;

  // Chooses kernels, packs weights, plans memory. compile() consumes the model: load it again where it is needed
  // further.
  Executable compile(const CompileOptions& options = {}) &&;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  State& state() const;
  std::unique_ptr<State> state_;
};

}  // namespace anfora
