// What the lowering passes turn operators into, closer to the fast kernels: layouts with the channels last, transposes
// taken into products, epilogues. Each means what src/kernels/reference/lowered.cc computes.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_window.h"
#include "ops/layouts.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// Shows an operator whose tensors are [batch, spatial…, channels] to the inference of the plain operator.
class ChannelsFirst : public InferenceContext {
 public:
  // The result is of that type, where it differs from the plain operator's.
  ChannelsFirst(InferenceContext& lowered, const ir::Operator& plain, std::optional<DType> dtype = {})
      : InferenceContext(lowered.context(), plain, lowered.attributes()),
        lowered_(lowered),
        dtype_(dtype),
        x_(rotated(lowered.input(0), true)) {}

  size_t num_inputs() const override { return std::min<size_t>(lowered_.num_inputs(), 3); }
  size_t num_outputs() const override { return 1; }
  const Type* input(size_t i) const override { return i == 0 ? x_ : lowered_.input(i); }
  const Tensor* constant(size_t i) const override { return i == 0 ? nullptr : lowered_.constant(i); }
  std::optional<Dims> elements(size_t i) const override { return i == 0 ? std::nullopt : lowered_.elements(i); }
  void set_output(size_t i, const Type* type) override {
    if (dtype_ && type && type->is_tensor()) {
      type = type->has_rank() ? context().tensor_type(*dtype_, type->dims()) : context().unranked_type(*dtype_);
    }
    lowered_.set_output(i, rotated(type, false));
  }
  void set_elements(size_t, Dims) override {}
  const Type* output(size_t i) const override { return rotated(lowered_.output(i), true); }
  Dim fresh_dim(size_t index) override { return lowered_.fresh_dim(index); }

 private:
  const Type* rotated(const Type* type, bool to_channels_first) const {
    if (!type || !type->is_tensor() || !type->has_rank() || type->rank() < 3) return type;
    Dims dims(type->dims().begin(), type->dims().end());
    std::rotate(dims.begin() + 1, to_channels_first ? dims.end() - 1 : dims.begin() + 2, dims.end());
    return context().tensor_type(type->dtype(), dims);
  }

  InferenceContext& lowered_;
  std::optional<DType> dtype_;
  const Type* x_;
};

constexpr std::string_view kPrefix = "Lowered";

// LoweredConv → Conv
const ir::Operator& plain_operator(const InferenceContext& ctx) {
  return ctx.context().get_operator(std::string_view(ctx.op().name).substr(kPrefix.size()));
}

void infer_as_plain(InferenceContext& ctx) {
  const ir::Operator& plain = plain_operator(ctx);
  if (ctx.attribute_int("channels_last") == 0) return plain.infer(ctx);
  ChannelsFirst view(ctx, plain);
  plain.infer(view);
}

double flops_as_plain(const InferenceContext& ctx) {
  const ir::Operator& plain = plain_operator(ctx);
  if (ctx.attribute_int("channels_last") == 0) return plain.flops(ctx);
  return plain.flops(ChannelsFirst(const_cast<InferenceContext&>(ctx), plain));
}

// Dimensions in the order that the attribute says; as they are where it is absent.
Dims permuted(const InferenceContext& ctx, const Dims& dims, std::string_view attribute) {
  std::vector<int64_t> permutation = ctx.attributes().get_ints(attribute);
  if (permutation.empty()) return dims;
  std::vector<int64_t> sorted = permutation;
  std::ranges::sort(sorted);
  bool is_permutation = sorted.size() == dims.size();
  for (size_t i = 0; is_permutation && i < sorted.size(); ++i) is_permutation = sorted[i] == static_cast<int64_t>(i);
  if (!is_permutation) ctx.fail(fmt::format("{} is no permutation of {} axes", attribute, dims.size()));
  Dims result;
  for (int64_t axis : permutation) result.push_back(dims[static_cast<size_t>(axis)]);
  return result;
}

void infer_product(InferenceContext& ctx) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0),
                 permuted(ctx, matmul_dims(ctx, permuted(ctx, *a, "perm_a"), permuted(ctx, *b, "perm_b")), "perm_y"));
}

