#include "kernels/generated/product_layout.h"

#include <algorithm>
#include <array>

#include "kernels/generated/convolution_rows.h"
#include "kernels/generated/few_bits.h"
#include "kernels/generated/gathered_rows.h"
#include "kernels/reference/panels.h"
#include "support/lasting_memory.h"
#include "support/passing_elements.h"

namespace anfora::kernels::generated {
namespace {

// Of the layout of code; another generator's is not taken.
constexpr int64_t kCodeVersion = 12;

// How many of the rows at that distance fall into the same set of the first-level cache, at most.
int rows_in_one_set(int64_t stride, int rows) {
  constexpr int64_t kSets = 64;
  std::array<int, kSets> count{};
  for (int row = 0; row < rows; ++row) ++count[static_cast<size_t>(row * stride / kLineElements % kSets)];
  return *std::ranges::max_element(count);
}

// As product_block(), whole lines of windows.
int64_t block_of_lines(int64_t depth, const Shape& weights) {
  const int64_t line = weights.back() * weights[1], lines = depth / line, of_block = std::max<int64_t>(product_block(depth) / line, 1);
  const int64_t blocks = (lines + of_block - 1) / of_block;
  return (lines + blocks - 1) / blocks * line;
}

}  // namespace

bool read_addends(const KernelData& data, int64_t columns, Epilogue& epilogue) {
  for (size_t i = 2; i < std::min<size_t>(data.inputs.size(), 4); ++i) {
    const InputDescription& input = data.input(i);
    if (!input.present) continue;
    if (input.dtype != DType::F32 || !input.shape || input.shape->empty() || input.shape->back() != columns)
      return false;
    const auto leading = std::span(*input.shape).first(input.shape->size() - 1);
    const bool is_row = std::ranges::all_of(leading, [](int64_t extent) { return extent == 1; });
    epilogue.addends[i - 2] = is_row ? Addend::Row : Addend::Tile;
  }
  return true;
}

namespace {

bool is_byte(DType dtype) { return dtype == DType::I8 || dtype == DType::U8; }

// Whether none, one, or one for each column.
bool is_row_of_weights(const InputDescription& input, int64_t columns) {
  if (!input.present) return true;
  if (!input.is_static()) return false;
  const int64_t count = element_count(*input.shape);
  return count == 1 || (count == columns && input.shape->back() == columns);
}

}  // namespace

std::optional<IntegerOperation> read_integers(const KernelData& data, int64_t columns) {
  const InputDescription &zero_of_b = data.input(kZeroOfB), &scales = data.input(kScales);
  IntegerOperation operation{.a = data.input(0).dtype, .b = data.input(1).dtype};
  if (!is_byte(operation.a) || !is_byte(operation.b)) return std::nullopt;
  const bool has_one_zero = is_row_of_weights(data.input(kZeroOfA), 1);
  if (!has_one_zero || !is_row_of_weights(zero_of_b, columns) || !is_row_of_weights(scales, columns)) return std::nullopt;
  const InputDescription &scale_of_y = data.input(kScaleOfY), &zero_of_y = data.input(kZeroOfY);
  if (!is_row_of_weights(scale_of_y, 1) || !is_row_of_weights(zero_of_y, 1)) return std::nullopt;
  if (scale_of_y.present && !scales.present) return std::nullopt;
  if (scale_of_y.present) operation.result = zero_of_y.present ? zero_of_y.dtype : DType::U8;
  operation.divides = scale_of_y.present && !(scale_of_y.constant.defined() && scale_of_y.constant.data<float>()[0] == 1);
  const InputDescription &residual = data.input(kResidualBytes), &zero_of_sum = data.input(kZeroOfSum);
  if (residual.present) {
    for (const size_t number : {size_t{kZeroOfResidual}, size_t{kFactorOfY}, size_t{kFactorOfResidual}, size_t{kZeroOfSum}}) {
      if (!is_row_of_weights(data.input(number), 1)) return std::nullopt;
    }
    operation.residual = residual.dtype;
    operation.result = zero_of_sum.present ? zero_of_sum.dtype : DType::U8;
  }
  if (scales.present) operation.scale = element_count(*scales.shape) == 1 ? Scale::One : Scale::Columns;
  return operation;
}

Quantization quantization_of(const KernelContext& context) {
  if (!context.has_input(kScaleOfY)) return {};
  const bool has_residual = context.has_input(kResidualBytes);
  const auto zero_in = [&](size_t input) {
    const Tensor* zero_point = context.optional_input(input);
    return zero_point ? byte_element(*zero_point, 0) : 0;
  };
  const auto limits = [&](size_t zero_point) {
    const Tensor* tensor = context.optional_input(zero_point);
    const int32_t zero = zero_in(zero_point), lowest = tensor && tensor->dtype() == DType::I8 ? -128 : 0;
    return Quantization::Limits{static_cast<float>(lowest - zero), static_cast<float>(lowest + 255 - zero)};
  };
  const auto number = [&](size_t input) { return context.input(input).data<float>()[0]; };
  const size_t last = has_residual ? kZeroOfSum : kZeroOfY;
  Quantization quantization{.scale = number(kScaleOfY), .limits = limits(last), .zero_point = zero_in(last)};
  if (has_residual) quantization.sum = {limits(kZeroOfY), number(kFactorOfY), number(kFactorOfResidual), zero_in(kZeroOfResidual)};
  return quantization;
}

namespace {

// False where there is no code for such.
bool read_integer_operands(const KernelData& data, ProductLayout& layout) {
  const std::optional<IntegerOperation> operation = read_integers(data, layout.columns);
  if (!operation || (operation->residual && layout.code.epilogue.addends[1] != Addend::None)) return false;
  layout.integers.a = operation->a, layout.integers.b = operation->b;
  layout.code.scale = operation->scale, layout.code.result = operation->result, layout.code.divides = operation->divides, layout.code.residual = operation->residual;
  const InputDescription& zero_of_b = data.input(kZeroOfB);
  const bool has_constant_zeros = !zero_of_b.present || zero_of_b.constant.defined();
  if (!has_constant_zeros && data.input(1).constant.defined()) return false;
  bool has_zeros = layout.integers.taken_from_b() != 0 || !has_constant_zeros;
  for (int64_t i = 0; !has_zeros && zero_of_b.present && i < zero_of_b.constant.size(); ++i)
    has_zeros = byte_element(zero_of_b.constant, i) != 0;
  layout.code.has_column_zeros = has_zeros;
  return true;
}

// As they lie in the tensor that the matrix is of: [taps…, channels].
std::array<StridedAxis, 2> steps_of_weights(const StridedOperand& matrix, const ProductLayout& layout) {
  return {StridedAxis{layout.taps, 1}, StridedAxis{layout.depth / layout.taps, layout.taps == 1 ? matrix.strides[0] : layout.taps}};
}

// Of elements of 4 or 2 bytes.
Tensor pack_elements(const Tensor& tensor, const StridedOperand& matrix, const ProductLayout& layout) {
  const DType dtype = tensor.dtype();
  const int64_t width = layout.code.panel_columns(), depth = layout.depth, of_column = matrix.strides[1];
  Tensor packed = LastingMemory::allocate(dtype, Shape{layout.panels(), depth, width});
  const std::array steps = steps_of_weights(matrix, layout);
  const bool has_column_rows = tensor.dim(0) == layout.columns && of_column * layout.columns == tensor.size();
  if (has_column_rows) {
    pack_rows(tensor, steps, width, packed);
  } else {
    pack_panels(dtype, {layout.columns, of_column}, steps, width, PassingElements(tensor).raw(), packed.raw());
  }
  return packed;
}

Tensor unpack_elements(const Tensor& packed, const Shape& shape, const StridedOperand& matrix, const ProductLayout& layout) {
  Tensor tensor = Tensor::allocate(packed.dtype(), shape);
  unpack_panels(packed.dtype(), {layout.columns, matrix.strides[1]}, steps_of_weights(matrix, layout), layout.code.panel_columns(), packed.raw(), tensor.raw());
  return tensor;
}

// Windows of a row of y, from which tiles do not go on to the next; 0: they do, or it is not known.
int64_t windows_of_row(const KernelData& data, const ProductLayout& layout) {
  if (layout.taps == 1 || !data.is_static()) return 0;
  const std::optional<ConvolutionRows> rows = ConvolutionRows::resolve(data.attributes, input_shapes(data));
  return rows && rows->taps() ? rows->product(input_shapes(data)).y_shape.end()[-2] : 0;
}

// Whether rows of A are packed: where that takes little time beside the product, and little memory. With AVX2 transformers take 0.97 to 0.985 of the time, as a tile reads one stream in the
// place of six.
bool packs_rows(const KernelData& data, const ProductLayout& layout) {
  constexpr int64_t kFewestColumns = 512, kMostElements = 1 << 20;
  const InputDescription& a = data.input(0);
  const bool has_strided_rows = data.op == "LoweredMatMul" && a.is_static() && !layout.code.is_integer() && !layout.code.has_few_bits();
  if (!has_strided_rows || layout.code.isa != Isa::Avx2 || layout.columns < kFewestColumns) return false;
  const int64_t elements = element_count(*a.shape);
  return elements > layout.code.tile.rows * layout.depth && elements <= kMostElements;
}

// Half a register of AVX-512 takes half of the time, and of few columns more would be empty.
bool is_halved(const ProductCode& code, int64_t columns) {
  return code.isa == Isa::Avx512 && code.weights == DType::F32 && !code.is_integer() && columns <= describe(code.isa).lanes / 2;
}

}  // namespace

std::vector<int64_t> ProductLayout::of_weights() const {
  return {depth, columns, code.panel_columns(), static_cast<int64_t>(code.factors), static_cast<int64_t>(code.weights), code.scale_block};
}
std::vector<int64_t> ProductLayout::of_code() const {
  std::vector<int64_t> numbers = code.numbers();
  numbers.insert(numbers.begin(), kCodeVersion);
  return numbers;
}

std::optional<StridedOperand> weights_matrix(const KernelData& data, const ProductAttributes& attributes) {
  const InputDescription& weights = data.input(1);
  if (!weights.constant.defined()) {
    if (data.op != kIntegerProduct || !weights.shape || weights.shape->size() < 2) return std::nullopt;
    Shape matrix(weights.shape->end() - 2, weights.shape->end());
    return matrix[0] < 0 || matrix[1] < 0 ? std::nullopt : std::optional(StridedOperand::dense(matrix));
  }
  const Shape& shape = weights.constant.shape();
  if (data.op == kConvolution || data.op == kPointwise) {
    const int64_t channels = shape.size() > 2 && shape[0] > 0 ? shape[1] : 0;
    if (data.op == kConvolution && !ConvolutionRows::is_product(data.attributes, shape)) return std::nullopt;
    if (channels == 0 || (data.op == kPointwise && element_count(shape) != shape[0] * channels)) return std::nullopt;
    return StridedOperand::dense(Shape{shape[0], element_count(shape) / shape[0]}, std::array<int64_t, 2>{1, 0});
  }
  if (data.op == kIntegerConvolution) {
    if (!ConvolutionRows::is_product(data.attributes, shape)) return std::nullopt;
    return StridedOperand::dense(Shape{element_count(shape) / std::max<int64_t>(shape[0], 1), shape[0]});
  }
  const std::span<const int64_t> permutation = attributes.permutation_b();
  if (shape.size() < 2 || (!permutation.empty() && permutation.size() != shape.size())) return std::nullopt;
  StridedOperand matrix = StridedOperand::dense(shape, permutation);
  while (matrix.rank() > 2) {
    if (matrix.dims[0] != 1) return std::nullopt;
    matrix.erase(0);
  }
  return matrix;
}

int64_t row_stride(int64_t depth, const Tile& tile) {
  constexpr int kWaysForRows = 6;  // of 8; the rest is for the panel that streams through
  if (rows_in_one_set(depth, tile.rows) <= kWaysForRows) return depth;
  const int64_t lines = (depth + kLineElements - 1) / kLineElements;
  return (lines | 1) * kLineElements;  // an odd number of lines spreads them over all sets
}

std::optional<ProductLayout> lay_out_product(const KernelData& data, const ProductAttributes& attributes) {
  const bool is_integer = data.op == kIntegerProduct || data.op == kIntegerConvolution;
  if (!is_integer && data.input(0).dtype != DType::F32) return std::nullopt;
  const std::optional<StridedOperand> weights = weights_matrix(data, attributes);
  if (!weights || weights->dims[0] < 1 || weights->dims[1] < 1) return std::nullopt;
  const auto permutation = attributes.permutation_y();
  if (!permutation.empty() && permutation.back() + 1 != std::ssize(permutation)) return std::nullopt;

  ProductLayout layout;
  const std::optional<Shape>& shape_of_b = data.input(1).shape;
  layout.has_rows_of_y = permutation.empty() && shape_of_b && shape_of_b->size() > 1;
  layout.depth = weights->dims[0];
  layout.columns = weights->dims[1];
  if (data.op == kConvolution) layout.taps = layout.depth / data.input(1).constant.dim(1);
  ProductCode& code = layout.code;
  code.epilogue.scale = attributes.alpha();
  if (!read_activation(data.attributes, code.epilogue)) return std::nullopt;
  if (!read_addends(data, layout.columns, code.epilogue)) return std::nullopt;
  const PackedConstant* known = find_packed(data, kCode);
  constexpr size_t kFactors = 2;
  const std::optional<Isa> isa = known ? isa_of(known->layout) : best_isa();
  if (!isa) return std::nullopt;
  code.isa = *isa;
  if (!is_integer) {
    code.weights = data.input(1).dtype;
    if (!reads_weights(code.isa, code.weights) || is_of_few_bits(code.weights) != (data.op == kDequantizedProduct)) return std::nullopt;
  }
  if (is_integer) {
    code.factors = known && known->layout.size() > kFactors ? static_cast<Factors>(known->layout[kFactors]) : best_factors(code.isa);
    if (code.factors != Factors::Bytes && code.factors != Factors::Halves) return std::nullopt;
    layout.integers.factors = code.factors;
    if (!read_integer_operands(data, layout)) return std::nullopt;
  }
  // A product of halves takes a register of its own before it is added: with 16 of them, twelve sums leave room for two vectors of B.
  constexpr int kFewRegisters = 16;
  const int most_vectors = code.factors == Factors::Halves && describe(code.isa).registers == kFewRegisters ? 2 : 4;
  code.tile = product_tile(code.isa, layout.columns, 1, most_vectors, windows_of_row(data, layout));
  if (const std::optional<Tile> named = tile_named(data.implementation)) {
    const auto tiles = product_tiles(code.isa);
    if (is_integer || *named == code.tile || std::ranges::find(tiles, *named) == tiles.end()) return std::nullopt;
    code.tile = *named;
  }
  if (data.op == kPointwise) {
    code.gather = GatheredRows::code(data);
    if (!code.gather) return std::nullopt;
  }
  code.has_half_vectors = is_halved(code, layout.columns);
  code.has_open_sizes = !is_integer && !is_of_few_bits(code.weights);
  code.depth = is_integer ? layout.integers.words(layout.depth) : layout.depth;
  code.block = product_block(code.depth);
  if (is_of_few_bits(code.weights) && !read_few_bits(data, *weights, code)) return std::nullopt;
  code.has_packed_rows = packs_rows(data, layout);
  code.a_stride = code.has_packed_rows ? code.depth : row_stride(code.depth, code.tile);
  code.has_windows = layout.taps > 1;  // pixels that are apart are copied, as each is read for many columns
  if (code.has_windows) {
    const Shape& shape = data.input(1).constant.shape();
    code.keeps_sums = WindowTaps::may_add_runs(ConvolutionRows::read(data.attributes, shape), shape[1]);
    code.block = block_of_lines(layout.depth, shape);
  }
  const InputDescription& rows = data.input(0);
  const bool has_one_tile = data.op == "MatMul" && rows.is_static() && element_count(*rows.shape) <= code.tile.rows * layout.depth;
  code.fetches_ahead = !code.has_few_bits() && !has_one_tile;
  // Where masks cost nothing, code that takes sizes has them always: so more layers share it.
  code.has_edge = layout.columns % code.panel_columns() != 0 || (code.takes_sizes() && describe(code.isa).has_masks);
  return layout;
}

void pack_weights(KernelData& data, const StridedOperand& matrix, const ProductLayout& layout) {
  const Tensor& weights = data.input(1).constant;
  if (layout.code.has_few_bits()) return pack_few_bits(data, matrix, layout);
  if (!layout.code.is_integer()) {
    if (data.take_copies({kWeights}, layout.of_weights())) return;
    data.packed.push_back({kWeights, layout.of_weights(), pack_elements(weights, matrix, layout)});
    return;
  }
  if (data.take_copies({kWeights, kColumnData}, layout.of_weights())) return;
  auto [words, columns] =
      layout.integers.pack_weights(data.op == kIntegerConvolution ? weights_as_matrix(weights) : weights, matrix,
                                   data.input(kZeroOfB).constant, layout.code.panel_columns());
  data.packed.push_back({kWeights, layout.of_weights(), std::move(words)});
  data.packed.push_back({kColumnData, layout.of_weights(), std::move(columns)});
}

Tensor unpack_weights(const KernelData& data, const StridedOperand& matrix, const ProductLayout& layout) {
  const Tensor& panels = find_packed(data, kWeights)->elements;
  const Shape& shape = data.input(1).constant.shape();
  if (!layout.code.is_integer()) return unpack_elements(panels, shape, matrix, layout);
  if (data.op == kIntegerProduct) return layout.integers.unpack_weights(panels, shape, matrix);
  return weights_of_matrix(layout.integers.unpack_weights(panels, matrix.dims, matrix), shape);
}

}  // namespace anfora::kernels::generated
