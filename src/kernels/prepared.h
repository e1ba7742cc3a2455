// Kernels that are prepared when a model is loaded: weights packed, the implementation chosen for what is known of the inputs. A
// reference kernel starts from nothing at each call; a prepared one keeps what does not change between calls. Three things stay apart:
//
//   KernelData        what was decided of one application, and its packed weights: plain data, which could lie in a file
//   PreparedKernel    what follows from that, such as attributes that are read already; constant, shared by all threads
//   State             what a run writes to, such as primitives with their operands; one for each machine
//
// The plan asks the registry for every application of an operator and falls back to the reference kernel where nothing applies:
//
//     registry.add("Relu", "onednn:eltwise", [](KernelData& data) -> std::unique_ptr<PreparedKernel> {
//       if (data.inputs[0].dtype != DType::F32) return nullptr;
//       return std::make_unique<Eltwise>(data);
//     });
#pragma once

#include <initializer_list>
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
  bool present = false;            // false: an omitted optional input
  DType dtype = DType::Undefined;  // Undefined: not known, or not a tensor
  std::optional<Shape> shape;      // empty: not even the rank is known; −1: a dimension known only at run time
  Tensor constant;                 // the value, when it is the same in every run; its elements may be released, see has_packed()

  bool is_static() const;  // the whole shape is known
};

// A constant in a layout of the implementation's.
struct PackedConstant {
  size_t number = 0;            // by the implementation's own count
  std::vector<int64_t> layout;  // in its terms; nothing else packs to the same numbers
  Tensor elements;              // bytes
};

class PackedCopies;

// One application of an operator, as its implementation sees it.
struct KernelData {
  std::string op;  // the operator's qualified name: "Conv", "com.microsoft::FusedConv"
  AttributeSet attributes;
  std::vector<InputDescription> inputs;  // trailing omitted inputs may be missing
  size_t num_outputs = 1;
  // Of one that a registered kernel computes (anfora/kernel.h): the operator's types, by which results are checked; may be empty.
  std::string signature;

  // What preparing it adds.
  std::string implementation;          // "onednn:convolution", "reference"; set before: asked for, whatever is expected to be faster
  std::vector<PackedConstant> packed;  // grows when a run meets shapes that want another layout
  size_t workspace_bytes = 0;          // that a run takes, when that is known beforehand
  // While a program is built: what other kernels have packed. Null: not known.
  const PackedCopies* copies = nullptr;
  // While a program is built: whether its result or an input is concatenated along the last axis, so that rows may come to lie apart (plan/slices.h).
  bool may_have_rows_apart = false;

  // The description of input i; an omitted one past the end.
  const InputDescription& input(size_t i) const;
  bool is_static() const;  // the whole shapes of all inputs are known
  // Takes what another kernel has packed of the same constants in that layout, by all these numbers; false where none has.
  bool take_copies(std::initializer_list<size_t> numbers, const std::vector<int64_t>& layout);
};

// What the data has packed under that number; null where there is nothing.
const PackedConstant* find_packed(const KernelData& data, size_t number);

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
  // `state` is what make_state() gave, and in no other run at the same time.
  virtual void run(KernelContext& context, State* state) const = 0;
  // Whether there is a packed copy of input i, a constant: no run reads its elements again, only dtype and shape.
  virtual bool has_packed(size_t /*i*/) const { return false; }
  // Whether output i is allocated by KernelContext::allocate_output_rows().
  virtual bool writes_rows_apart(size_t /*i*/) const { return false; }
  // Whether input i is read by KernelContext::input_rows().
  virtual bool reads_rows_apart(size_t /*i*/) const { return false; }
  // Adds to the data what runs with other shapes would make first: before it is saved. One call at a time, and no run meanwhile.
  virtual void complete() const {}
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

// Null when the implementation does not apply; and, unless the data names it, where another one is expected to be faster (the cost
// model). It may name itself more precisely than it is registered. Throws only for what is wrong whatever the implementation is. The data
// outlives the kernel. What is packed already is taken as it is: so this also makes the kernel of data that was prepared before.
using PrepareFunction = std::unique_ptr<PreparedKernel> (*)(KernelData& data);

// Operator → implementations, tried in the order in which they were added.
class PreparedRegistry {
 public:
  // `implementation` names the candidate in profiles: "onednn:convolution".
  void add(std::string_view op, std::string_view implementation, PrepareFunction prepare);
  // A candidate that is only taken where it is asked for by its name: another form of one that is tried.
  void add_form(std::string_view op, std::string_view implementation, PrepareFunction prepare);

  // By the first candidate that applies, which the data then names; null: none does.
  std::unique_ptr<PreparedKernel> prepare(KernelData& data) const;
  // By that one, whatever is expected to be faster; null, with the data as it was, where it is unknown or does not apply.
  std::unique_ptr<PreparedKernel> prepare_as(KernelData& data, std::string_view implementation) const;
  // By the one that the data names; null where it is unknown or does not apply, as on another processor.
  std::unique_ptr<PreparedKernel> load(KernelData& data) const;
  // The names of the candidates for an operator, in the order in which they are tried.
  std::vector<std::string_view> implementations(std::string_view op) const;
  // Those that are only taken by their names.
  std::vector<std::string_view> forms(std::string_view op) const;

 private:
  struct Candidate {
    std::string op;
    std::string implementation;
    PrepareFunction prepare;
    bool is_form;
  };
  void add(Candidate candidate);
  std::vector<std::string_view> names(std::string_view op, bool of_forms) const;
  std::vector<Candidate> candidates_;  // sorted by operator, stable
};

}  // namespace anfora::kernels