DType integer_result(const InferenceContext& ctx) {
  if (ctx.has_input(13)) return ctx.dtype(13);
  if (ctx.has_input(8) && !ctx.has_input(9)) return ctx.dtype(8);
  return ctx.has_input(7) ? DType::U8 : ctx.has_input(6) ? DType::F32 : DType::I32;
}

void infer_integer_convolution(InferenceContext& ctx) {
  if (ctx.attribute_int("channels_last") == 0) {
    if (ctx.has_input(2) || ctx.has_input(3) || ctx.has_input(6)) ctx.fail("the channels are not last, so nothing is done with the sums");
    return plain_operator(ctx).infer(ctx);
  }
  ChannelsFirst view(ctx, plain_operator(ctx), integer_result(ctx));
  plain_operator(ctx).infer(view);
}

void infer_integer_product(InferenceContext& ctx) {
  const DType dtype = integer_result(ctx);
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, dtype);
  ctx.set_tensor(0, dtype, matmul_dims(ctx, *a, *b));
}

// X, W, B, Z, the weights of the expansion, its bias. The depthwise convolution reads [batch, spatial…, channels of W].
class ExpandedImage : public ChannelsFirst {
 public:
  explicit ExpandedImage(InferenceContext& lowered) : ChannelsFirst(lowered, lowered.context().get_operator("Conv")) {
    const Type *x = ChannelsFirst::input(0), *expansion = lowered.input(4);
    if (!x || !x->has_rank() || x->rank() < 2 || !expansion || !expansion->has_rank() || expansion->rank() < 1) return;
    Dims dims(x->dims().begin(), x->dims().end());
    dims[1] = expansion->dims()[0];
    image_ = context().tensor_type(x->dtype(), dims);
  }
  const Type* input(size_t i) const override { return i == 0 && image_ ? image_ : ChannelsFirst::input(i); }

 private:
  const Type* image_ = nullptr;
};

void infer_expansion_depthwise(InferenceContext& ctx) {
  ExpandedImage view(ctx);
  view.op().infer(view);
}

// Of the depthwise convolution, and of a product for each pixel that it reads.
double expansion_depthwise_flops(const InferenceContext& ctx) {
  ExpandedImage view(const_cast<InferenceContext&>(ctx));
  const Type *image = view.input(0), *expansion = ctx.input(4);
  if (!image || !image->has_rank() || !expansion || !expansion->has_rank() || expansion->rank() < 2) return view.op().flops(view);
  const Dim depth = expansion->dims()[1];
  return view.op().flops(view) + 2 * element_estimate(image) * static_cast<double>(depth.is_constant() ? depth.constant() : 1);
}

// X, W, B, Z, S, T, more of X: Conv reads [batch, spatial…, the channels of all].
class JoinedImage : public ChannelsFirst {
 public:
  explicit JoinedImage(InferenceContext& lowered) : ChannelsFirst(lowered, lowered.context().get_operator("Conv")) {
    constexpr size_t kMore = 6;
    const Type* x = ChannelsFirst::input(0);
    if (!x || !x->has_rank() || x->rank() < 2) return;
    Dims dims(x->dims().begin(), x->dims().end());
    for (size_t i = kMore; i < lowered.num_inputs(); ++i) {
      const Type* more = lowered.input(i);
      dims[1] = more && more->has_rank() && more->rank() == x->rank() ? dims[1] + more->dims().back() : lowered.fresh_dim(i);
    }
    image_ = context().tensor_type(x->dtype(), dims);
  }
  const Type* input(size_t i) const override { return i == 0 && image_ ? image_ : ChannelsFirst::input(i); }

 private:
  const Type* image_ = nullptr;
};

void infer_pointwise(InferenceContext& ctx) {
  JoinedImage view(ctx);
  view.op().infer(view);
}

double pointwise_flops(const InferenceContext& ctx) {
  JoinedImage view(const_cast<InferenceContext&>(ctx));
  return view.op().flops(view);
}

// Twice the output times the inner dimension.
double product_flops(const InferenceContext& ctx) {
  auto a = ctx.dims(0);
  if (!a || a->empty()) return 0;
  Dim inner = permuted(ctx, *a, "perm_a").back();
  return 2 * element_estimate(ctx.output(0)) * static_cast<double>(inner.is_constant() ? inner.constant() : 1);
}

