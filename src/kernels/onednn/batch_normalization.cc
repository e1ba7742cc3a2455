// BatchNormalization in inference, plain and lowered (channels last, with a Relu).
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"

namespace anfora::kernels::onednn {
namespace {

// The operator's inputs 1 … 4 and what the primitive calls them.
constexpr int kParameters[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};

class BatchNormalizationInstance : public ShapedKernel::Instance {
 public:
  BatchNormalizationInstance(const dnnl::batch_normalization_forward::primitive_desc& pd, const memory::desc& x,
                             const memory::desc& parameters)
      : primitive_(pd), x_(handle(x)), y_(handle(x)) {
    arguments_ = {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, y_}};
    for (int parameter : kParameters) parameters_.push_back(arguments_[parameter] = handle(parameters));
    add_scratchpad(pd.scratchpad_desc(), arguments_);
  }

  void execute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    Tensor& y = context.allocate_output(0, x.dtype(), x.shape());
    point(x_, x);
    point(y_, y);
    for (size_t i = 0; i < parameters_.size(); ++i) point(parameters_[i], context.input(i + 1));
    onednn::execute(primitive_, arguments_);
  }

 private:
  dnnl::primitive primitive_;
  memory x_, y_;
  std::vector<memory> parameters_;
  Arguments arguments_;
};

class BatchNormalization : public ShapedKernel {
 public:
  explicit BatchNormalization(KernelData& data)
      : ShapedKernel(data), channels_last_(data.attributes.get_int("channels_last", 0) != 0) {}

 protected:
  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    if (shapes[0]->size() < 2 || shapes[0]->size() > 5 || element_count(*shapes[0]) == 0) return nullptr;
    const Shape dims = channels_last_ ? channels_first(*shapes[0]) : *shapes[0];
    for (size_t i = 1; i < 5; ++i) {
      if (*shapes[i] != Shape{dims[1]}) return nullptr;
    }
    using dnnl::normalization_flags;
    auto flags =
        normalization_flags::use_scale | normalization_flags::use_shift | normalization_flags::use_global_stats;
    if (attributes().has("activation")) flags = flags | normalization_flags::fuse_norm_relu;
    const auto f32 = memory::data_type::f32;
    const memory::desc x = channels_last_ ? channels_last(dims, f32) : dense(dims, f32);
    dnnl::batch_normalization_forward::primitive_desc pd(cpu(), dnnl::prop_kind::forward_inference, x, x,
                                                         attributes().get_float("epsilon", 1e-5f), flags, own_scratchpad(), true);
    if (!is_optimized(pd)) return nullptr;
    return std::make_unique<BatchNormalizationInstance>(pd, x, dense(Shape{dims[1]}, f32));
  }

 private:
  bool channels_last_;
};

std::unique_ptr<PreparedKernel> prepare_batch_normalization(KernelData& data) {
  for (size_t i = 0; i < 5; ++i) {
    if (data.input(i).dtype != DType::F32) return nullptr;
  }
  const AttributeSet& attributes = data.attributes;
  const std::string activation = attributes.get_string("activation", "Relu");
  if (data.num_outputs != 1 || attributes.get_int("training_mode", 0) != 0 || activation != "Relu") return nullptr;
  return prepare_shaped<BatchNormalization>(data);
}

}  // namespace

void register_batch_normalization(PreparedRegistry& registry) {
  for (const char* name : {"BatchNormalization", "LoweredBatchNormalization"}) {
    registry.add(name, "onednn:batch_normalization", prepare_batch_normalization);
  }
}

}  // namespace anfora::kernels::onednn
