// Einsum by pairwise contraction.
//
// Every operand becomes a strided view whose dimensions are labels: a repeated label is a diagonal (its strides added),
// a dimension of size 1 that is larger elsewhere is dropped, a label that occurs nowhere else is summed at once. Then
// two operands at a time, the cheapest pair first, become one: with
//
//     batch     labels of both that are still needed     m   labels of the left only
//     k         labels of both that are not              n   labels of the right only
//
// both are laid out as [batch, m, k] and [batch, k, n], and a batched matrix product contracts them. What remains is
// transposed into the output.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/einsum_equation.h"
#include "kernels/reference/families.h"
#include "kernels/reference/gemm.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

using Flags = boost::container::small_vector<bool, 16>;  // by label

// A view whose dimensions carry distinct labels.
template <class T>
struct Operand {
  EinsumLabels labels;
  Shape sizes, strides;
  const T* data = nullptr;  // an input's, or in the workspace

  int64_t size_of(int label) const {
    auto at = std::ranges::find(labels, label);
    return at == labels.end() ? 1 : sizes[at - labels.begin()];
  }
  int64_t stride_of(int label) const {
    auto at = std::ranges::find(labels, label);
    return at == labels.end() ? 0 : strides[at - labels.begin()];
  }
  bool has(int label) const { return std::ranges::find(labels, label) != labels.end(); }
};

template <class T>
Shape strides_along(const Operand<T>& operand, const EinsumLabels& labels) {
  Shape strides;
  for (int label : labels) strides.push_back(operand.stride_of(label));
  return strides;
}

template <class T>
Shape sizes_along(const Operand<T>& operand, const EinsumLabels& labels) {
  Shape sizes;
  for (int label : labels) sizes.push_back(operand.size_of(label));
  return sizes;
}

// Writes the operand densely in the order of `labels`.
template <class T>
void lay_out(const Operand<T>& operand, const EinsumLabels& labels, T* to) {
  Shape sizes = sizes_along(operand, labels), strides = strides_along(operand, labels);
  Shape dense = dense_strides(sizes);
  LoopNest nest(sizes, {dense, strides});
  nest.for_each_run(kElementwiseGrain, [&](const int64_t* at, int64_t count) {
    const T* from = operand.data + at[1];
    for (int64_t i = 0; i < count; ++i) to[at[0] + i * nest.run_stride(0)] = from[i * nest.run_stride(1)];
  });
}

template <class T>
Operand<T> dense_operand(EinsumLabels labels, Shape sizes, const T* data) {
  Shape strides = dense_strides(sizes);
  return {std::move(labels), std::move(sizes), std::move(strides), data};
}

// Sums over the labels that `needed` does not hold.
template <class T>
Operand<T> sum_out(KernelContext& context, Operand<T> operand, const Flags& needed) {
  EinsumLabels kept, summed;
  for (int label : operand.labels) (needed[label] ? kept : summed).push_back(label);
  if (summed.empty()) return operand;
  EinsumLabels order = kept;
  order.insert(order.end(), summed.begin(), summed.end());
  Shape sizes = sizes_along(operand, kept), summed_sizes = sizes_along(operand, summed);
  int64_t rows = element_count(sizes), columns = element_count(summed_sizes);
  const std::span<T> flat = context.workspace_of<T>(rows * columns), sums = context.workspace_of<T>(rows);
  lay_out(operand, order, flat.data());
  parallel_for(rows, grain_of(kElementwiseGrain, columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < columns; ++j) sum += flat[i * columns + j];
      sums[i] = sum;
    }
  });
  return dense_operand(std::move(kept), std::move(sizes), static_cast<const T*>(sums.data()));
}

// The labels of a pair by their part in the contraction.
struct Contraction {
  EinsumLabels batch, left, right, summed;
};

template <class T>
Contraction classify(const Operand<T>& a, const Operand<T>& b, const Flags& needed) {
  Contraction c;
  for (int label : a.labels) {
    if (!b.has(label)) {
      c.left.push_back(label);
    } else {
      (needed[label] ? c.batch : c.summed).push_back(label);
    }
  }
  for (int label : b.labels) {
    if (!a.has(label)) c.right.push_back(label);
  }
  return c;
}

EinsumLabels joined(std::initializer_list<const EinsumLabels*> parts) {
  EinsumLabels result;
  for (const EinsumLabels* part : parts) result.insert(result.end(), part->begin(), part->end());
  return result;
}

// The operand as a batch of matrices [batch, rows, columns]: in place where it lies so, also transposed, else a copy.
template <class T>
MatrixView<const T> as_matrices(KernelContext& context, const Operand<T>& operand, const EinsumLabels& batch,
                                const EinsumLabels& rows, const EinsumLabels& columns) {
  int64_t height = element_count(sizes_along(operand, rows)), width = element_count(sizes_along(operand, columns));
  auto lies_so = [&](const EinsumLabels& order) {
    return strides_along(operand, order) == dense_strides(sizes_along(operand, order));
  };
  if (lies_so(joined({&batch, &columns, &rows}))) return matrix(operand.data, width, height).transposed();
  EinsumLabels order = joined({&batch, &rows, &columns});
  if (lies_so(order)) return matrix(operand.data, height, width);
  T* copy = context.workspace_of<T>(element_count(sizes_along(operand, order))).data();
  lay_out(operand, order, copy);
  return matrix<const T>(copy, height, width);
}

