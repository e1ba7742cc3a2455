// MaxPool and AveragePool, plain and lowered (channels last).
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/reference/window.h"

namespace anfora::kernels::onednn {
namespace {

class PoolingInstance : public ShapedKernel::Instance {
 public:
  PoolingInstance(const dnnl::pooling_forward::primitive_desc& pd, const memory::desc& x, const memory::desc& y,
                  DType dtype, Shape shape)
      : primitive_(pd),
        x_(handle(x)),
        y_(handle(y)),
        dtype_(dtype),
        shape_(std::move(shape)),
        arguments_{{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, y_}} {
    add_scratchpad(pd.scratchpad_desc(), arguments_);
  }

  void execute(KernelContext& context) override {
    Tensor& y = context.allocate_output(0, dtype_, shape_);
    point(x_, context.input(0));
    point(y_, y);
    onednn::execute(primitive_, arguments_);
  }

 private:
  dnnl::primitive primitive_;
  memory x_, y_;
  DType dtype_;
  Shape shape_;
  Arguments arguments_;
};

class Pooling : public ShapedKernel {
 public:
  explicit Pooling(KernelData& data)
      : ShapedKernel(data),
        average_(data.op.ends_with("AveragePool")),
        channels_last_(data.attributes.get_int("channels_last", 0) != 0),
        dtype_(data.input(0).dtype),
        type_(*type_of_elements(data)) {}

  // Of bytes, only the largest.
  static std::optional<memory::data_type> type_of_elements(const KernelData& data) {
    const DType dtype = data.input(0).dtype;
    const bool is_byte = dtype == DType::I8 || dtype == DType::U8;
    if (is_byte && data.op.ends_with("MaxPool")) return dtype == DType::I8 ? memory::data_type::s8 : memory::data_type::u8;
    return data_type(dtype);
  }

 protected:
  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    if (!shapes[0] || shapes[0]->size() < 3 || shapes[0]->size() > 5) return nullptr;
    const Shape x = channels_last_ ? channels_first(*shapes[0]) : *shapes[0];
    std::span<const int64_t> spatial = std::span(x).subspan(2);
    Window window = read_window(attributes(), spatial.size());
    resolve_window(window, spatial);
    const bool counts_padding = average_ && attributes().get_int("count_include_pad", 0) != 0;
    Shape y{x[0], x[1]};
    memory::dims strides, kernel, dilations, pad_begin, pad_end;
    for (const WindowAxis& axis : window.axes) {
      y.push_back(axis.output);
      strides.push_back(axis.stride);
      kernel.push_back(axis.kernel);
      dilations.push_back(axis.dilation - 1);
      pad_begin.push_back(axis.pad_begin);
      // The library derives the extents from the pads; the pad at the end absorbs what a formula rounds.
      pad_end.push_back((axis.output - 1) * axis.stride + axis.reach() - axis.pad_begin - axis.input);
      // Taps past the padding count for the library, but not for ONNX.
      if (counts_padding && pad_end.back() > axis.pad_end) return nullptr;
      if (axis.pad_begin < 0 || axis.pad_begin >= axis.reach() || pad_end.back() >= axis.reach()) return nullptr;
    }
    if (element_count(x) == 0 || element_count(y) == 0) return nullptr;
    const auto algorithm = !average_        ? dnnl::algorithm::pooling_max
                           : counts_padding ? dnnl::algorithm::pooling_avg_include_padding
                                            : dnnl::algorithm::pooling_avg_exclude_padding;
    auto layout = [&](const Shape& dims) { return channels_last_ ? channels_last(dims, type_) : dense(dims, type_); };
    dnnl::pooling_forward::primitive_desc pd(cpu(), dnnl::prop_kind::forward_inference, algorithm, layout(x), layout(y),
                                             strides, kernel, dilations, pad_begin, pad_end, own_scratchpad(), true);
    if (!is_optimized(pd)) return nullptr;
    return std::make_unique<PoolingInstance>(pd, layout(x), layout(y), dtype_,
                                             channels_last_ ? channels_at_the_end(y) : y);
  }

 private:
  bool average_, channels_last_;
  DType dtype_;
  memory::data_type type_;
};

std::unique_ptr<PreparedKernel> prepare_pooling(KernelData& data) {
  const DType dtype = data.input(0).dtype;
  const bool has_loops = dtype == DType::F32 || dtype == DType::I8 || dtype == DType::U8;
  if (has_loops && data.attributes.get_int("channels_last", 0) != 0) return nullptr;  // loops:pooling
  if (!Pooling::type_of_elements(data) || data.num_outputs != 1) return nullptr;
  return prepare_shaped<Pooling>(data);
}

}  // namespace

void register_pooling(PreparedRegistry& registry) {
  for (const char* name : {"MaxPool", "AveragePool", "LoweredMaxPool", "LoweredAveragePool"}) {
    registry.add(name, "onednn:pooling", prepare_pooling);
  }
}

}  // namespace anfora::kernels::onednn
