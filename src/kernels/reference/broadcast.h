// Broadcasting, and loops over tensors by strides.
//
// A kernel that walks several tensors of one iteration space makes a LoopNest of it: the sizes of the space and, for
// every operand, its stride (in elements) along each dimension; 0 where the operand is broadcast. The nest drops
// dimensions of size 1 and merges neighbours that lie back to back in every operand, so that what remains is usually
// one or two dimensions, and hands out *runs*: pieces of the innermost dimension, as long as possible.
//
//   sizes [8, 16, 32, 32], out dense, a dense, b [16, 1, 1]  ->  sizes [8, 16, 1024], b's strides [0, 1, 0]
//
//   LoopNest nest = LoopNest::broadcast(out.shape(), {a.shape(), b.shape()});     // operand 0: out
//   nest.for_each_run(kGrain, [&](const int64_t* at, int64_t count) {
//     // out[at[0] + i] = a[at[1] + i * nest.run_stride(1)] + b[at[2] + i * nest.run_stride(2)], i < count
//   });
//
// The run stride of an operand made by broadcast() is always 0 or 1. Runs are handed out to several threads, each
// thread gets a contiguous part of the iteration space.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "anfora/tensor.h"

namespace anfora::kernels {

// The shape that `a` and `b` broadcast to by ONNX's (numpy's) rules; throws TypeMismatch when they do not.
Shape broadcast_shape(std::span<const int64_t> a, std::span<const int64_t> b);

// Strides, in elements, of a dense tensor.
Shape dense_strides(std::span<const int64_t> shape);
// Strides of a dense tensor of `shape` when read along the dimensions of `to`, which it broadcasts to: 0 along the
// dimensions that it repeats on.
Shape broadcast_strides(std::span<const int64_t> shape, std::span<const int64_t> to);

class LoopNest {
 public:
  static constexpr size_t kMaxOperands = 5;
  using Strides = std::span<const int64_t>;

  LoopNest(std::span<const int64_t> sizes, std::initializer_list<Strides> operand_strides);
  // Operand 0 is a dense tensor of shape `out`; operand i + 1 is a dense one of shape inputs[i], broadcast to it.
  static LoopNest broadcast(std::span<const int64_t> out, std::initializer_list<std::span<const int64_t>> inputs);

  int64_t size() const { return size_; }         // points of the iteration space
  const Shape& sizes() const { return sizes_; }  // after merging; at least one dimension
  int64_t run_stride(size_t operand) const { return strides_[operand].back(); }
  const Shape& strides(size_t operand) const { return strides_[operand]; }
  // Every operand is dense and of full size: the whole nest is one run.
  bool is_flat() const;

  // Calls body(const int64_t* offsets, int64_t count) for every run; offsets[i] is where operand i's run starts.
  // Ranges of at least `grain` points go to different threads; runs are cut at their borders.
  template <class Body>
  void for_each_run(int64_t grain, Body&& body) const {
    for_each_run_erased(grain, &body, [](void* state, const int64_t* offsets, int64_t count) {
      (*static_cast<std::remove_reference_t<Body>*>(state))(offsets, count);
    });
  }
  // The same for the points from `begin` to before `end` in row-major order, on the calling thread.
  template <class Body>
  void for_each_run_in(int64_t begin, int64_t end, Body&& body) const {
    if (begin == end) return;
    walk(begin, end, &body, [](void* state, const int64_t* offsets, int64_t count) {
      (*static_cast<std::remove_reference_t<Body>*>(state))(offsets, count);
    });
  }

 private:
  using RunBody = void (*)(void* state, const int64_t* offsets, int64_t count);
  void for_each_run_erased(int64_t grain, void* state, RunBody body) const;
  void walk(int64_t begin, int64_t end, void* state, RunBody body) const;
  void collapse();

  size_t operands_ = 0;
  int64_t size_ = 1;
  Shape sizes_;
  std::array<Shape, kMaxOperands> strides_;
};

// Elements that are worth a thread of their own when each costs about a nanosecond or less.
inline constexpr int64_t kElementwiseGrain = 16384;

}  // namespace anfora::kernels
