// Conv and ConvTranspose, plain and lowered.
//
// The plain operators take and give [batch, channels, spatial…]; the lowered ones ("LoweredConv") may take and give
// [batch, spatial…, channels], which the fast implementations work on directly, and end with a bias, a tensor Z to be
// added and an activation. Where the layouts of the implementation and of the tensors differ, the data is reordered on
// the way in and out.
#include <algorithm>
#include <cstring>

#include "kernels/onednn/convolution_parts.h"
#include "kernels/onednn/epilogue.h"
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"

namespace anfora::kernels::onednn {
namespace {

// How Z is added: by a post-operation, the first one, that reads it beside; or by the primitive to what the result holds already,
// a copy of Z. The latter is what implementations by GEMM can do, which some channel counts are left with.
enum class AddendBy : uint8_t { Operation, Sum };

// Version 3.2 of the library adds bias and activation of strided transposed convolutions to partial sums as well, where it takes input channels
// and taps in several batches, of a size that it keeps to itself. So they are another primitive there.
bool ends_partial_sums(const dnnl::primitive_desc& pd) {
  return pd && std::string_view(pd.impl_info_str()).find("brgconv_strided") != std::string_view::npos;
}

// Whether an implementation has as many threads as where its primitive was made, wherever that is executed. Those by GEMM do not.
bool stays_in_its_thread(const dnnl::primitive_desc& pd) {
  if (!pd) return false;
  const std::string_view name = pd.impl_info_str();
  return name.starts_with("brg") || name.starts_with("jit");
}

// A bias, as it is broadcast to activations.
memory::desc of_channels(const memory::desc& activations) {
  memory::dims dims(activations.get_dims().size(), 1);
  dims[1] = activations.get_dims()[1];
  return dense(dims, activations.get_data_type());
}

// One primitive, the memory objects around it, and the reorders before and behind it.
class ConvolutionInstance : public ShapedKernel::Instance {
 public:
  template <class PrimitiveDesc>
  void set_up(const PrimitiveDesc& pd, const memory::desc& x, const memory::desc& y) {
    primitive_ = dnnl::primitive(pd);
    arguments_[DNNL_ARG_SRC] = read_as(x_ = handle(x), pd.src_desc());
    arguments_[DNNL_ARG_DST] = written_as(y_ = handle(y), pd.dst_desc());
    add_scratchpad(pd.scratchpad_desc(), arguments_);
  }
  void set_weights(memory constant) { arguments_[DNNL_ARG_WEIGHTS] = constant; }
  void set_variable_weights(const memory::desc& given, const memory::desc& wanted) {
    arguments_[DNNL_ARG_WEIGHTS] = read_as(*(w_ = handle(given)), wanted);
  }
  void set_bias(const memory::desc& desc) { arguments_[DNNL_ARG_BIAS] = *(bias_ = handle(desc)); }
  // Bias and post-operations as another primitive, behind the first: a sum with `channels`, a bias or zeros.
  bool set_epilogue(const memory::desc& channels, bool has_bias, const dnnl::primitive_attr& attr) {
    const memory y = arguments_.at(DNNL_ARG_DST);
    const dnnl::binary::primitive_desc pd(cpu(), dnnl::algorithm::binary_add, y.get_desc(), channels, y.get_desc(), attr, true);
    if (!is_optimized(pd)) return false;
    const memory added = has_bias ? handle(channels) : owned(channels);
    if (has_bias) {
      bias_ = added;
    } else {
      std::memset(added.get_data_handle(), 0, channels.get_size());
    }
    epilogue_ = {pd, {{DNNL_ARG_SRC_0, y}, {DNNL_ARG_SRC_1, added}, {DNNL_ARG_DST, y}}};
    add_scratchpad(pd.scratchpad_desc(), epilogue_->arguments);
    return true;
  }
  void set_addend(const memory::desc& desc, AddendBy how) {
    addend_ = handle(desc);
    if (how == AddendBy::Operation) {
      (epilogue_ ? epilogue_->arguments : arguments_)[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] = *addend_;
    } else {
      copy_first(*addend_, arguments_[DNNL_ARG_DST]);
    }
  }
  void set_output(DType dtype, Shape shape) { dtype_ = dtype, shape_ = std::move(shape); }

