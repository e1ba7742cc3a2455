#include "kernels/reference/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "anfora/error.h"
#include "kernels/reference/float_block.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

size_t offset_of(const Tensor& tensor, int64_t index) { return static_cast<size_t>(index) * element_bytes(tensor.dtype()); }
const std::byte* element(const Tensor& tensor, int64_t index) { return static_cast<const std::byte*>(tensor.raw()) + offset_of(tensor, index); }
std::byte* element(Tensor& tensor, int64_t index) { return static_cast<std::byte*>(tensor.raw()) + offset_of(tensor, index); }

// Rows of few elements, of which an operand has all, the same ones for each row, or one for each row: some rows at once are a run of a useful length.
struct NarrowRows {
  int64_t count, size;

  // None where a row is long enough by itself, or there are more axes.
  static std::optional<NarrowRows> of(const LoopNest& nest) {
    constexpr int64_t kFewElements = 64;
    const Shape& sizes = nest.sizes();
    if (sizes.size() != 2 || sizes[1] >= kFewElements || nest.size() < kFloatBlock) return std::nullopt;
    const NarrowRows rows{sizes[0], sizes[1]};
    for (size_t operand : {0, 1, 2}) {
      const Shape& strides = nest.strides(operand);
      const bool is_number = strides[1] == 0 && strides[0] <= 1;
      if (!is_number && !(strides[1] == 1 && (strides[0] == 0 || strides[0] == rows.size))) return std::nullopt;
    }
    return rows;
  }
  int64_t at_once() const { return kFloatBlock / size; }
};

// An operand's elements for some rows: where they lie, or copied as often as they are read.
class RowBlock {
 public:
  RowBlock(const Tensor& tensor, const Shape& strides, NarrowRows rows, int64_t most)
      : tensor_(tensor), rows_(rows), is_number_of_row_(strides[1] == 0 && strides[0] == 1), is_dense_(strides[1] == 1 && strides[0] == rows.size),
        copies_(is_dense_ ? 0 : offset_of(tensor, most * rows.size)) {
    if (is_dense_ || is_number_of_row_) return;
    const size_t size = offset_of(tensor, strides[1] == 0 ? 1 : rows.size);
    for (size_t at = 0; at < copies_.size(); at += size) std::memcpy(copies_.data() + at, tensor.raw(), size);
  }

  const std::byte* of(int64_t row, int64_t count) {
    if (is_dense_) return element(tensor_, row * rows_.size);
    if (is_number_of_row_) {
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
  template <class T>
  void repeat(int64_t row, int64_t count) {
    const T* numbers = reinterpret_cast<const T*>(element(tensor_, row));
    T* to = reinterpret_cast<T*>(copies_.data());
    for (int64_t i = 0; i < count; ++i) to = std::fill_n(to, rows_.size, numbers[i]);
  }

  const Tensor& tensor_;
  NarrowRows rows_;
  bool is_number_of_row_, is_dense_;
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
    if (!narrow_in && !narrow_out) return run(op, element(in, begin), element(out, begin), end - begin);
    alignas(64) float buffer[kFloatBlock];
    for (int64_t at = begin; at < end; at += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, end - at);
      if (narrow_in) load_floats(in.dtype(), element(in, at), buffer, n);
      run(op, narrow_in ? static_cast<const void*>(buffer) : element(in, at),
          narrow_out ? static_cast<void*>(buffer) : element(out, at), n);
      if (narrow_out) store_floats(out.dtype(), buffer, element(out, at), n);
    }
  });
}

void run_binary(BinaryRun run, const void* op, const Tensor& a, const Tensor& b, Tensor& out, int64_t grain) {
  const LoopNest nest = LoopNest::broadcast(out.shape(), {a.shape(), b.shape()});
  const bool narrow_out = is_narrow_float(out.dtype()), is_narrow = narrow_out || is_narrow_float(a.dtype()) || is_narrow_float(b.dtype());
  const auto run_part = [&](const std::byte* x, int64_t stride_a, const std::byte* y, int64_t stride_b, std::byte* z, int64_t count) {
    if (!is_narrow) return run(op, x, stride_a, y, stride_b, z, count);
    alignas(64) float left[kFloatBlock], right[kFloatBlock];
    for (int64_t done = 0; done < count; done += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, count - done);
      load_floats(a.dtype(), x + offset_of(a, done * stride_a), left, stride_a == 0 ? 1 : n);
      load_floats(b.dtype(), y + offset_of(b, done * stride_b), right, stride_b == 0 ? 1 : n);
      if (!narrow_out) {
        run(op, left, stride_a, right, stride_b, z + offset_of(out, done), n);
        continue;
      }
      // The result takes the place of a walking operand; a repeated one is read once, before anything is written.
      run(op, left, stride_a, right, stride_b, left, n);
      store_floats(out.dtype(), left, z + offset_of(out, done), n);
    }
  };
  if (const std::optional<NarrowRows> rows = NarrowRows::of(nest)) {
    return parallel_for(rows->count, std::max<int64_t>(1, grain / rows->size), [&](int64_t begin, int64_t end) {
      const int64_t most = std::min(rows->at_once(), end - begin);
      RowBlock left(a, nest.strides(1), *rows, most), right(b, nest.strides(2), *rows, most);
      for (int64_t row = begin; row < end; row += most) {
        const int64_t count = std::min(most, end - row);
        run_part(left.of(row, count), 1, right.of(row, count), 1, element(out, row * rows->size), count * rows->size);
      }
    });
  }
  const int64_t stride_a = nest.run_stride(1), stride_b = nest.run_stride(2);
  nest.for_each_run(grain, [&](const int64_t* at, int64_t count) {
    run_part(element(a, at[1]), stride_a, element(b, at[2]), stride_b, element(out, at[0]), count);
  });
}

}  // namespace anfora::kernels
