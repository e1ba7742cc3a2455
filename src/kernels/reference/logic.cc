// Comparisons, boolean operations and Where, with broadcasting.
#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"

namespace anfora::kernels {
namespace {

struct LessThan {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqualTo {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct GreaterThan {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqualTo {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct EqualTo {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a == b;
  }
};
struct Conjunction {
  bool operator()(bool a, bool b) const { return a & b; }
};
struct Disjunction {
  bool operator()(bool a, bool b) const { return a | b; }
};
struct Difference {
  bool operator()(bool a, bool b) const { return a != b; }
};
struct Negation {  // of bytes, so that loops vectorize
  uint8_t operator()(uint8_t a) const { return a == 0; }
};

using Ordered = Join<WideFloats, Integers>;

template <class Op>
void compare(KernelContext& context) {
  compare_pairs<Ordered>(context, Op{});
}

template <class Op>
void combine_bools(KernelContext& context) {
  map_pairs<TypeList<bool>>(context, Op{});
}

void negate(KernelContext& context) {
  const Tensor& in = context.input(0);
  const Negation op;
  run_unary(unary_loop<uint8_t, uint8_t, Negation>, &op, in, context.allocate_output(0, DType::Bool, in.shape()), kElementwiseGrain);
}

void equal(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  check_same_dtype(a, b);
  using Types = Join<Join<WideFloats, UnsignedIntegers>, TypeList<std::string>>;
  BinaryRun run = dispatch<Types>(as_unsigned(compute_dtype(a.dtype())),
                                  []<class T>() -> BinaryRun { return binary_loop<T, bool, EqualTo>; });
  const EqualTo op;
  run_binary(run, &op, a, b, context.allocate_output(0, DType::Bool, broadcast_shape(a.shape(), b.shape())),
             kElementwiseGrain);
}

// One run of Where. `out` may be the memory of x or y where that one has stride 1. Elements are read whether they are chosen or
// not: a read under a condition is a branch, and a branch on data costs more than the read.
template <class T>
void select(const bool* condition, int64_t stride_c, const T* x, int64_t stride_x, const T* y, int64_t stride_y, T* out,
            int64_t n) {
  if (stride_c == 0) {
    const T* chosen = *condition ? x : y;
    if ((*condition ? stride_x : stride_y) == 0)
      std::fill_n(out, n, T(*chosen));
    else if (out != chosen)
      std::copy_n(chosen, n, out);
  } else if (stride_x != 0 && stride_y != 0) {
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) {
      const T a = x[i], b = y[i];
      out[i] = condition[i] ? a : b;
    }
  } else if (stride_x != 0) {
    const T otherwise = *y;
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) {
      const T a = x[i];
      out[i] = condition[i] ? a : otherwise;
    }
  } else if (stride_y != 0) {
    const T value = *x;
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) {
      const T b = y[i];
      out[i] = condition[i] ? value : b;
    }
  } else {
    const T value = *x, otherwise = *y;
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] ? value : otherwise;
  }
}

void where(KernelContext& context) {
  const Tensor &condition = context.input(0), &x = context.input(1), &y = context.input(2);
  check_same_dtype(x, y);
  const Shape shape = broadcast_shape(condition.shape(), broadcast_shape(x.shape(), y.shape()));
  Tensor& out = context.allocate_output(0, x.dtype(), shape);
  const LoopNest nest = LoopNest::broadcast(shape, {condition.shape(), x.shape(), y.shape()});
  dispatch_by_size(x.dtype(), [&]<class T>() {
    const bool* choices = condition.data<bool>().data();
    const T *xs = x.data<T>().data(), *ys = y.data<T>().data();
    T* results = out.data<T>().data();
    nest.for_each_run(kElementwiseGrain, [&](const int64_t* at, int64_t count) {
      select(choices + at[1], nest.run_stride(1), xs + at[2], nest.run_stride(2), ys + at[3], nest.run_stride(3),
             results + at[0], count);
    });
  });
}

}  // namespace

void register_logic(KernelRegistry& registry) {
  registry.add("Equal", equal);
  registry.add("Less", compare<LessThan>);
  registry.add("LessOrEqual", compare<LessOrEqualTo>);
  registry.add("Greater", compare<GreaterThan>);
  registry.add("GreaterOrEqual", compare<GreaterOrEqualTo>);
  registry.add("And", combine_bools<Conjunction>);
  registry.add("Or", combine_bools<Disjunction>);
  registry.add("Xor", combine_bools<Difference>);
  registry.add("Not", negate);
  registry.add("Where", where);
}

}  // namespace anfora::kernels