  void execute(KernelContext& context) override {
    Tensor& y = context.allocate_output(0, dtype_, shape_);
    point(x_, context.input(0));
    if (w_) point(*w_, context.input(1));
    if (bias_) point(*bias_, context.input(2));
    if (addend_) point(*addend_, context.input(3));
    point(y_, y);
    execute_between(primitive_, arguments_, epilogue_ ? &*epilogue_ : nullptr);
  }

 private:
  dnnl::primitive primitive_;
  Arguments arguments_;
  std::optional<Step> epilogue_;
  memory x_, y_;
  std::optional<memory> w_, bias_, addend_;
  DType dtype_ = DType::F32;
  Shape shape_;
};

class Convolution : public ShapedKernel {
 public:
  Convolution(KernelData& data, bool transposed, std::function<Tensor()> weights = nullptr)
      : ShapedKernel(data),
        transposed_(transposed),
        channels_last_(data.attributes.get_int("channels_last", 0) != 0),
        weights_(std::move(weights)),
        dtype_(data.input(0).dtype),
        type_(*data_type(dtype_)) {}

  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    auto shape = resolve(shapes);
    if (!shape) return nullptr;
    const Shape result = channels_last_ ? channels_at_the_end(shape->y) : shape->y;
    bool has_bias = shapes.size() > 2 && shapes[2].has_value(), has_addend = shapes.size() > 3 && shapes[3].has_value();
    if (has_bias && *shapes[2] != Shape{shape->y[1]}) return nullptr;
    if (has_addend && *shapes[3] != result) return nullptr;
    if (wants_axis(*shapes[1])) shape->add_axis();

    const memory::desc x = activations(shape->x), y = activations(shape->y), weights = given_weights(shape->w);
    const memory::desc bias = has_bias ? dense(*shapes[2], type_) : memory::desc();
    if (auto parts = in_parts(*shape, bias, has_addend, result)) return parts;
    std::unique_ptr<ConvolutionInstance> instance;
    memory::desc wanted;
    auto set_up = [&]<class Primitive>(AddendBy how) {
      const auto attr = ending(y, has_addend ? std::optional(how) : std::nullopt);
      if (!attr) return false;
      const memory::desc any_weights = any_layout(weights.get_dims(), type_);
      auto pd = description<Primitive>(*shape, any_weights, bias, *attr);
      const bool ends_apart = ends_partial_sums(pd) && (has_bias || attr->get_post_ops().len() > 0);
      if (ends_apart) pd = description<Primitive>(*shape, any_weights, memory::desc(), own_scratchpad());
      if (!is_optimized(pd)) return false;
      instance = std::make_unique<ConvolutionInstance>();
      instance->set_up(pd, x, y);
      if (ends_apart && (how == AddendBy::Sum || !instance->set_epilogue(of_channels(y), has_bias, *attr))) return false;
      if (has_bias && !ends_apart) instance->set_bias(bias);
      if (has_addend) instance->set_addend(y, how);
      wanted = pd.weights_desc();
      return true;
    };
    auto exists = [&](AddendBy how) {
      return transposed_ ? set_up.operator()<dnnl::deconvolution_forward>(how) : set_up.operator()<dnnl::convolution_forward>(how);
    };
    if (!exists(AddendBy::Operation) && !(has_addend && exists(AddendBy::Sum))) return nullptr;
    if (has_constant_weights()) {
      instance->set_weights(packed_weights(weights, wanted));
    } else {
      instance->set_variable_weights(weights, wanted);
    }
    instance->set_output(dtype_, result);
    return instance;
  }

  bool restores(size_t i) const override { return packs(i); }
  Tensor restored(size_t i) const override {
    const Shape& w = constant(i)->shape();
    Shape grouped = grouped_weights(w);
    if (wants_axis(w)) grouped.push_back(1);
    return packed_.unpacked(dtype_, w, given_weights(grouped));
  }

 protected:
  bool packs(size_t i) const override { return i == 1 && packed_.replaces_tensor(); }

 private:
  bool has_constant_weights() const { return weights_ || constant(1); }
  memory packed_weights(const memory::desc& given, const memory::desc& wanted) const {
    return weights_ ? packed_.get(weights_, given, wanted) : packed_.get(*constant(1), given, wanted);
  }