// X, W, then what is added, zero points and the scale.
Declaration with_integer_operands(Declaration declaration) {
  return declaration.optional_input("C", "f32")
      .optional_input("Z", "f32")
      .optional_input("a_zero_point", "T1")
      .optional_input("b_zero_point", "T2")
      .optional_input("scale", "f32")
      .optional_input("y_scale", "f32")
      .optional_input("y_zero_point", "T4")
      .optional_input("R", "T5")
      .optional_input("R_zero_point", "T5")
      .optional_input("y_factor", "f32")
      .optional_input("R_factor", "f32")
      .optional_input("sum_zero_point", "T6")
      .output("Y", "T3")
      .type("T1", {DType::I8, DType::U8})
      .type("T2", {DType::I8, DType::U8})
      .type("T3", {DType::I32, DType::F32, DType::I8, DType::U8})
      .type("T4", {DType::I8, DType::U8})
      .type("T5", {DType::I8, DType::U8})
      .type("T6", {DType::I8, DType::U8});
}

Declaration with_epilogue(Declaration declaration) {
  return declaration.optional_attribute("activation", AttributeKind::String)
      .optional_attribute("activation_alpha", AttributeKind::Float)
      .optional_attribute("activation_beta", AttributeKind::Float)
      .fusion(FusionKind::Anchor);
}

