// What the wrappers of oneDNN share. Included in this folder only.
//
// The state of a prepared kernel has, for each combination of input shapes that it has met, an instance: a primitive, the
// memory objects that it is executed with, and what it needs in between. Constant operands (weights) are brought into the
// layout that the primitive prefers once, and shared by all instances of all states that agree on it. Scratch memory of
// primitives is the machine's workspace: the library's own is shared by primitives that one thread made, whoever runs them.
#pragma once

#include <dnnl.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "anfora/error.h"
#include "kernels/input_shapes.h"
#include "kernels/prepared.h"
#include "kernels/reference/strided_copy.h"

namespace anfora::kernels::onednn {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

const dnnl::engine& cpu();
// The stream of all threads: on a CPU it has no state, and runs a primitive in the thread that executes it.
dnnl::stream& stream();

// Empty for dtypes that oneDNN has no name for, or that this processor computes on slowly or not at all.
std::optional<memory::data_type> data_type(DType dtype);

// A dense row-major tensor of those dimensions, or the strides given.
memory::desc dense(std::span<const int64_t> dims, memory::data_type type);
memory::desc strided(std::span<const int64_t> dims, memory::data_type type, std::span<const int64_t> strides);
// Of those dimensions, in the layout that the primitive likes best.
memory::desc any_layout(std::span<const int64_t> dims, memory::data_type type);
// [batch, channels, spatial…] dimensions of what lies in memory as [batch, spatial…, channels].
memory::desc channels_last(std::span<const int64_t> dims, memory::data_type type);

// Between [batch, spatial…, channels] and [batch, channels, spatial…].
Shape channels_first(const Shape& shape);
Shape channels_at_the_end(const Shape& shape);

// A memory object without memory: set_data_handle() follows before each execution.
inline memory handle(const memory::desc& desc) { return memory(desc, cpu(), DNNL_MEMORY_NONE); }
// One that owns uninitialized memory.
inline memory owned(const memory::desc& desc) { return memory(desc, cpu()); }
// It lies where the tensor does, from an element on.
inline void point(memory& m, const Tensor& tensor, int64_t element = 0) {
  m.set_data_handle(const_cast<void*>(element_at(tensor, element)));
}

// Runs in the calling thread, and those of its arena.
void execute(const dnnl::primitive& primitive, const Arguments& arguments);
// Of a primitive of one thread: in the calling thread alone.
void execute(const dnnl::primitive& primitive, std::span<const dnnl_exec_arg_t> arguments);

// A primitive that runs ahead of another one, or behind it.
struct Step {
  dnnl::primitive primitive;
  Arguments arguments;
  void run() const { execute(primitive, arguments); }
};

// Attributes of a primitive whose scratch memory the caller provides.
dnnl::primitive_attr own_scratchpad();

// Whether there is an implementation, and one better than the library's reference and its plain loops.
inline bool is_optimized(const dnnl::primitive_desc& pd) {
  if (!pd) return false;
  const std::string_view name = pd.impl_info_str();
  return !name.starts_with("ref") && !name.starts_with("simple");
}

// A constant operand in the layouts that primitives asked for, which are stored in the kernel's data.
class PackedLayouts {
 public:
  // The constant of that number among what the data has packed.
  PackedLayouts(KernelData& data, size_t number) : data_(&data), number_(number) {}

  // `tensor` is seen as `plain`, which has its memory's layout. It may have been released since it was packed.
  memory get(const Tensor& tensor, const memory::desc& plain, const memory::desc& wanted);
  // The same for a tensor that `make` computes when no packed one serves.
  memory get(const std::function<Tensor()>& make, const memory::desc& plain, const memory::desc& wanted);
  // Whether there are packed copies and no primitive reads the tensor itself.
  bool replaces_tensor() const { return !known_.empty() && !reads_tensor_; }
  // The tensor of that shape again, which was seen as `plain`, from a packed copy; undefined where there is none.
  Tensor unpacked(DType dtype, const Shape& shape, const memory::desc& plain) const;
  // The layout asked for last that is packed; empty when there is none.
  const memory::desc* last() const { return known_.empty() ? nullptr : &known_.back().desc; }

 private:
  struct Known {
    memory::desc desc;
    memory object;
    Tensor elements;
  };
  const memory* find(const memory::desc& wanted);
  // A packed copy in whatever layout: of a compiled model that another number of threads was compiled for.
  std::optional<memory> stored(const memory::desc& plain) const;
  memory pack(const Tensor& tensor, const memory::desc& plain, const memory::desc& wanted);

  KernelData* data_;
  size_t number_;
  std::vector<Known> known_;  // with the library's own descriptions
  bool reads_tensor_ = false;
};

// A kernel that makes an Instance for each combination of input shapes. Derived classes implement make(): null when
// oneDNN does not apply to these shapes; the reference kernel runs then. Where all shapes are known beforehand it never does,
// and a constant that a derived class has packed may be released; otherwise one that it can compute again.
class ShapedKernel : public PreparedKernel {
 public:
  // Shapes that instances are kept for; the one used longest ago makes room.
  static constexpr size_t kMostInstances = 16;

