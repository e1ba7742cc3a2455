#include "kernels/generated/few_bits.h"

#include <algorithm>

#include "kernels/generated/integer_operands.h"
#include "support/lasting_memory.h"
#include "support/parallel.h"
#include "support/passing_elements.h"

namespace anfora::kernels::generated {
namespace {

constexpr int kBitsOfWord = 32, kFourBits = 4;

bool has_four_bits(DType dtype) { return dtype == DType::I4 || dtype == DType::U4; }
bool has_sign(DType dtype) { return dtype == DType::I4 || dtype == DType::I8; }
// What makes a number without sign one with.
int32_t taken_from(DType dtype) {
  constexpr int32_t kHalfOfFourBits = 8, kHalfOfByte = 128;
  return has_sign(dtype) ? 0 : has_four_bits(dtype) ? kHalfOfFourBits : kHalfOfByte;
}

int32_t narrow_element(DType dtype, const void* elements, int64_t i) {
  return has_sign(dtype) ? static_cast<const int8_t*>(elements)[i] : static_cast<const uint8_t*>(elements)[i];
}

// Where the scale and the zero point of a block and a column are.
struct ScalesInMemory {
  int64_t block_step = 0, column_step = 0, block = 0;  // steps over k that share one

  int64_t at(int64_t block_number, int64_t column) const { return block_number * block_step + column * column_step; }
};

std::optional<ScalesInMemory> find_scales(const KernelData& data, const StridedOperand& matrix) {
  const InputDescription &scales = data.input(kScalesOfB), &zeros = data.input(kZerosOfB);
  if (matrix.rank() != 2 || !scales.is_static() || scales.dtype != DType::F32 || data.input(1).shape->size() != 2) return std::nullopt;
  if (zeros.present && (!zeros.is_static() || zeros.dtype != data.input(1).dtype || element_count(*zeros.shape) != element_count(*scales.shape)))
    return std::nullopt;
  const int64_t depth = matrix.dims[0], columns = matrix.dims[1], block = data.attributes.get_int("block_size", 0);
  const bool is_transposed = data.attributes.get_ints("perm_b") == std::vector<int64_t>{1, 0};
  int64_t axis = data.attributes.get_int("axis", 1);
  if (axis < 0) axis += 2;
  const bool is_along_depth = axis == (is_transposed ? 1 : 0);
  if (block == 0 && element_count(*scales.shape) == 1) return ScalesInMemory{.block = depth};
  if (block == 0) {
    if (is_along_depth || *scales.shape != Shape{columns}) return std::nullopt;
    return ScalesInMemory{.column_step = 1, .block = depth};
  }
  const int64_t blocks = block > 0 ? (depth + block - 1) / block : 0;
  if (!is_along_depth || *scales.shape != (is_transposed ? Shape{columns, blocks} : Shape{blocks, columns})) return std::nullopt;
  return ScalesInMemory{.block_step = is_transposed ? 1 : columns, .column_step = is_transposed ? blocks : 1, .block = std::min(block, depth)};
}

// Whether there is a zero point that is not in the middle.
bool has_zero_points(const KernelData& data) {
  if (find_packed(data, kWeights)) return find_packed(data, kWeightZeros) != nullptr;
  const int32_t middle = taken_from(data.input(1).dtype);
  const Tensor& zeros = data.input(kZerosOfB).constant;
  if (!data.input(kZerosOfB).present) return middle != 0;
  for (int64_t i = 0; i < zeros.size(); ++i) {
    if (narrow_element(zeros.dtype(), zeros.raw(), i) != middle) return true;
  }
  return false;
}

// f(panel, block, first column) where the scales of a block of a panel are in memory, and how many columns there are.
template <class F>
void for_each_block(const ProductLayout& layout, const F& f) {
  const int64_t width = layout.code.panel_columns(), blocks = layout.code.scale_blocks();
  for (int64_t panel = 0; panel < layout.panels(); ++panel) {
    const int64_t columns = std::min(width, layout.columns - panel * width);
    for (int64_t block = 0; block < blocks; ++block) f((panel * blocks + block) * width, block, panel * width, columns);
  }
}

}  // namespace

bool read_few_bits(const KernelData& data, const StridedOperand& matrix, ProductCode& code) {
  const std::optional<ScalesInMemory> scales = find_scales(data, matrix);
  if (!scales) return false;
  const InputDescription& zeros = data.input(kZerosOfB);
  if (!data.input(kScalesOfB).constant.defined() || (zeros.present && !zeros.constant.defined())) return false;
  code.weights = has_four_bits(code.weights) ? DType::I4 : DType::I8;
  code.scale_block = scales->block;
  code.has_zeros = has_zero_points(data);
  const int64_t steps = code.steps_of_word();
  if (code.depth % steps != 0 || code.scale_block % steps != 0) return false;
  code.block = (code.block + steps - 1) / steps * steps;
  return true;
}

void pack_few_bits(KernelData& data, const StridedOperand& matrix, const ProductLayout& layout) {
  const ProductCode& code = layout.code;
  const bool is_known = code.has_zeros ? data.take_copies({kWeights, kWeightScales, kWeightZeros}, layout.of_weights())
                                       : data.take_copies({kWeights, kWeightScales}, layout.of_weights());
  if (is_known) return;
  const ScalesInMemory in_memory = *find_scales(data, matrix);
  const Tensor &weights = data.input(1).constant, &scales = data.input(kScalesOfB).constant;
  const int64_t width = code.panel_columns(), steps = code.steps_of_word(), words = code.depth / steps;
  const int32_t taken = taken_from(weights.dtype());
  const int bits = kBitsOfWord / static_cast<int>(steps);
  Tensor packed = LastingMemory::allocate(steps > 1 ? DType::I32 : DType::I8, Shape{layout.panels(), words, width});
  const PassingElements passing(weights);
  constexpr int64_t kWork = 1 << 16;
  parallel_for(layout.panels(), grain_of(kWork, code.depth * width), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      for (int64_t n = 0; n < width; ++n) {
        const bool is_column = panel * width + n < layout.columns;
        const int64_t from = (panel * width + n) * matrix.strides[1];
        for (int64_t word = 0; word < words; ++word) {
          uint32_t value = 0;
          for (int64_t step = 0; step < steps && is_column; ++step) {
            const int32_t q = narrow_element(weights.dtype(), passing.raw(), from + (word * steps + step) * matrix.strides[0]) - taken;
            value = steps > 1 ? value << bits | (static_cast<uint32_t>(q) & ((1U << bits) - 1)) : static_cast<uint32_t>(q);
          }
          const int64_t to = (panel * words + word) * width + n;
          if (steps > 1) static_cast<int32_t*>(packed.raw())[to] = static_cast<int32_t>(value);
          else static_cast<int8_t*>(packed.raw())[to] = static_cast<int8_t>(value);
        }
      }
    }
  });
  Tensor packed_scales = Tensor::zeros(DType::F32, Shape{layout.panels(), code.scale_blocks(), width});
  for_each_block(layout, [&](int64_t to, int64_t block, int64_t first, int64_t columns) {
    for (int64_t n = 0; n < columns; ++n) packed_scales.data<float>()[to + n] = scales.data<float>()[in_memory.at(block, first + n)];
  });
  data.packed.push_back({kWeights, layout.of_weights(), std::move(packed)});
  data.packed.push_back({kWeightScales, layout.of_weights(), std::move(packed_scales)});
  if (!code.has_zeros) return;
  Tensor packed_zeros = Tensor::zeros(DType::I8, Shape{layout.panels(), code.scale_blocks(), width});
  const Tensor& zeros = data.input(kZerosOfB).constant;
  for_each_block(layout, [&](int64_t to, int64_t block, int64_t first, int64_t columns) {
    for (int64_t n = 0; n < columns; ++n) {
      const int32_t zero = zeros.defined() ? narrow_element(zeros.dtype(), zeros.raw(), in_memory.at(block, first + n)) : 0;
      packed_zeros.data<int8_t>()[to + n] = static_cast<int8_t>(zero - taken);
    }
  });
  data.packed.push_back({kWeightZeros, layout.of_weights(), std::move(packed_zeros)});
}

