#include "kernels/reference/elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "kernels/reference/float_block.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

const std::byte* element(const Tensor& tensor, int64_t index) {
  return static_cast<const std::byte*>(tensor.raw()) + static_cast<size_t>(index) * element_bytes(tensor.dtype());
}
std::byte* element(Tensor& tensor, int64_t index) {
  return static_cast<std::byte*>(tensor.raw()) + static_cast<size_t>(index) * element_bytes(tensor.dtype());
}

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
  const int64_t stride_a = nest.run_stride(1), stride_b = nest.run_stride(2);
  const bool narrow_out = is_narrow_float(out.dtype());
  if (!narrow_out && !is_narrow_float(a.dtype()) && !is_narrow_float(b.dtype())) {
    nest.for_each_run(grain, [&](const int64_t* at, int64_t count) {
      run(op, element(a, at[1]), stride_a, element(b, at[2]), stride_b, element(out, at[0]), count);
    });
    return;
  }
  nest.for_each_run(grain, [&](const int64_t* at, int64_t count) {
    alignas(64) float left[kFloatBlock], right[kFloatBlock];
    for (int64_t done = 0; done < count; done += kFloatBlock) {
      const int64_t n = std::min(kFloatBlock, count - done);
      load_floats(a.dtype(), element(a, at[1] + done * stride_a), left, stride_a == 0 ? 1 : n);
      load_floats(b.dtype(), element(b, at[2] + done * stride_b), right, stride_b == 0 ? 1 : n);
      if (!narrow_out) {
        run(op, left, stride_a, right, stride_b, element(out, at[0] + done), n);
        continue;
      }
      // The result takes the place of a walking operand; a repeated one is read once, before anything is written.
      run(op, left, stride_a, right, stride_b, left, n);
      store_floats(out.dtype(), left, element(out, at[0] + done), n);
    }
  });
}

}  // namespace anfora::kernels
