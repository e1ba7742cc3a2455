#include "kernels/generated/integer_operands.h"

#include <algorithm>
#include <type_traits>

#include "support/lasting_memory.h"
#include "support/parallel.h"

namespace anfora::kernels::generated {
namespace {

template <class Element, class Part>
void pack_parts(const std::byte* from, int64_t count, int64_t step, Part* to, int32_t added) {
  const auto* elements = reinterpret_cast<const Element*>(from);
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Part>(elements[i] + added);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Part>(elements[i * step] + added);
  }
}

// Words of as many rows as they have parts, and what these add to the sums of their columns.
template <class Element, class Part>
void pack_row_of_words(const Element* __restrict row, int64_t stride, int32_t offset, int64_t count, uint32_t* __restrict words, int32_t* __restrict sums) {
  constexpr int kParts = 4 / sizeof(Part), kBits = 8 * sizeof(Part);
  for (int64_t n = 0; n < count; ++n) {
    auto add = [&](int part) {
      const int32_t value = row[part * stride + n] - offset;
      sums[n] += value;
      return static_cast<uint32_t>(static_cast<std::make_unsigned_t<Part>>(value)) << (part * kBits);
    };
    words[n] = add(0) | add(1);
    if constexpr (kParts == 4) words[n] |= add(2) | add(3);
  }
}

// A panel of words, and the sums of its columns; zeros where there are no elements.
template <class Element, class Part>
void pack_panel_of(const Element* from, const StridedOperand& matrix, int32_t offset, int64_t panel, int64_t width, uint32_t* words,
                   int32_t* sums) {
  constexpr int64_t kParts = 4 / sizeof(Part);
  const int64_t depth = matrix.dims[0], first = panel * width, count = std::min(width, matrix.dims[1] - first);
  std::fill_n(sums, width, 0);
  for (int64_t k = 0; k < depth; k += kParts, words += width) {
    if (matrix.strides[1] == 1 && depth - k >= kParts) {
      pack_row_of_words<Element, Part>(from + k * matrix.strides[0] + first, matrix.strides[0], offset, count, words, sums);
      std::fill(words + count, words + width, 0);
      continue;
    }
    std::fill_n(words, width, 0);
    for (int64_t part = 0; part < std::min(kParts, depth - k); ++part) {
      const Element* row = from + (k + part) * matrix.strides[0] + first * matrix.strides[1];
      const auto place = static_cast<int>(part * 8 * int64_t{sizeof(Part)});
      auto add = [&](int64_t n, Element element) {
        const int32_t value = element - offset;
        sums[n] += value;
        words[n] |= static_cast<uint32_t>(static_cast<std::make_unsigned_t<Part>>(value)) << place;
      };
      for (int64_t n = 0; n < count; ++n) add(n, row[n * matrix.strides[1]]);
    }
  }
}

// Calls f(the parts of a row).
template <class F>
auto with_parts(Factors factors, auto* row, const F& f) {
  constexpr bool kIsConst = std::is_const_v<std::remove_pointer_t<decltype(row)>>;
  using Byte = std::conditional_t<kIsConst, const uint8_t, uint8_t>;
  using Half = std::conditional_t<kIsConst, const int16_t, int16_t>;
  return factors == Factors::Bytes ? f(static_cast<Byte*>(row)) : f(static_cast<Half*>(row));
}

}  // namespace

Factors best_factors(Isa isa) { return has_byte_dots(isa) ? Factors::Bytes : Factors::Halves; }

int32_t byte_element(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::I8 ? tensor.data<int8_t>()[i] : tensor.data<uint8_t>()[i];
}

void IntegerOperands::pack(const std::byte* from, int64_t count, int64_t step, void* row, int64_t at) const {
  with_parts(factors, row, [&](auto* parts) {
    a == DType::I8 ? pack_parts<int8_t>(from, count, step, parts + at, added_to_a())
                   : pack_parts<uint8_t>(from, count, step, parts + at, added_to_a());
  });
}

