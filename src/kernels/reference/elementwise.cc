#include "kernels/reference/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "anfora/error.h"
#include "kernels/reference/float_block.h"
#include "kernels/reference/strided_copy.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// What rows of few elements read of an operand: all its elements in order, one for each row, or the same row or element for all.
enum class RowSource { Walked, NumberOfRow, Row, Number };

// None where the operand is walked otherwise.
std::optional<RowSource> row_source(const Shape& strides, int64_t row_size) {
  if (strides[1] == 1 && strides[0] == row_size) return RowSource::Walked;
  if (strides[1] == 0 && strides[0] == 1) return RowSource::NumberOfRow;
  if (strides[1] == 1 && strides[0] == 0) return RowSource::Row;
  if (strides[1] == 0 && strides[0] == 0) return RowSource::Number;
  return std::nullopt;
}

// Rows of few elements, each operand read in one of those ways: some rows at once are a run of a useful length.
struct NarrowRows {
  int64_t count, size;
  RowSource left, right;

  // None where a row is long enough by itself, or there are more axes.
  static std::optional<NarrowRows> of(const LoopNest& nest) {
    constexpr int64_t kFewElements = 64;
    const Shape& sizes = nest.sizes();
    if (sizes.size() != 2 || sizes[1] >= kFewElements || nest.size() < kFloatBlock) return std::nullopt;
    const auto source = [&](size_t operand) { return row_source(nest.strides(operand), sizes[1]); };
    const std::optional<RowSource> result = source(0), left = source(1), right = source(2);
    if (result != RowSource::Walked || !left || !right) return std::nullopt;
    return NarrowRows{sizes[0], sizes[1], *left, *right};
  }
  int64_t at_once() const { return kFloatBlock / size; }
};

// An operand's elements for some rows: where they lie, or copied as often as they are read.
class RowBlock {
 public:
  RowBlock(const Tensor& tensor, RowSource source, int64_t row_size, int64_t most)
      : tensor_(tensor), source_(source), row_size_(row_size), copies_(source == RowSource::Walked ? 0 : bytes_of(most * row_size)) {
    if (source == RowSource::Walked || source == RowSource::NumberOfRow) return;
    const size_t size = bytes_of(source == RowSource::Number ? 1 : row_size);
    for (size_t at = 0; at < copies_.size(); at += size) std::memcpy(copies_.data() + at, tensor.raw(), size);
  }

  const void* of(int64_t row, int64_t count) {
    if (source_ == RowSource::Walked) return element_at(tensor_, row * row_size_);
    if (source_ == RowSource::NumberOfRow) {
      switch (element_bytes(tensor_.dtype())) {
        case 1: repeat<uint8_t>(row, count); break;
        case 2: repeat<uint16_t>(row, count); break;
        case 4: repeat<uint32_t>(row, count); break;
        default: repeat<uint64_t>(row, count);
      }
    }
    return copies_.data();
  }

 private:
  size_t bytes_of(int64_t count) const { return static_cast<size_t>(count) * element_bytes(tensor_.dtype()); }

  template <class T>
  void repeat(int64_t row, int64_t count) {
    const T* numbers = static_cast<const T*>(element_at(tensor_, row));
    T* to = reinterpret_cast<T*>(copies_.data());
    for (int64_t i = 0; i < count; ++i) to = std::fill_n(to, row_size_, numbers[i]);
  }

  const Tensor& tensor_;
  RowSource source_;
  int64_t row_size_;
  Scratch<std::byte> copies_;
};

}  // namespace

DType as_unsigned(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::I8: return DType::U8;
    case DType::I16: return DType::U16;
    case DType::I32: return DType::U32;
    case DType::I64: return DType::U64;
    default: return dtype;
  }
}

void check_same_dtype(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return;
  throw Error(ErrorCode::TypeMismatch, fmt::format("element types {} and {} differ", name(a.dtype()), name(b.dtype())));
}

void run_unary(UnaryRun run, const void* op, const Tensor& in, Tensor& out, int64_t grain) {
  const bool narrow_in = is_narrow_float(in.dtype()), narrow_out = is_narrow_float(out.dtype());
  parallel_for(in.size(), grain, [&](int64_t begin, int64_t end) {
    if (!narrow_in && !narrow_out) return run(op, element_at(in, begin), element_at(out, begin), end - begin);
    alignas(64) float buffer[kFloatBlock];
    for (int64_t at = begin; at < end; at += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, end - at);
      if (narrow_in) load_floats(in.dtype(), element_at(in, at), buffer, n);
      run(op, narrow_in ? buffer : element_at(in, at),
          narrow_out ? buffer : element_at(out, at), n);
      if (narrow_out) store_floats(out.dtype(), buffer, element_at(out, at), n);
    }
  });
}

void run_binary(BinaryRun run, const void* op, const Tensor& a, const Tensor& b, Tensor& out, int64_t grain) {
  const LoopNest nest = LoopNest::broadcast(out.shape(), {a.shape(), b.shape()});
  const bool narrow_out = is_narrow_float(out.dtype()), is_narrow = narrow_out || is_narrow_float(a.dtype()) || is_narrow_float(b.dtype());
  const auto run_part = [&](const void* x, int64_t stride_a, const void* y, int64_t stride_b, void* z, int64_t count) {
    if (!is_narrow) return run(op, x, stride_a, y, stride_b, z, count);
    alignas(64) float left[kFloatBlock], right[kFloatBlock];
    for (int64_t done = 0; done < count; done += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, count - done);
      load_floats(a.dtype(), element_at(a.dtype(), x, done * stride_a), left, stride_a == 0 ? 1 : n);
      load_floats(b.dtype(), element_at(b.dtype(), y, done * stride_b), right, stride_b == 0 ? 1 : n);
      if (!narrow_out) {
        run(op, left, stride_a, right, stride_b, element_at(out.dtype(), z, done), n);
        continue;
      }
      // The result takes the place of a walking operand; a repeated one is read once, before anything is written.
      run(op, left, stride_a, right, stride_b, left, n);
      store_floats(out.dtype(), left, element_at(out.dtype(), z, done), n);
    }
  };
  if (const std::optional<NarrowRows> rows = NarrowRows::of(nest)) {
    return parallel_for(rows->count, std::max<int64_t>(1, grain / rows->size), [&](int64_t begin, int64_t end) {
      const int64_t most = std::min(rows->at_once(), end - begin);
      RowBlock left(a, rows->left, rows->size, most), right(b, rows->right, rows->size, most);
      for (int64_t row = begin; row < end; row += most) {
        const int64_t count = std::min(most, end - row);
        run_part(left.of(row, count), 1, right.of(row, count), 1, element_at(out, row * rows->size), count * rows->size);
      }
    });
  }
  const int64_t stride_a = nest.run_stride(1), stride_b = nest.run_stride(2);
  nest.for_each_run(grain, [&](const int64_t* at, int64_t count) {
    run_part(element_at(a, at[1]), stride_a, element_at(b, at[2]), stride_b, element_at(out, at[0]), count);
  });
}

}  // namespace anfora::kernels