  template <class Primitive>
  typename Primitive::primitive_desc description(const ConvolutionShape& shape, const memory::desc& weights, const memory::desc& bias,
                                                 const dnnl::primitive_attr& attr) const {
    const auto direct = transposed_ ? dnnl::algorithm::deconvolution_direct : dnnl::algorithm::convolution_direct;
    return {cpu(), dnnl::prop_kind::forward_inference, direct, primitive_layout(activations(shape.x), shape), weights, bias,
            primitive_layout(activations(shape.y), shape), shape.strides, shape.dilations, shape.pad_begin, shape.pad_end, attr,
            /*allow_empty=*/true};
  }

  // What becomes of a result of that layout. Empty when the library has no such activation.
  std::optional<dnnl::primitive_attr> ending(const memory::desc& y, std::optional<AddendBy> addend) const {
    dnnl::post_ops operations;
    if (addend == AddendBy::Operation) operations.append_binary(dnnl::algorithm::binary_add, y);
    if (addend == AddendBy::Sum) operations.append_sum();
    if (!append_activation(operations, attributes())) return std::nullopt;
    dnnl::primitive_attr attr = own_scratchpad();
    attr.set_post_ops(operations);
    return attr;
  }

  // Null where it is computed as a whole.
  std::unique_ptr<ConvolutionOfParts> in_parts(const ConvolutionShape& given, const memory::desc& bias, bool has_addend, const Shape& result) const {
    if (transposed_ || !channels_last_ || !has_constant_weights()) return nullptr;
    const ConvolutionShape whole = given.with_pixels_as_rows();
    const std::vector<ConvolutionPart> parts = parts_of(whole, thread_count());
    if (parts.empty()) return nullptr;
    auto instance = std::make_unique<ConvolutionOfParts>(whole, dtype_, result);
    memory::desc wanted = any_layout(whole.w, type_);  // the same for all, as the first one has it
    auto add_primitive = [&](const ConvolutionPart& part) {
      if (instance->has_primitive(part.extents)) return true;
      const ConvolutionShape shape = part.shape_in(whole);
      const auto attr = ending(activations(shape.y), has_addend ? std::optional(AddendBy::Operation) : std::nullopt);
      if (!attr) return false;
      const auto pd = description<dnnl::convolution_forward>(shape, wanted, bias, *attr);
      if (!stays_in_its_thread(pd)) return false;
      wanted = pd.weights_desc();
      instance->add_primitive(part.extents, pd);
      return true;
    };
    bool has_all = false;
    with_threads(1, [&] { has_all = std::ranges::all_of(parts, add_primitive); });
    if (!has_all) return nullptr;
    instance->set_weights(packed_weights(given_weights(whole.w), wanted));
    if (!bias.is_zero()) instance->set_bias(bias);
    if (has_addend) instance->set_addend();
    for (const ConvolutionPart& part : parts) instance->add_part(part);
    return instance;
  }

  // Empty when the operands do not fit, which the reference kernel has words for, or when there is nothing to compute.
  std::optional<ConvolutionShape> resolve(const Shapes& shapes) const {
    if (shapes.size() < 2 || !shapes[0] || !shapes[1]) return std::nullopt;
    ConvolutionShape s;
    size_t rank = shapes[0]->size();
    if (rank < 3 || rank > 5 || shapes[1]->size() != rank) return std::nullopt;
    s.x = channels_last_ ? channels_first(*shapes[0]) : *shapes[0];
    const Shape& w = *shapes[1];
    s.groups = attributes().get_int("group", 1);
    std::span<const int64_t> spatial = std::span(s.x).subspan(2), kernel = std::span(w).subspan(2);
    Window window = read_window(attributes(), spatial.size(), kernel);
    transposed_ ? transposed_window(window, attributes(), spatial) : resolve_window(window, spatial);
    int64_t in = transposed_ ? w[0] : w[1] * s.groups, out = transposed_ ? w[1] * s.groups : w[0];
    if (s.groups < 1 || in != s.x[1] || in % s.groups != 0 || out % s.groups != 0) return std::nullopt;
    s.y = {s.x[0], out};
    s.w = grouped_weights(w);
    for (const WindowAxis& axis : window.axes) {
      int64_t read = transposed_ ? axis.output : axis.input, written = transposed_ ? axis.input : axis.output;
      s.y.push_back(written);
      s.strides.push_back(axis.stride);
      s.dilations.push_back(axis.dilation - 1);
      s.pad_begin.push_back(axis.pad_begin);
      // The library derives the extents from the pads; where a formula rounds, the pad at the end absorbs the rest.
      int64_t steps = (transposed_ ? read : written) - 1;
      s.pad_end.push_back(steps * axis.stride + axis.reach() - axis.pad_begin - (transposed_ ? written : read));
    }
    if (element_count(s.x) == 0 || element_count(s.y) == 0 || element_count(w) == 0) return std::nullopt;
    return s;
  }

