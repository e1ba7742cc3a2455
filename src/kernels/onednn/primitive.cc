#include "kernels/onednn/primitive.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <numeric>
#include <optional>

#include "kernels/generated/isa.h"
#include "kernels/generated/product_layout.h"
#include "support/available_memory.h"
#include "support/deferred_elements.h"
#include "support/lasting_memory.h"
#include "support/parallel.h"
#include "support/passing_elements.h"

namespace anfora::kernels::onednn {
namespace {

memory::dims to_dims(std::span<const int64_t> dims) { return {dims.begin(), dims.end()}; }

// Of an object in the workspace, so that the next one is aligned to a cache line.
size_t bytes_of(const memory::desc& desc) { return (desc.get_size() + 63) / 64 * 64; }

// Ahead of all else that oneDNN does.
void limit_isa() {
  const auto limit = generated::limit_beyond_onednn();
  if (limit == generated::Isa::Sse2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
  if (limit == generated::Isa::Avx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
}

}  // namespace

const dnnl::engine& cpu() {
  static const dnnl::engine engine = [] {
    limit_isa();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::stream& stream() {
  static auto& stream = *new dnnl::stream(cpu());
  return stream;
}

std::optional<memory::data_type> data_type(DType dtype) {
  auto has = [](dnnl::cpu_isa isa) {
    auto have = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    return (have & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
  };
  switch (dtype) {
    case DType::F32: return memory::data_type::f32;
    case DType::BF16:
      return has(dnnl::cpu_isa::avx512_core_bf16) ? std::optional(memory::data_type::bf16) : std::nullopt;
    case DType::F16: return has(dnnl::cpu_isa::avx512_core_fp16) ? std::optional(memory::data_type::f16) : std::nullopt;
    default: return std::nullopt;
  }
}

memory::desc dense(std::span<const int64_t> dims, memory::data_type type) {
  memory::dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= std::max<int64_t>(dims[i], 1)) strides[i] = stride;
  return memory::desc(to_dims(dims), type, strides);
}

memory::desc strided(std::span<const int64_t> dims, memory::data_type type, std::span<const int64_t> strides) {
  return memory::desc(to_dims(dims), type, to_dims(strides));
}

memory::desc any_layout(std::span<const int64_t> dims, memory::data_type type) {
  return memory::desc(to_dims(dims), type, memory::format_tag::any);
}

memory::desc channels_last(std::span<const int64_t> dims, memory::data_type type) {
  memory::dims strides(dims.size());
  strides[1] = 1;
  int64_t stride = dims[1];
  for (size_t i = dims.size(); i-- > 2; stride *= dims[i]) strides[i] = stride;
  strides[0] = stride;
  return memory::desc(to_dims(dims), type, strides);
}

Shape channels_first(const Shape& shape) {
  Shape result = shape;
  std::rotate(result.begin() + 1, result.end() - 1, result.end());
  return result;
}
Shape channels_at_the_end(const Shape& shape) {
  Shape result = shape;
  std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  return result;
}

// As primitive::execute(), which makes a vector of the arguments.
void execute(const dnnl::primitive& primitive, const Arguments& arguments) {
  boost::container::small_vector<dnnl_exec_arg_t, 16> list;
  for (const auto& [index, argument] : arguments) list.push_back({index, argument.get()});
  lend_threads();
  execute(primitive, list);
}

void execute(const dnnl::primitive& primitive, std::span<const dnnl_exec_arg_t> arguments) {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive.get(), stream().get(), static_cast<int>(arguments.size()), arguments.data()),
      "could not execute a primitive");
}

namespace {

void reorder_once(memory& from, memory& to) {
  const dnnl::reorder reorder(from, to);
  lend_threads();
  reorder.execute(stream(), from, to);
}

// A layout in numbers; empty for one that the library keeps to itself.
std::vector<int64_t> numbers_of(const memory::desc& desc) {
  if (desc.get_format_kind() != memory::format_kind::blocked) return {};
  std::vector<int64_t> numbers{static_cast<int64_t>(desc.get_data_type()), static_cast<int64_t>(desc.get_size())};
  for (const memory::dims& part : {desc.get_dims(), desc.get_padded_dims(), desc.get_padded_offsets(), desc.get_strides(),
                                   desc.get_inner_blks(), desc.get_inner_idxs()}) {
    numbers.push_back(std::ssize(part));
    numbers.insert(numbers.end(), part.begin(), part.end());
  }
  return numbers;
}

// The description with these numbers, of which the library has no constructor: one of its named layouts.
std::optional<memory::desc> description_of(const std::vector<int64_t>& numbers, const memory::desc& plain) {
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; ++tag) {
    const memory::desc desc(plain.get_dims(), plain.get_data_type(), static_cast<memory::format_tag>(tag), /*allow_empty=*/true);
    if (desc && numbers_of(desc) == numbers) return desc;
  }
  return std::nullopt;
}

}  // namespace

memory PackedLayouts::get(const Tensor& tensor, const memory::desc& plain, const memory::desc& wanted) {
  if (const memory* packed = find(wanted)) return *packed;
  if (wanted != plain || !DeferredElements::identity(tensor)) return pack(tensor, plain, wanted);
  reads_tensor_ = true;
  memory original = handle(plain);
  point(original, tensor);
  return original;
}

memory PackedLayouts::get(const std::function<Tensor()>& make, const memory::desc& plain, const memory::desc& wanted) {
  const memory* packed = find(wanted);
  return packed ? *packed : pack(make(), plain, wanted);
}

const memory* PackedLayouts::find(const memory::desc& wanted) {
  auto known = std::ranges::find(known_, wanted, &Known::desc);
  if (known != known_.end()) return &known->object;
  const std::vector<int64_t> layout = numbers_of(wanted);
  if (layout.empty()) return nullptr;
  auto find_stored = [&] {
    return std::ranges::find_if(data_->packed,
                                [&](const PackedConstant& packed) { return packed.number == number_ && packed.layout == layout; });
  };
  auto stored = find_stored();
  if (stored == data_->packed.end()) {
    if (!data_->take_copies({number_}, layout)) return nullptr;
    stored = find_stored();
  }
  memory object(wanted, cpu(), const_cast<void*>(stored->elements.raw()));
  return &known_.emplace_back(wanted, object, stored->elements).object;
}

std::optional<memory> PackedLayouts::stored(const memory::desc& plain) const {
  for (const PackedConstant& packed : data_->packed) {
    if (packed.number != number_) continue;
    if (const auto desc = description_of(packed.layout, plain)) {
      return memory(*desc, cpu(), const_cast<void*>(packed.elements.raw()));
    }
  }
  return std::nullopt;
}

Tensor PackedLayouts::unpacked(DType dtype, const Shape& shape, const memory::desc& plain) const {
  std::optional<memory> packed = known_.empty() ? stored(plain) : std::optional(known_.back().object);
  if (!packed) return {};
  Tensor tensor = Tensor::allocate(dtype, shape);
  memory original = handle(plain);
  point(original, tensor);
  reorder_once(*packed, original);
  stream().wait();
  return tensor;
}

memory PackedLayouts::pack(const Tensor& tensor, const memory::desc& plain, const memory::desc& wanted) {
  Tensor elements = LastingMemory::allocate(DType::U8, Shape{static_cast<int64_t>(wanted.get_size())});
  memory packed(wanted, cpu(), elements.raw());
  if (DeferredElements::identity(tensor)) {
    const PassingElements passing(tensor);  // the packed copy is what is read from now on
    memory original = handle(plain);
    original.set_data_handle(const_cast<void*>(passing.raw()));
    reorder_once(original, packed);
    stream().wait();
  } else if (!known_.empty()) {
    reorder_once(known_.back().object, packed);
  } else if (std::optional<memory> other = stored(plain)) {
    reorder_once(*other, packed);
  } else {
    throw Error(ErrorCode::Unsupported, "weights are packed in another layout than this processor wants");
  }
  stream().wait();
  std::vector<int64_t> layout = numbers_of(wanted);
  if (layout.empty()) {
    reads_tensor_ = true;  // to pack it again, since nobody else could tell what this is
  } else {
    data_->packed.push_back({number_, std::move(layout), elements});
  }
  known_.emplace_back(wanted, packed, std::move(elements));
  return packed;
}

ShapedKernel::ShapedKernel(KernelData& data) : data_(data), reference_(reference_kernels().find(data.op)) {}

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void ShapedKernel::Instance::add_scratchpad(const memory::desc& desc, Arguments& arguments) {
  if (desc.get_size() == 0) return;
  scratchpad_bytes_ = std::max(scratchpad_bytes_, bytes_of(desc));
  scratchpads_.push_back(arguments[DNNL_ARG_SCRATCHPAD] = handle(desc));
}

Step ShapedKernel::Instance::make_reorder(const memory& from, const memory& to) {
  const dnnl::reorder::primitive_desc pd(from, to, own_scratchpad());
  Step reorder{dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
  add_scratchpad(pd.scratchpad_desc(), reorder.arguments);
  return reorder;
}

memory ShapedKernel::Instance::read_as(const memory& given, const memory::desc& wanted) {
  if (given.get_desc() == wanted) return given;
  const memory inside = handle(wanted);
  place_in_workspace(inside);
  copy_first(given, inside);
  return inside;
}

memory ShapedKernel::Instance::written_as(const memory& given, const memory::desc& wanted) {
  if (given.get_desc() == wanted) return given;
  const memory inside = handle(wanted);
  place_in_workspace(inside);
  after_.push_back(make_reorder(inside, given));
  return inside;
}

void ShapedKernel::Instance::execute_between(const dnnl::primitive& primitive, const Arguments& arguments, const Step* next) const {
  for (const Step& step : before_) step.run();
  onednn::execute(primitive, arguments);
  if (next) next->run();
  for (const Step& step : after_) step.run();
}

void ShapedKernel::Instance::place_in_workspace(const memory& object) {
  placed_.emplace_back(object, placed_bytes_);
  placed_bytes_ += bytes_of(object.get_desc());
}

void ShapedKernel::Instance::use_workspace(void* workspace) {
  for (memory& scratchpad : scratchpads_) scratchpad.set_data_handle(workspace);
  std::byte* const begin = static_cast<std::byte*>(workspace) + scratchpad_bytes_;
  for (auto& [object, offset] : placed_) object.set_data_handle(begin + offset);
}

std::optional<ShapedKernel::Shapes> ShapedKernel::shapes_of_one() const {
  Shapes shapes = input_shapes(data_);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!data_.inputs[i].present) continue;
    if (!shapes[i]) return std::nullopt;
    if (!shapes[i]->empty() && shapes[i]->front() < 0) shapes[i]->front() = 1;
    if (std::ranges::any_of(*shapes[i], [](int64_t dim) { return dim < 0; })) return std::nullopt;
  }
  return shapes;
}

namespace {

// The library counts along an axis by `int`, in multiples of its blocks.
bool are_countable(const InputShapes& shapes) {
  constexpr int64_t kMostElements = 1 << 30;
  auto is_countable = [](const std::optional<Shape>& shape) {
    return !shape || std::ranges::all_of(*shape, [](int64_t extent) { return extent <= kMostElements; });
  };
  return std::ranges::all_of(shapes, is_countable);
}

// The library reads what it could not allocate while it describes a primitive, and crashes: so there must be memory for some.
void expect_memory() {
  constexpr size_t kOfPrimitive = 8 << 20;
  if (!can_allocate(kOfPrimitive)) throw Error(ErrorCode::ResourceExhausted, "out of memory");
}

}  // namespace

ShapedKernel::Entry ShapedKernel::make_entry(Shapes shapes) const {
  std::unique_ptr<Instance> instance;
  if (!are_countable(shapes)) return {std::move(shapes), thread_count(), nullptr};
  std::lock_guard lock(making_);
  expect_memory();
  try {
    instance = make(shapes);
  } catch (const dnnl::error& error) {
    // What the library has no implementation of, or refuses, is left to the reference kernel.
    if (error.status == dnnl_out_of_memory) throw Error(ErrorCode::ResourceExhausted, "out of memory");
  }
  return {std::move(shapes), thread_count(), std::move(instance)};
}

std::unique_ptr<PreparedKernel::State> ShapedKernel::make_state() const {
  auto state = std::make_unique<Instances>();
  std::lock_guard lock(making_);
  if (first_) state->entries.push_back(std::move(*first_));
  first_.reset();
  return state;
}

bool ShapedKernel::prepare_static() {
  Shapes shapes;
  for (const InputDescription& input : data_.inputs) {
    if (!input.present) {
      shapes.emplace_back();
    } else if (input.is_static()) {
      shapes.emplace_back(*input.shape);
    } else {
      return true;
    }
  }
  first_ = make_entry(std::move(shapes));
  is_static_ = first_->instance != nullptr;
  if (is_static_) data_.workspace_bytes = first_->instance->workspace_bytes();
  return is_static_;
}

void ShapedKernel::run_reference(KernelContext& context) const {
  std::vector<Datum> constants(context.num_inputs());
  std::vector<const Datum*> inputs;
  bool has_restored = false;
  {
    std::lock_guard lock(making_);
    for (size_t i = 0; i < constants.size(); ++i) {
      const bool is_restored = has_packed(i);
      if (is_restored) constants[i] = Datum(restored(i));
      inputs.push_back(is_restored ? &constants[i] : &context.input_datum(i));
      has_restored = has_restored || is_restored;
    }
  }
  has_restored ? anfora::kernels::run_reference(context, data_.op, inputs) : reference_(context);
}

void ShapedKernel::run(KernelContext& context, State* state) const {
  std::vector<Entry>& entries = static_cast<Instances*>(state)->entries;
  auto matches = [&](const Entry& entry) {  // a primitive is made for a number of threads
    return entry.threads == thread_count() && are_input_shapes(entry.shapes, context);
  };
  if (auto found = std::ranges::find_if(entries, matches); found != entries.end()) {
    std::rotate(found, found + 1, entries.end());
  } else {
    if (entries.size() == kMostInstances) entries.erase(entries.begin());
    entries.push_back(make_entry(input_shapes(context)));
  }
  Instance* instance = entries.back().instance.get();
  if (!instance) {
    if (is_static_) throw Error(ErrorCode::Internal, "an input has another shape than was inferred");
    return run_reference(context);
  }
  if (const size_t bytes = instance->workspace_bytes(); bytes > 0) instance->use_workspace(context.workspace(bytes));
  try {
    instance->execute(context);
    stream().wait();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw Error(ErrorCode::ResourceExhausted, "out of memory");
    throw Error(ErrorCode::Internal, fmt::format("oneDNN: {}", error.what()));
  }
}

Tensor ShapedKernel::given_or_restored(size_t i) const { return DeferredElements::identity(*constant(i)) ? *constant(i) : restored(i); }

const Tensor* ShapedKernel::packed_or_made(size_t i, size_t number, const std::vector<int64_t>& layout, const std::function<Tensor(const Tensor&)>& make) const {
  const PackedConstant* packed = find_packed(data_, number);
  if (!packed) {
    const Tensor weights = given_or_restored(i);
    if (!DeferredElements::identity(weights)) return nullptr;
    if (!data_.take_copies({number}, layout)) data_.packed.push_back({number, layout, make(weights)});
    packed = &data_.packed.back();
  }
  return packed->layout == layout ? &packed->elements : nullptr;
}

}  // namespace anfora::kernels::onednn
