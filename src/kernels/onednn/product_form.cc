#include "kernels/onednn/product_form.h"

#include <algorithm>

namespace anfora::kernels::onednn {
namespace {

// Measured with oneDNN 3.2 on two threads, in GFLOP/s for rows × K × N:
//
//     AVX2             matmul  inner product  convolution      AVX            matmul  convolution
//     1×2048×2048          16             33           22      1×768×768          65           39
//     4×768×3072           49             87           78      4×768×768         101          120
//     64×3072×768         183            107          174      64×4096×1024       51          140
//     128×768×3072        101            176          197      128×512×512        75          162
//     128×3072×768        188            182           70      197×3072×768      117          170
//     197×768×768         196            154          201      512×768×768       143          171
//
// With fewer rows than this, weights are read once for few results, which the inner product does best.
constexpr int64_t kFewRows = 8;
// For some row counts the convolution by BRGEMM chooses blocks of so few columns that it runs at a third of its speed.
constexpr int64_t kLeastColumns = 16;
// The inner product cuts sums from here on into parts, and leaves threads idle unless there are many rows.
constexpr int64_t kLongSum = 2048, kManyRows = 96;

// A matrix product by the library's GEMM: "gemm:jit:f32", "x64:gemm:jit", but not "brgemm:avx2".
bool is_gemm(std::string_view implementation) {
  return implementation.starts_with("gemm:") || implementation.find(":gemm:") != std::string_view::npos;
}

int64_t columns_of_block(const dnnl::primitive_desc& pd) {
  const memory::dims blocks = pd.query_md(dnnl::query::weights_md).get_inner_blks();
  return blocks.empty() ? 1 : blocks[0];
}

// Weights that are a K × N matrix in the form's own dimensions.
memory::desc weights(Form form, const memory::desc& matrix) {
  if (form == Form::MatMul) return matrix;
  const int64_t depth = matrix.get_dims()[0], columns = matrix.get_dims()[1];
  const memory::dims spread = {columns, depth, 1, 1};
  if (matrix.get_format_kind() == memory::format_kind::any) {
    return any_layout(std::span(spread).first(form == Form::InnerProduct ? 2 : 4), matrix.get_data_type());
  }
  const memory::desc transposed = matrix.permute_axes({1, 0});
  return form == Form::InnerProduct ? transposed : transposed.reshape(spread);
}

// By form.
constexpr std::string_view kNames[] = {"onednn:matmul", "onednn:inner_product", "onednn:convolution"};

}  // namespace

std::string_view name_of(Form form) { return kNames[static_cast<size_t>(form)]; }

std::optional<Form> form_named(std::string_view implementation) {
  const auto found = std::ranges::find(kNames, implementation);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Form>(found - std::begin(kNames));
}

memory::desc activations(Form form, const memory::desc& matrix) {
  if (form == Form::MatMul) return matrix;
  const memory::dims dims = matrix.get_dims();
  if (form == Form::InnerProduct) return dense(dims, matrix.get_data_type());
  return channels_last(Shape{1, dims[1], 1, dims[0]}, matrix.get_data_type());
}

memory::desc as_matrix(Form form, const memory::desc& weights) {
  if (form == Form::MatMul) return weights;
  const memory::dims dims = weights.get_dims();
  return (form == Form::InnerProduct ? weights : weights.reshape({dims[0], dims[1]})).permute_axes({1, 0});
}

dnnl::primitive_desc describe(Form form, const memory::desc& a, const memory::desc& b, const memory::desc& bias,
                              const memory::desc& y, const dnnl::primitive_attr& attr) {
  constexpr auto kInference = dnnl::prop_kind::forward_inference;
  try {
    switch (form) {
      case Form::MatMul:
        return bias.get_ndims() ? dnnl::matmul::primitive_desc(cpu(), a, b, bias, y, attr, true)
                                : dnnl::matmul::primitive_desc(cpu(), a, b, y, attr, true);
      case Form::InnerProduct:
        return dnnl::inner_product_forward::primitive_desc(cpu(), kInference, a, weights(form, b), bias, y, attr, true);
      case Form::Convolution: {
        const memory::dims ones{1, 1}, zeros{0, 0};
        return dnnl::convolution_forward::primitive_desc(cpu(), kInference, dnnl::algorithm::convolution_direct, a,
                                                         weights(form, b), bias, y, ones, zeros, zeros, attr, true);
      }
    }
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw;
  }
  return {};
}

std::span<const Form> forms_by_preference(int64_t rows) {
  static constexpr Form kFew[] = {Form::MatMul, Form::InnerProduct, Form::Convolution};
  static constexpr Form kMany[] = {Form::MatMul, Form::Convolution, Form::InnerProduct};
  return rows < kFewRows ? kFew : kMany;
}

bool is_fast(Form form, const dnnl::primitive_desc& pd, int64_t rows, int64_t depth) {
  if (!is_optimized(pd)) return false;
  const std::string_view implementation = pd.impl_info_str();
  switch (form) {
    case Form::MatMul: return !is_gemm(implementation);
    case Form::InnerProduct:
      return implementation.starts_with("brgemm") && (depth < kLongSum || rows < kFewRows || rows >= kManyRows);
    case Form::Convolution:
      if (implementation.starts_with("brgconv_1x1")) return columns_of_block(pd) >= kLeastColumns;
      return implementation == "jit_1x1:avx" && rows > 1;  // that for SSE4.1 is no faster than GEMM
  }
  return false;
}

}  // namespace anfora::kernels::onednn
