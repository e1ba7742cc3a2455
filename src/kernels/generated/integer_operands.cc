#include "kernels/generated/integer_operands.h"

#include <algorithm>
#include <type_traits>

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

// Panels of words, and the sums of their columns.
template <class Element, class Part>
void pack_panels(const Element* from, const StridedOperand& matrix, int32_t offset, int64_t width, int64_t words, Part* to,
                 int32_t* sums) {
  constexpr int64_t kParts = 4 / sizeof(Part), kWork = 1 << 16;
  const int64_t depth = matrix.dims[0], columns = matrix.dims[1], panels = (columns + width - 1) / width;
  parallel_for(panels, grain_of(kWork, depth * width), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * width, count = std::min(width, columns - first);
      for (int64_t k = 0; k < depth; ++k) {
        const Element* row = from + k * matrix.strides[0] + first * matrix.strides[1];
        Part* parts = to + (panel * words + k / kParts) * width * kParts + k % kParts;
        for (int64_t n = 0; n < count; ++n) {
          sums[first + n] += parts[n * kParts] = static_cast<Part>(row[n * matrix.strides[1]] - offset);
        }
      }
    }
  });
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

IntegerOperands::Weights IntegerOperands::pack_weights(const Tensor& tensor, const StridedOperand& matrix,
                                                       const Tensor& zero_points, int64_t width) const {
  const int64_t columns = matrix.dims[1], panels = (columns + width - 1) / width, steps = words(matrix.dims[0]);
  Weights weights{Tensor::zeros(DType::I32, Shape{panels, steps, width}),
                  Tensor::zeros(DType::I32, Shape{2, panels * width})};
  int32_t *sums = weights.columns.data<int32_t>().data(), *zeros = sums + panels * width;
  auto pack = [&]<class Part>(Part* to) {
    b == DType::I8
        ? pack_panels(tensor.data<int8_t>().data(), matrix, taken_from_b(), width, steps, to, sums)
        : pack_panels(tensor.data<uint8_t>().data(), matrix, taken_from_b(), width, steps, to, sums);
  };
  void* to = weights.words.raw();
  factors == Factors::Bytes ? pack(static_cast<int8_t*>(to)) : pack(static_cast<int16_t*>(to));
  for (int64_t n = 0; n < columns; ++n) {
    const bool is_one = zero_points.defined() && zero_points.size() == 1;
    zeros[n] = (zero_points.defined() ? byte_element(zero_points, is_one ? 0 : n) : 0) - taken_from_b();
  }
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