void declare_convolution_like(Declarations& declare, const char* name) {
  Declaration d =
      declare.op(fmt::format("{}{}", kPrefix, name), 1, "anfora")
          .doc(fmt::format("activation({}(X, W, B) + Z); with channels_last, X, Z and Y are [batch, spatial…, "
                           "channels]. With `direct`, as the sum that it is, not by transforms that equal it over the reals.",
                           name))
          .input("X", "T")
          .input("W", "T")
          .optional_input("B", "T")
          .optional_input("Z", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attribute("channels_last", 0)
          .attribute("direct", 0)
          .attribute("group", 1)
          .attribute("auto_pad", "NOTSET")
          .infer(infer_as_plain)
          .flops(flops_as_plain);
  for (const char* ints : {"dilations", "kernel_shape", "pads", "strides", "output_padding", "output_shape"}) {
    d.optional_attribute(ints, AttributeKind::Ints);
  }
  with_epilogue(d);
}

void declare_pool(Declarations& declare, const char* name, const std::vector<DType>& types) {
  Declaration d = declare.op(fmt::format("{}{}", kPrefix, name), 1, "anfora")
                      .doc(fmt::format("{}; with channels_last, X and Y are [batch, spatial…, channels].", name))
                      .input("X", "T")
                      .output("Y", "T")
                      .type("T", types)
                      .attribute("channels_last", 0)
                      .attribute("auto_pad", "NOTSET")
                      .attribute("ceil_mode", 0)
                      .attribute("count_include_pad", 0)
                      .required_attribute("kernel_shape", AttributeKind::Ints)
                      .infer(infer_as_plain)
                      .flops(flops_as_plain);
  for (const char* ints : {"dilations", "pads", "strides"}) d.optional_attribute(ints, AttributeKind::Ints);
}

// Of groups of channels, or of each channel.
Declaration declare_normalization(Declarations& declare, const char* name) {
  return declare.op(fmt::format("{}{}", kPrefix, name), 1, "anfora")
      .doc(fmt::format("{}; with channels_last, X and Y are [batch, spatial…, channels].", name))
      .input("X", "T")
      .input("scale", "T")
      .input("B", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("channels_last", 0)
      .attribute("epsilon", 1e-5f)
      .infer(infer_as_plain)
      .flops(flops_as_plain)
      .in_place();
}

// The gradient has the type of X.
void declare_pool_gradient(Declarations& declare) {
  Declaration d = declare.op("LoweredMaxPoolGradient", 1, "anfora")
                      .doc("The gradient of MaxPool by X, where dY is that by its result: zeros, to which each element of dY is added where "
                           "the first largest element of its window is; with channels_last, X, dY and dX are [batch, spatial…, channels].")
                      .input("X", "T")
                      .input("dY", "T")
                      .output("dX", "T")
                      .type("T", kFloats)
                      .attribute("channels_last", 0)
                      .attribute("auto_pad", "NOTSET")
                      .attribute("ceil_mode", 0)
                      .required_attribute("kernel_shape", AttributeKind::Ints)
                      .infer(infer_same_type)
                      .flops(flops_per_element<2>)
                      .layout(channels_last_pool_gradient);
  for (const char* ints : {"dilations", "pads", "strides"}) d.optional_attribute(ints, AttributeKind::Ints);
}

// [channels of dY, channels of X in a group, kernel…].
void infer_weight_gradient(InferenceContext& ctx) {
  auto x = ctx.dims(0), dy = ctx.dims(1);
  if (!x || !dy) return ctx.set_unranked(0, ctx.dtype(0));
  const size_t rank = x->size();
  if (rank < 3 || dy->size() != rank) ctx.fail(fmt::format("operands of ranks {} and {}", rank, dy->size()));
  const int64_t group = ctx.attribute_int("group");
  if (group < 1) ctx.fail(fmt::format("{} groups", group));
  const bool channels_last = ctx.attribute_int("channels_last") != 0;
  const size_t channels = channels_last ? rank - 1 : 1, spatial = channels_last ? 1 : 2;
  Dims result{(*dy)[channels], floor_div((*x)[channels], group)};
  const std::vector<int64_t> ones(rank - 2, 1);
  const kernels::Window window = kernels::read_window(ctx.attributes(), rank - 2, ones);
  for (size_t i = 0; i + 2 < rank; ++i) {
    result.push_back(kernels::weight_gradient_kernel(window.axes[i], (*x)[spatial + i], (*dy)[spatial + i]));
  }
  ctx.set_tensor(0, ctx.dtype(0), result);
}

// As many as of the convolution itself.
double weight_gradient_flops(const InferenceContext& ctx) {
  auto dw = ctx.output(0) ? ctx.output(0)->dims() : std::span<const Dim>();
  const double filters = !dw.empty() && dw[0].is_constant() ? static_cast<double>(dw[0].constant()) : 1;
  return filters > 0 ? 2 * element_estimate(ctx.input(1)) * element_estimate(ctx.output(0)) / filters : 0;
}

void declare_weight_gradient(Declarations& declare) {
  Declaration d = declare.op("LoweredConvWeightGradient", 1, "anfora")
                      .doc("The gradient of Conv by its weights, where dY is that by its result: each element is the sum of dY times the elements "
                           "of X that it met. The kernel is as large as what pads and strides leave. With channels_last, X and dY are [batch, "
                           "spatial…, channels].")
                      .input("X", "T")
                      .input("dY", "T")
                      .output("dW", "T")
                      .type("T", kFloats)
                      .attribute("channels_last", 0)
                      .attribute("group", 1)
                      .infer(infer_weight_gradient)
                      .flops(weight_gradient_flops)
                      .layout(channels_last_weight_gradient)
                      .sums();
  for (const char* ints : {"dilations", "pads", "strides"}) d.optional_attribute(ints, AttributeKind::Ints);
}

void infer_lowered_depth_to_space(InferenceContext& ctx) {
  const std::vector<int64_t> blocks = ctx.attributes().get_ints("blocks");
  if (blocks.size() != 2 || blocks[0] < 1 || blocks[1] < 1) ctx.fail("`blocks` are not two positive numbers");
  auto x = ctx.dims(0);
  if (!x) return ctx.set_unranked(0, ctx.dtype(0));
  if (x->size() != 4) ctx.fail(fmt::format("X is of rank {}, not 4", x->size()));
  const int64_t pixels = blocks[0] * blocks[1];
  if (auto channels = (*x)[3].as_constant(); channels && *channels % pixels != 0) {
    ctx.fail(fmt::format("{} channels do not divide into blocks of {} pixels", *channels, pixels));
  }
  ctx.set_tensor(0, ctx.dtype(0), Dims{(*x)[0], (*x)[1] * ctx.dim(blocks[0]), (*x)[2] * ctx.dim(blocks[1]), floor_div((*x)[3], pixels)});
}

void infer_dynamic_scale(InferenceContext& ctx) {
  ctx.set_tensor(0, DType::F32, Dims{});
  ctx.set_tensor(1, DType::U8, Dims{});
}

void infer_group(InferenceContext& ctx) {
  if (!ctx.input(0)->is_func()) ctx.fail("the first operand is no function");
  const Type* result = ctx.input(0)->result();
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, result->is_tuple() ? result->element(i) : result);
}

}  // namespace