  class Instance {
   public:
    virtual ~Instance() = default;
    // With scratchpads and placed objects in the workspace.
    virtual void execute(KernelContext& context) = 0;

   protected:
    // The scratch memory of a primitive (`desc`) becomes one of its arguments.
    void add_scratchpad(const memory::desc& desc, Arguments& arguments);
    Step make_reorder(const memory& from, const memory& to);
    // What a primitive has in the place of a tensor: another object where it wants another layout, by a reorder that runs ahead of it, or
    // behind it.
    memory read_as(const memory& given, const memory::desc& wanted);
    memory written_as(const memory& given, const memory::desc& wanted);
    // Ahead of the primitive, what one object holds comes into another.
    void copy_first(const memory& from, const memory& to) { before_.push_back(make_reorder(from, to)); }
    // With the reorders around it, and what follows it on its result.
    void execute_between(const dnnl::primitive& primitive, const Arguments& arguments, const Step* next = nullptr) const;
    // An object of its own for what is handed on within execute().
    void place_in_workspace(const memory& object);

   private:
    friend class ShapedKernel;
    size_t workspace_bytes() const { return scratchpad_bytes_ + placed_bytes_; }
    void use_workspace(void* workspace);

    std::vector<Step> before_, after_;
    std::vector<memory> scratchpads_;
    size_t scratchpad_bytes_ = 0;                     // of the largest: primitives run one after another
    std::vector<std::pair<memory, size_t>> placed_;  // with their offsets, behind that
    size_t placed_bytes_ = 0;
  };

  explicit ShapedKernel(KernelData& data);
  std::unique_ptr<State> make_state() const final;
  void run(KernelContext& context, State* state) const final;
  bool has_packed(size_t i) const final { return constant(i) && (is_static_ ? packs(i) : restores(i)); }
  // Makes the instance for the shapes known now. False when oneDNN does not apply to them.
  bool prepare_static();
  // The shapes of the inputs; an omitted one has none.
  using Shapes = InputShapes;
  // The shapes as known beforehand, for a batch of one where the batch is open; empty where more is.
  std::optional<Shapes> shapes_of_one() const;
  // Whether there is an instance for them; packs what it reads.
  bool applies(Shapes shapes) const { return make_entry(std::move(shapes)).instance != nullptr; }
  // Whether constant i follows from what is packed of it, before the first run: shapes that are not known may want it in another way.
  virtual bool restores(size_t /*i*/) const { return false; }
  virtual Tensor restored(size_t /*i*/) const { return {}; }
  // One call at a time: what it packs is shared by all states.
  virtual std::unique_ptr<Instance> make(const Shapes& shapes) const = 0;

 protected:
  // Whether instances for the shapes so far read a packed copy of constant i, and others could be made from it.
  virtual bool packs(size_t /*i*/) const { return false; }

  const AttributeSet& attributes() const { return data_.attributes; }
  // The implementation that was chosen; empty as long as it is to be found out whether this one is expected to be fast.
  std::string_view implementation() const { return data_.implementation; }
  // Whether an instance was made for shapes that hold in all runs.
  bool is_static() const { return is_static_; }
  PackedLayouts packed_layouts(size_t number) const { return PackedLayouts(data_, number); }
  // That constant, also where its elements were released.
  Tensor given_or_restored(size_t i) const;
  // What is computed of the constant input i, as the data has it under that number, or another kernel's data, or as `make` computes it now. Null where the
  // constant is gone and what is packed has another layout.
  const Tensor* packed_or_made(size_t i, size_t number, const std::vector<int64_t>& layout, const std::function<Tensor(const Tensor&)>& make) const;
  // The constant value of input i; null when it is not constant.
  const Tensor* constant(size_t i) const {
    const Tensor& value = data_.input(i).constant;
    return value.defined() ? &value : nullptr;
  }

 private:
  struct Entry {
    Shapes shapes;
    int threads;
    std::unique_ptr<Instance> instance;  // null: the reference kernel
  };
  struct Instances : State {
    std::vector<Entry> entries;  // the one used last is at the end
  };
  Entry make_entry(Shapes shapes) const;
  void run_reference(KernelContext& context) const;

  bool is_static_ = false;  // all shapes are known, and oneDNN applies to them
  KernelData& data_;
  KernelFunction reference_;
  mutable std::mutex making_;
  mutable std::optional<Entry> first_;  // of the shapes known beforehand, until a state takes it
};

// Prepares K, which is derived from ShapedKernel and made from the data: null when static shapes do not suit it.
template <class K, class... Arguments>
std::unique_ptr<PreparedKernel> prepare_shaped(KernelData& data, Arguments... arguments) {
  auto kernel = std::make_unique<K>(data, arguments...);
  return kernel->prepare_static() ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::onednn
