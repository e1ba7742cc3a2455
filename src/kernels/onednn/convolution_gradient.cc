// The gradient of a convolution by its weights, of tensors with their channels first or last.
//
// Channels-last tensors are used as they are where an implementation of their own reads them; where only products of matrices would,
// and with the channels first, they are brought into the layout that the primitive likes best.
#include <algorithm>

#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/reference/window.h"

namespace anfora::kernels::onednn {
namespace {

using Backward = dnnl::convolution_backward_weights;

class WeightGradientInstance : public ShapedKernel::Instance {
 public:
  WeightGradientInstance(const Backward::primitive_desc& pd, const memory::desc& x, const memory::desc& dy, const memory::desc& dw,
                         DType dtype, Shape shape)
      : primitive_(pd), x_(handle(x)), dy_(handle(dy)), dw_(handle(dw)), dtype_(dtype), shape_(std::move(shape)) {
    arguments_[DNNL_ARG_SRC] = read_as(x_, pd.src_desc());
    arguments_[DNNL_ARG_DIFF_DST] = read_as(dy_, pd.diff_dst_desc());
    arguments_[DNNL_ARG_DIFF_WEIGHTS] = written_as(dw_, pd.diff_weights_desc());
    add_scratchpad(pd.scratchpad_desc(), arguments_);
  }

  void execute(KernelContext& context) override {
    Tensor& dw = context.allocate_output(0, dtype_, shape_);
    point(x_, context.input(0));
    point(dy_, context.input(1));
    point(dw_, dw);
    execute_between(primitive_, arguments_);
  }

 private:
  dnnl::primitive primitive_;
  Arguments arguments_;
  memory x_, dy_, dw_;
  DType dtype_;
  Shape shape_;
};

class WeightGradient : public ShapedKernel {
 public:
  explicit WeightGradient(KernelData& data)
      : ShapedKernel(data),
        channels_last_(data.attributes.get_int("channels_last", 0) != 0),
        dtype_(data.input(0).dtype),
        type_(*data_type(dtype_)) {}

 protected:
  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    if (!shapes[0] || !shapes[1] || shapes[0]->size() < 3 || shapes[0]->size() > 5) return nullptr;
    const Shape x = channels_last_ ? channels_first(*shapes[0]) : *shapes[0];
    const Shape dy = channels_last_ ? channels_first(*shapes[1]) : *shapes[1];
    const int64_t groups = attributes().get_int("group", 1);
    if (dy.size() != x.size() || dy[0] != x[0] || groups < 1 || x[1] % groups != 0 || dy[1] % groups != 0) return nullptr;
    const Window window = weight_gradient_window(attributes(), std::span(x).subspan(2), std::span(dy).subspan(2));
    Shape w, result{dy[1], x[1] / groups};
    if (groups > 1) w.push_back(groups);
    w.push_back(dy[1] / groups), w.push_back(x[1] / groups);
    memory::dims strides, dilations, pad_begin, pad_end;
    for (size_t i = 0; i < window.rank(); ++i) {
      const WindowAxis& axis = window.axes[i];
      w.push_back(axis.kernel), result.push_back(axis.kernel);
      strides.push_back(axis.stride);
      dilations.push_back(axis.dilation - 1);
      pad_begin.push_back(axis.pad_begin);
      pad_end.push_back((dy[i + 2] - 1) * axis.stride + axis.reach() - axis.pad_begin - x[i + 2]);
    }
    if (element_count(x) == 0 || element_count(dy) == 0 || element_count(w) == 0) return nullptr;

    auto described = [&](const memory::desc& of_x, const memory::desc& of_dy) {
      const auto direct = dnnl::algorithm::convolution_direct;
      const memory::desc of_w = any_layout(w, type_);
      const dnnl::convolution_forward::primitive_desc forward(cpu(), dnnl::prop_kind::forward_training, direct, of_x, of_w, of_dy, strides,
                                                              dilations, pad_begin, pad_end, dnnl::primitive_attr(), true);
      if (!forward) return Backward::primitive_desc();
      return Backward::primitive_desc(cpu(), direct, of_x, of_w, of_dy, strides, dilations, pad_begin, pad_end, forward, own_scratchpad(), true);
    };
    auto layout = [&](const Shape& dims) { return channels_last_ ? channels_last(dims, type_) : dense(dims, type_); };
    Backward::primitive_desc pd = described(layout(x), layout(dy));
    if (!channels_last_ || !is_optimized(pd) || std::string_view(pd.impl_info_str()).starts_with("gemm")) {
      if (Backward::primitive_desc own = described(any_layout(x, type_), any_layout(dy, type_)); is_optimized(own)) pd = own;
    }
    if (!is_optimized(pd)) return nullptr;
    return std::make_unique<WeightGradientInstance>(pd, layout(x), layout(dy), dense(w, type_), dtype_, std::move(result));
  }

 private:
  bool channels_last_;
  DType dtype_;
  memory::data_type type_;
};

std::unique_ptr<PreparedKernel> prepare_weight_gradient(KernelData& data) {
  if (!data_type(data.input(0).dtype)) return nullptr;
  return prepare_shaped<WeightGradient>(data);
}

}  // namespace

void register_convolution_gradient(PreparedRegistry& registry) {
  registry.add("LoweredConvWeightGradient", "onednn:convolution_gradient", prepare_weight_gradient);
}

}  // namespace anfora::kernels::onednn