std::array<Tensor, 3> unpack_few_bits(const KernelData& data, const StridedOperand& matrix, const ProductLayout& layout) {
  const ProductCode& code = layout.code;
  const ScalesInMemory in_memory = *find_scales(data, matrix);
  const InputDescription &weights = data.input(1), &scales = data.input(kScalesOfB), &zeros = data.input(kZerosOfB);
  const int64_t width = code.panel_columns(), steps = code.steps_of_word(), words = code.depth / steps;
  const int32_t added = taken_from(weights.dtype);
  const int bits = kBitsOfWord / static_cast<int>(steps);
  std::array<Tensor, 3> result{Tensor::allocate(weights.dtype, *weights.shape), Tensor::allocate(DType::F32, *scales.shape), Tensor()};
  const Tensor &packed = find_packed(data, kWeights)->elements, &packed_scales = find_packed(data, kWeightScales)->elements;
  auto* const to = static_cast<int8_t*>(result[0].raw());
  for (int64_t k = 0; k < code.depth; ++k) {
    for (int64_t n = 0; n < layout.columns; ++n) {
      const int64_t from = (n / width * words + k / steps) * width + n % width;
      int32_t q = 0;
      if (steps > 1) {
        const auto word = static_cast<uint32_t>(static_cast<const int32_t*>(packed.raw())[from]);
        q = static_cast<int32_t>(word << (bits * static_cast<int>(k % steps))) >> (kBitsOfWord - bits);
      } else {
        q = static_cast<const int8_t*>(packed.raw())[from];
      }
      to[k * matrix.strides[0] + n * matrix.strides[1]] = static_cast<int8_t>(q + added);
    }
  }
  for_each_block(layout, [&](int64_t from, int64_t block, int64_t first, int64_t columns) {
    for (int64_t n = 0; n < columns; ++n) result[1].data<float>()[in_memory.at(block, first + n)] = packed_scales.data<float>()[from + n];
  });
  if (!zeros.present) return result;
  const PackedConstant* packed_zeros = find_packed(data, kWeightZeros);
  result[2] = Tensor::allocate(zeros.dtype, *zeros.shape);
  for_each_block(layout, [&](int64_t from, int64_t block, int64_t first, int64_t columns) {
    for (int64_t n = 0; n < columns; ++n) {
      const int32_t zero = packed_zeros ? packed_zeros->elements.data<int8_t>()[from + n] : 0;
      static_cast<int8_t*>(result[2].raw())[in_memory.at(block, first + n)] = static_cast<int8_t>(zero + added);
    }
  });
  return result;
}

}  // namespace anfora::kernels::generated
