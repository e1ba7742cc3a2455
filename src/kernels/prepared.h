// Kernels that are prepared when a model is loaded: weights packed, primitives created, the implementation chosen
// for what is known of the inputs. A reference kernel starts from nothing at each call; a prepared one keeps what
// does not change between calls. The plan asks the registry for every application of an operator and falls back to
// the reference kernel where nothing applies:
//
//     registry.add("Relu", "onednn:eltwise", [](const PrepareRequest& request) -> std::unique_ptr<PreparedKernel> {
//       if (request.inputs[0].dtype != DType::F32) return nullptr;
//       return std::make_unique<Eltwise>(request);
//     });
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace anfora::kernels {

// What is known of an input before the run.
struct InputDescription {
  bool present = false;              // false: an omitted optional input
  DType dtype = DType::Undefined;    // Undefined: not known, or not a tensor
  std::optional<Shape> shape;        // empty: not even the rank is known; −1: a dimension known only at run time
  const Tensor* constant = nullptr;  // the value, when it is the same in every run

  bool is_static() const;  // the whole shape is known
};

// One application of an operator. The references live as long as the prepared kernel.
struct PrepareRequest {
  std::string_view op;  // the operator's qualified name: "Conv", "com.microsoft::FusedConv"
  const AttributeSet& attributes;
  std::span<const InputDescription> inputs;  // trailing omitted inputs may be missing; this span only during the call
  size_t num_outputs = 1;

  // The description of input i; an omitted one past the end.
  const InputDescription& input(size_t i) const;
};

// A kernel for one application, which many threads may run at once. run() may be called with other shapes than the last
// time where the request left them open. It must bear that planned memory of output 0 is that of an input where the
// operator is declared in-place, and it allocates its outputs through the context as every kernel does.
class PreparedKernel {
 public:
  // What a run writes to, besides the context: one for each machine.
  class State {
   public:
    virtual ~State() = default;
  };

  virtual ~PreparedKernel() = default;
  virtual std::unique_ptr<State> make_state() const { return nullptr; }
  // What a run takes of the workspace, when that is known beforehand.
  virtual size_t workspace_bytes() const { return 0; }
  // `state` is what make_state() gave, and in no other run at the same time.
  virtual void run(KernelContext& context, State* state) const = 0;
  // Lets go of input i, a constant, if the kernel has a copy of its own in another layout: no run reads the elements again,
  // only dtype and shape. False: it still needs them.
  virtual bool release_constant(size_t /*i*/) { return false; }
};

// A prepared kernel with what it needs to run outside of a machine, by one thread at a time.
class PreparedRun {
 public:
  explicit PreparedRun(const PreparedKernel& kernel) : kernel_(kernel), state_(kernel.make_state()) {}
  void run(const AttributeSet& attributes, std::span<const Datum* const> inputs, std::span<Datum> outputs);

 private:
  const PreparedKernel& kernel_;
  std::unique_ptr<PreparedKernel::State> state_;
};

// Null when the implementation does not apply. Throws only for what is wrong whatever the implementation is.
using PrepareFunction = std::unique_ptr<PreparedKernel> (*)(const PrepareRequest& request);

// Operator → implementations, tried in the order in which they were added.
class PreparedRegistry {
 public:
  // `implementation` names the candidate in profiles: "onednn:convolution".
  void add(std::string_view op, std::string_view implementation, PrepareFunction prepare);

  struct Choice {
    std::unique_ptr<PreparedKernel> kernel;  // null: none applies
    std::string_view implementation;
  };
  Choice prepare(const PrepareRequest& request) const;
  // The names of the candidates for an operator, in the order in which they are tried.
  std::vector<std::string_view> implementations(std::string_view op) const;

 private:
  struct Candidate {
    std::string op;
    std::string implementation;
    PrepareFunction prepare;
  };
  std::vector<Candidate> candidates_;  // sorted by operator, stable
};

}  // namespace anfora::kernels