  // The library's kernels of depthwise convolutions know images only; of rows it takes them for products of blocks of channels.
  bool wants_axis(const Shape& w) const {
    const int64_t groups = attributes().get_int("group", 1);
    return !transposed_ && w.size() == 3 && groups > 1 && w[0] == groups && w[1] == 1;
  }

  // The shape of W as [groups,] out, in, kernel.
  Shape grouped_weights(const Shape& w) const {
    const int64_t groups = attributes().get_int("group", 1);
    Shape shape;
    if (groups > 1) shape.push_back(groups);
    shape.push_back(transposed_ ? w[1] : w[0] / groups), shape.push_back(transposed_ ? w[0] / groups : w[1]);
    shape.insert(shape.end(), w.begin() + 2, w.end());
    return shape;
  }

  memory::desc activations(const Shape& dims) const {
    return channels_last_ ? channels_last(dims, type_) : dense(dims, type_);
  }

  // Channels-last tensors are used as they are. Of the others a pointwise convolution is a matrix product already; the
  // rest is worth a reorder.
  memory::desc primitive_layout(const memory::desc& given, const ConvolutionShape& shape) const {
    bool pointwise = shape.groups == 1 && std::ranges::all_of(std::span(shape.w).last(shape.x.size() - 2),
                                                              [](int64_t extent) { return extent == 1; });
    return channels_last_ || pointwise ? given : memory::desc(given.get_dims(), type_, memory::format_tag::any);
  }

  // The tensor W as [groups,] out, in, kernel. ConvTranspose stores in before out.
  memory::desc given_weights(const Shape& w) const {
    if (!transposed_) return dense(w, type_);
    size_t out = attributes().get_int("group", 1) > 1 ? 1 : 0;
    Shape stored = w;
    std::swap(stored[out], stored[out + 1]);
    memory::dims strides = dense(stored, type_).get_strides();
    std::swap(strides[out], strides[out + 1]);
    return strided(w, type_, strides);
  }

  bool transposed_, channels_last_;
  std::function<Tensor()> weights_;  // where the constant itself may be gone
  DType dtype_;
  memory::data_type type_;
  mutable PackedLayouts packed_ = packed_layouts(1);
};

struct ForwardConvolution : Convolution {
  explicit ForwardConvolution(KernelData& data, std::function<Tensor()> weights = nullptr) : Convolution(data, false, std::move(weights)) {}
};
struct TransposedConvolution : Convolution {
  explicit TransposedConvolution(KernelData& data) : Convolution(data, true) {}
};

template <class K>
std::unique_ptr<PreparedKernel> prepare_convolution(KernelData& data) {
  if (!data_type(data.input(0).dtype)) return nullptr;
  auto kernel = std::make_unique<K>(data);
  if (!kernel->prepare_static()) return nullptr;
  if (const auto one = data.is_static() ? std::nullopt : kernel->shapes_of_one()) kernel->applies(*one);  // for what it packs
  return kernel;
}

}  // namespace

std::unique_ptr<ShapedKernel> direct_convolution(KernelData& data, std::function<Tensor()> weights) {
  return std::make_unique<ForwardConvolution>(data, std::move(weights));
}

void register_convolution(PreparedRegistry& registry) {
  for (const char* name : {"Conv", "LoweredConv"}) {
    registry.add(name, "onednn:convolution", prepare_convolution<ForwardConvolution>);
  }
  for (const char* name : {"ConvTranspose", "LoweredConvTranspose"}) {
    registry.add(name, "onednn:deconvolution", prepare_convolution<TransposedConvolution>);
  }
}

}  // namespace anfora::kernels::onednn