void declare_lowered(Declarations& declare) {
  declare_convolution_like(declare, "Conv");
  declare_convolution_like(declare, "ConvTranspose");
  declare_pool(declare, "MaxPool", kFloats | std::vector{DType::I8, DType::U8});
  declare_pool(declare, "AveragePool", kFloats);
  declare_normalization(declare, "InstanceNormalization");
  declare_normalization(declare, "GroupNormalization").required_attribute("num_groups", AttributeKind::Int);
  declare_pool_gradient(declare);
  declare_weight_gradient(declare);
  with_epilogue(
      declare.op("LoweredBatchNormalization", 1, "anfora")
          .doc("activation(BatchNormalization(X, scale, B, mean, variance)) in inference; with channels_last, X "
               "and Y are [batch, spatial…, channels].")
          .input("X", "T")
          .input("scale", "T")
          .input("B", "T")
          .input("mean", "T")
          .input("variance", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attribute("channels_last", 0)
          .attribute("epsilon", 1e-5f)
          .infer(infer_same_type)
          .flops(flops_per_element<3>))
      .in_place();
  with_epilogue(declare.op("LoweredMatMul", 1, "anfora")
                    .doc("activation(alpha · A · B + C + Z), where A, B and the result are first transposed as the "
                         "attributes say, and B is converted to the type of A.")
                    .input("A", "T")
                    .input("B", "T2")
                    .optional_input("C", "T")
                    .optional_input("Z", "T")
                    .output("Y", "T")
                    .type("T", kFloats)
                    .type("T2", kFloats)
                    .attribute("alpha", 1.0f)
                    .optional_attribute("perm_a", AttributeKind::Ints)
                    .optional_attribute("perm_b", AttributeKind::Ints)
                    .optional_attribute("perm_y", AttributeKind::Ints)
                    .infer(infer_product)
                    .flops(product_flops));
  declare.op("LoweredDepthToSpace", 1, "anfora")
      .doc("DepthToSpace by blocks of rows and columns, which need not be as many; X and Y are [batch, rows, columns, channels].")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kPlainDTypes)
      .required_attribute("blocks", AttributeKind::Ints)
      .attribute("mode", "DCR")
      .infer(infer_lowered_depth_to_space)
      .fusion(FusionKind::Injective)
      .takes_elements();
  declare.op("LoweredDynamicScale", 1, "anfora")
      .doc("The scale and the zero point of DynamicQuantizeLinear(X).")
      .input("X", "f32")
      .output("scale", "f32")
      .output("zero_point", "u8")
      .infer(infer_dynamic_scale)
      .flops(flops_per_input_element<2>);
  with_epilogue(declare.op("LoweredMatMulDequantized", 1, "anfora")
                    .doc("activation(alpha · A · DequantizeLinear(B, scales, zero_points) + C + Z), where A, the dequantized B and the result are "
                         "transposed as the attributes say; axis and block_size are those of DequantizeLinear.")
                    .input("A", "f32")
                    .input("B", "T")
                    .optional_input("C", "f32")
                    .optional_input("Z", "f32")
                    .input("scales", "f32")
                    .optional_input("zero_points", "T")
                    .output("Y", "f32")
                    .type("T", {DType::I4, DType::U4, DType::I8, DType::U8})
                    .attribute("alpha", 1.0f)
                    .attribute("axis", 1)
                    .attribute("block_size", 0)
                    .optional_attribute("perm_a", AttributeKind::Ints)
                    .optional_attribute("perm_b", AttributeKind::Ints)
                    .optional_attribute("perm_y", AttributeKind::Ints)
                    .infer(infer_product)
                    .flops(product_flops));
  with_epilogue(with_integer_operands(
      declare.op("LoweredMatMulInteger", 1, "anfora")
          .doc("activation(scale · (A − a_zero_point)(B − b_zero_point) + C + Z), where the product is computed in i32 and converted to f32; "
               "without a scale, the product itself. The scale is one number, or one for each column. With y_scale, the result is quantized; with R, "
               "y_factor · (that − y_zero_point) + R_factor · (R − R_zero_point) is, with a scale of 1 and sum_zero_point.")
          .input("A", "T1")
          .input("B", "T2"))
          .infer(infer_integer_product)
          .flops(product_flops));
  Declaration convolution = with_integer_operands(
      declare.op("LoweredConvInteger", 1, "anfora")
          .doc("activation(scale · ConvInteger(X, W, a_zero_point, b_zero_point) + C + Z), where the convolution is computed in i32 and converted to "
               "f32; without a scale, the convolution itself. With channels_last, X, Z and Y are [batch, spatial…, channels]. The scale is one number, or "
               "one for each of the last dimension. With y_scale, the result is quantized; with R, y_factor · (that − y_zero_point) + R_factor · (R − "
               "R_zero_point) is, with a scale of 1 and sum_zero_point.")
          .input("X", "T1")
          .input("W", "T2"));
  convolution.attribute("channels_last", 0).attribute("group", 1).attribute("auto_pad", "NOTSET");
  for (const char* ints : {"dilations", "kernel_shape", "pads", "strides"})
    convolution.optional_attribute(ints, AttributeKind::Ints);
  with_epilogue(convolution).infer(infer_integer_convolution).flops(flops_as_plain).layout(channels_last_integer_convolution);
  Declaration depthwise =
      declare.op("LoweredExpansionDepthwise", 1, "anfora")
          .doc("activation(Conv(expansion_activation(Conv(X, E, F)), W, B) + Z), where E is [M, C, 1, 1] and the convolution by W depthwise, of M "
               "groups; X, Z and Y are [batch, spatial…, channels].")
          .input("X", "T")
          .input("W", "T")
          .optional_input("B", "T")
          .optional_input("Z", "T")
          .input("E", "T")
          .optional_input("F", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attribute("group", 1)
          .attribute("auto_pad", "NOTSET")
          .optional_attribute("expansion_activation", AttributeKind::String)
          .optional_attribute("expansion_activation_alpha", AttributeKind::Float)
          .optional_attribute("expansion_activation_beta", AttributeKind::Float);
  for (const char* ints : {"dilations", "kernel_shape", "pads", "strides"})
    depthwise.optional_attribute(ints, AttributeKind::Ints);
  with_epilogue(depthwise).infer(infer_expansion_depthwise).flops(expansion_depthwise_flops);
  Declaration pointwise =
      declare.op("LoweredPointwise", 1, "anfora")
          .doc("activation(Conv(input_activation(Concat(X, …) · S + T), W, B) + Z), where W is [M, C, 1, …] and Concat joins channels; X, Z and Y are "
               "[batch, spatial…, channels], S is [C] or [batch, 1…, C], T is [C].")
          .input("X", "T")
          .input("W", "T")
          .optional_input("B", "T")
          .optional_input("Z", "T")
          .optional_input("S", "T")
          .optional_input("T", "T")
          .variadic_input("more X", "T", 0)
          .output("Y", "T")
          .type("T", kFloats)
          .optional_attribute("input_activation", AttributeKind::String)
          .optional_attribute("input_activation_alpha", AttributeKind::Float)
          .optional_attribute("input_activation_beta", AttributeKind::Float);
  with_epilogue(pointwise).infer(infer_pointwise).flops(pointwise_flops);
  declare.op("Group", 1, "anfora")
      .doc("The results of `function`, which has no free variables, for the arguments: what one generated kernel computes. Where there is none, "
           "a call.")
      .input("function", "F")
      .variadic_input("arguments", "T", 0)
      .variadic_output("results", "T")
      .type("F", kAnyType)
      .type("T", kAnyType)
      .infer(infer_group)
      .calls()
      .no_kernel();
  declare.op("Offload", 1, "anfora")
      .doc("Its input, in a temporary file, whose pages the system brings back as they are read: for what a memory limit leaves no room for.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kNumbers | kFloat8s | std::vector{DType::Bool})
      .infer(infer_same_type)
      .in_file();
}

}  // namespace anfora::ops