template <class T>
Operand<T> contract(KernelContext& context, const Operand<T>& a, const Operand<T>& b, const Flags& needed) {
  Contraction c = classify(a, b, needed);
  int64_t batch = element_count(sizes_along(a, c.batch)), k = element_count(sizes_along(a, c.summed));
  int64_t m = element_count(sizes_along(a, c.left)), n = element_count(sizes_along(b, c.right));
  MatrixView<const T> left = as_matrices(context, a, c.batch, c.left, c.summed);
  MatrixView<const T> right = as_matrices(context, b, c.batch, c.summed, c.right);
  T* product = context.workspace_of<T>(batch * m * n).data();
  parallel_for(batch, grain_of(kMultiplyGrain, m * n * k), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      MatrixView<const T> l = left, r = right;
      l.data += i * m * k;
      r.data += i * k * n;
      multiply(l, r, matrix(product + i * m * n, m, n));
    }
  });
  Shape sizes = sizes_along(a, c.batch);
  for (int label : c.left) sizes.push_back(a.size_of(label));
  for (int label : c.right) sizes.push_back(b.size_of(label));
  return dense_operand(joined({&c.batch, &c.left, &c.right}), std::move(sizes), static_cast<const T*>(product));
}

// Multiplications that contracting a and b takes: the product of all label sizes of the two.
template <class T>
double contraction_cost(const Operand<T>& a, const Operand<T>& b) {
  double cost = 1;
  for (int64_t size : a.sizes) cost *= static_cast<double>(size);
  for (size_t i = 0; i < b.labels.size(); ++i) {
    if (!a.has(b.labels[i])) cost *= static_cast<double>(b.sizes[i]);
  }
  return cost;
}

// An input as an operand: diagonals taken, dimensions that are broadcast dropped.
template <class T>
Operand<T> as_operand(const Tensor& tensor, const EinsumLabels& labels, const Shape& label_sizes) {
  Operand<T> operand;
  operand.data = tensor.data<T>().data();
  Shape strides = dense_strides(tensor.shape());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (tensor.dim(static_cast<int>(i)) == 1 && label_sizes[labels[i]] != 1) continue;
    auto at = std::ranges::find(operand.labels, labels[i]);
    if (at != operand.labels.end()) {
      operand.strides[at - operand.labels.begin()] += strides[i];
    } else {
      operand.labels.push_back(labels[i]);
      operand.sizes.push_back(tensor.dim(static_cast<int>(i)));
      operand.strides.push_back(strides[i]);
    }
  }
  return operand;
}

template <class T>
void evaluate(KernelContext& context, const EinsumEquation& equation, const Shape& label_sizes,
              std::span<const Tensor> inputs, T* out) {
  PerOperand<Operand<T>> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    operands.push_back(as_operand<T>(inputs[i], equation.inputs[i], label_sizes));
  }
  // The labels that operands other than `skip` or the output hold.
  auto needed_beside = [&](std::initializer_list<size_t> skip) {
    Flags needed(label_sizes.size(), false);
    for (int label : equation.output) needed[label] = true;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (std::ranges::find(skip, i) != skip.end()) continue;
      for (int label : operands[i].labels) needed[label] = true;
    }
    return needed;
  };
  for (size_t i = 0; i < operands.size(); ++i)
    operands[i] = sum_out(context, std::move(operands[i]), needed_beside({i}));
  while (operands.size() > 1) {
    size_t left = 0, right = 1;
    for (size_t i = 0; i < operands.size(); ++i) {
      for (size_t j = i + 1; j < operands.size(); ++j) {
        if (contraction_cost(operands[i], operands[j]) < contraction_cost(operands[left], operands[right])) {
          left = i, right = j;
        }
      }
    }
    operands[left] = contract(context, operands[left], operands[right], needed_beside({left, right}));
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(right));
  }
  lay_out(operands[0], equation.output, out);
}

void einsum(KernelContext& context) {
  PerOperand<Tensor> inputs;
  PerOperand<int> ranks;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    inputs.push_back(context.input(i));
    ranks.push_back(inputs.back().rank());
    if (inputs[i].dtype() != inputs[0].dtype()) {
      throw Error(ErrorCode::TypeMismatch,
                  fmt::format("the operands are {} and {}", name(inputs[0].dtype()), name(inputs[i].dtype())));
    }
  }
  EinsumEquation equation = parse_einsum(context.attributes().string("equation", ""), ranks);
  Shape label_sizes(equation.label_count, 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; d < equation.inputs[i].size(); ++d) {
      int64_t& size = label_sizes[equation.inputs[i][d]];
      int64_t here = inputs[i].dim(static_cast<int>(d));
      if (size == 1) size = here;
      if (here != size && here != 1) {
        throw Error(ErrorCode::TypeMismatch, fmt::format("a label stands for dimensions of {} and {}", size, here));
      }
    }
  }
  DType dtype = inputs[0].dtype();
  for (Tensor& input : inputs) input = widen(context, input);
  Shape shape;
  for (int label : equation.output) shape.push_back(label_sizes[label]);
  WideOutput out(context, 0, dtype, shape);
  dispatch<Accumulators>(inputs[0].dtype(),
                         [&]<class T>() { evaluate<T>(context, equation, label_sizes, inputs, out.data<T>()); });
  out.finish();
}

}  // namespace

void register_einsum(KernelRegistry& registry) { registry.add("Einsum", einsum); }

}  // namespace anfora::kernels