void IntegerOperands::fill(int32_t element, int64_t count, void* row, int64_t at) const {
  with_parts(factors, row, [&]<class Part>(Part* parts) {
    std::fill_n(parts + at, count, static_cast<Part>(element + added_to_a()));
  });
}

void IntegerOperands::finish_row(void* row, int64_t count) const {
  with_parts(factors, row, [&]<class Part>(Part* parts) {
    std::fill(parts + count, parts + words(count) * this->parts(), Part{0});
  });
}

int32_t IntegerOperands::sum(const void* row, int64_t count) const {
  return with_parts(factors, row, [&](const auto* parts) {
    int32_t total = 0;
    for (int64_t i = 0; i < count; ++i) total += parts[i];
    return total;
  });
}

void IntegerOperands::pack_panel(const std::byte* from, const StridedOperand& matrix, int64_t panel, int64_t width, int32_t* words,
                                 int32_t* sums) const {
  auto* to = reinterpret_cast<uint32_t*>(words);
  auto pack = [&]<class Part>(std::type_identity<Part>) {
    b == DType::I8 ? pack_panel_of<int8_t, Part>(reinterpret_cast<const int8_t*>(from), matrix, taken_from_b(), panel, width, to, sums)
                   : pack_panel_of<uint8_t, Part>(reinterpret_cast<const uint8_t*>(from), matrix, taken_from_b(), panel, width, to, sums);
  };
  factors == Factors::Bytes ? pack(std::type_identity<int8_t>()) : pack(std::type_identity<int16_t>());
}

void IntegerOperands::zeros_of_columns(const Tensor* zero_points, int64_t columns, int32_t* zeros) const {
  const bool is_one = zero_points && zero_points->size() == 1;
  for (int64_t n = 0; n < columns; ++n) zeros[n] = (zero_points ? byte_element(*zero_points, is_one ? 0 : n) : 0) - taken_from_b();
}

IntegerOperands::Weights IntegerOperands::pack_weights(const Tensor& tensor, const StridedOperand& matrix,
                                                       const Tensor& zero_points, int64_t width) const {
  const int64_t columns = matrix.dims[1], panels = (columns + width - 1) / width, steps = words(matrix.dims[0]);
  Weights weights{LastingMemory::allocate(DType::I32, Shape{panels, steps, width}),
                  Tensor::zeros(DType::I32, Shape{2, panels * width})};
  int32_t *words = weights.words.data<int32_t>().data(), *sums = weights.columns.data<int32_t>().data();
  constexpr int64_t kWork = 1 << 16;
  parallel_for(panels, grain_of(kWork, matrix.dims[0] * width), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      pack_panel(static_cast<const std::byte*>(tensor.raw()), matrix, panel, width, words + panel * steps * width, sums + panel * width);
    }
  });
  zeros_of_columns(zero_points.defined() ? &zero_points : nullptr, columns, sums + panels * width);
  return weights;
}

Tensor IntegerOperands::unpack_weights(const Tensor& packed, const Shape& shape, const StridedOperand& matrix) const {
  Tensor tensor = Tensor::allocate(b, shape);
  auto* to = static_cast<uint8_t*>(tensor.raw());
  const int64_t steps = packed.dim(1), width = packed.dim(2);
  auto unpack = [&](const auto* words) {
    for (int64_t k = 0; k < matrix.dims[0]; ++k) {
      for (int64_t n = 0; n < matrix.dims[1]; ++n) {
        const int64_t word = (n / width * steps + k / parts()) * width + n % width;
        const int32_t element = words[word * parts() + k % parts()] + taken_from_b();
        to[k * matrix.strides[0] + n * matrix.strides[1]] = static_cast<uint8_t>(element);
      }
    }
  };
  factors == Factors::Bytes ? unpack(static_cast<const int8_t*>(packed.raw()))
                            : unpack(static_cast<const int16_t*>(packed.raw()));
  return tensor;
}

}  // namespace anfora::kernels::generated
