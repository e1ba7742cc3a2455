// MatMul, Gemm, and the lowered product ("LoweredMatMul"), all as one strided product:
//
//     Y[batch…, m, n] = activation(alpha · Σ_k A[batch…, m, k] · B[batch…, k, n] + C + Z)
//
// Each operand is dimensions and strides over the axes batch…, rows, columns; an axis that it broadcasts along has
// extent 1. A transposed operand is one whose strides are permuted: nothing moves. The fewer axes, the better the
// implementation that the library finds, and a batch that all operands but B walk along like rows is rows:
//
//     [8, 128, 768] × [768, 768]   is   [1024, 768] × [768, 768]
#include <algorithm>

#include "kernels/onednn/epilogue.h"
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"

namespace anfora::kernels::onednn {
namespace {

struct Operand {
  Shape dims, strides;  // batch…, rows, columns

  // The tensor of that shape, its axes permuted as Transpose does.
  static Operand dense(const Shape& shape, std::span<const int64_t> permutation = {}) {
    Operand result;
    Shape strides(shape.size());
    for (int64_t i = static_cast<int64_t>(shape.size()) - 1, stride = 1; i >= 0; stride *= shape[i], --i)
      strides[i] = stride;
    for (size_t i = 0; i < shape.size(); ++i) {
      size_t axis = permutation.empty() ? i : static_cast<size_t>(permutation[i]);
      result.dims.push_back(shape[axis]);
      result.strides.push_back(strides[axis]);
    }
    return result;
  }
  size_t rank() const { return dims.size(); }
  void insert(size_t position, int64_t extent, int64_t stride) {
    dims.insert(dims.begin() + position, extent);
    strides.insert(strides.begin() + position, stride);
  }
  void erase(size_t axis) {
    dims.erase(dims.begin() + axis);
    strides.erase(strides.begin() + axis);
  }
  void align(size_t rank) {
    while (dims.size() < rank) insert(0, 1, dims.empty() ? 1 : dims[0] * strides[0]);
  }
  // Whether axes i and i + 1 are one axis in memory, of extents outer and inner.
  bool composes(size_t i, int64_t outer, int64_t inner) const {
    if (inner == 1) return true;  // nobody steps along it
    bool spans = dims[i] == outer && dims[i + 1] == inner && strides[i] == strides[i + 1] * inner;
    return spans || (dims[i] == 1 && dims[i + 1] == 1);
  }
  bool is_sorted() const { return std::ranges::is_sorted(strides, std::greater()); }
  // What the outermost axis strides over.
  int64_t extent() const {
    int64_t largest = 1;
    for (size_t i = 0; i < rank(); ++i) largest = std::max(largest, dims[i] * strides[i]);
    return largest;
  }
  // Makes axes i and i + 1 one.
  void compose(size_t i) {
    if (dims[i + 1] == 1) strides[i + 1] = strides[i];
    dims[i + 1] *= dims[i];
    erase(i);
  }
  memory::desc desc(memory::data_type type) const { return strided(dims, type, strides); }
};

struct Product {
  Operand a, b, y;
  std::vector<Operand> added;  // C, Z where present
  Shape y_shape;               // of the tensor

  template <class F>
  void for_each(F f) {
    f(a), f(b), f(y);
    for (Operand& operand : added) f(operand);
  }

  void merge_axes() {
    for (size_t axis = y.rank() - 2; axis-- > 0;) {
      const size_t rows = y.rank() - 2;
      const int64_t outer = y.dims[axis], inner = y.dims[axis + 1];
      if (outer == 1) {
        for_each([&](Operand& operand) { operand.erase(axis); });
        continue;
      }
      bool into_rows = axis + 1 == rows, composes = !into_rows || b.dims[axis] == 1;
      for_each([&](Operand& operand) {
        if (&operand != &b || !into_rows) composes = composes && operand.composes(axis, outer, inner);
      });
      if (!composes) continue;
      for_each([&](Operand& operand) {
        if (&operand == &b && into_rows) {
          operand.erase(axis);
        } else {
          operand.compose(axis);
        }
      });
    }
    // The library's best implementation knows the operands of attention by their layout with four axes.
    bool is_permuted = false;
    for_each([&](Operand& operand) { is_permuted = is_permuted || !operand.is_sorted(); });
    if (y.rank() != 3 || !is_permuted) return;
    for_each([&](Operand& operand) { operand.insert(0, 1, operand.extent()); });
  }
};

std::optional<Shape> broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::span<const int64_t> dims : {a, b}) {
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t& extent = result[result.size() - dims.size() + i];
      if (extent != 1 && dims[i] != 1 && extent != dims[i]) return std::nullopt;
      if (extent == 1) extent = dims[i];
    }
  }
  return result;
}

class MatMulInstance : public ShapedKernel::Instance {
 public:
  void execute(KernelContext& context) override {
    Tensor& y = context.allocate_output(0, dtype, y_shape);
    for (auto& [input, memory] : inputs) point(memory, context.input(input));
    point(result, y);
    primitive.execute(stream(), arguments);
  }

  dnnl::primitive primitive;
  Arguments arguments;
  std::vector<std::pair<size_t, memory>> inputs;  // by number, those that are read from the tensors of each run
  memory result;
  DType dtype = DType::F32;
  Shape y_shape;
};

class MatMul : public ShapedKernel {
 public:
  explicit MatMul(const PrepareRequest& request)
      : ShapedKernel(request), dtype_(request.input(0).dtype), type_(*data_type(dtype_)) {
    if (request.op == "Gemm") {
      if (attributes().get_int("transA", 0) != 0) permutation_a_ = {1, 0};
      if (attributes().get_int("transB", 0) != 0) permutation_b_ = {1, 0};
    } else if (request.op == "LoweredMatMul") {
      permutation_a_ = attributes().get_ints("perm_a");
      permutation_b_ = attributes().get_ints("perm_b");
      permutation_y_ = attributes().get_ints("perm_y");
    }
    alpha_ = attributes().get_float("alpha", 1);
  }

 protected:
  std::unique_ptr<Instance> make(const Shapes& shapes) override {
    std::optional<Product> product = resolve(shapes);
    if (!product) return nullptr;
    const memory::desc a = product->a.desc(type_), y = product->y.desc(type_);
    const memory::desc given = product->b.desc(type_);

    auto instance = std::make_unique<MatMulInstance>();
    dnnl::post_ops operations;
    if (alpha_ != 1) operations.append_eltwise(dnnl::algorithm::eltwise_linear, alpha_, 0);
    memory::desc bias;
    size_t next = 0;
    for (size_t i = 2; i < std::min<size_t>(shapes.size(), 4); ++i) {
      if (!shapes[i]) continue;
      const Operand& operand = product->added[next++];
      const memory::desc desc = operand.desc(type_);
      memory added = handle(desc);
      const bool is_row = std::ranges::all_of(std::span(operand.dims).first(operand.rank() - 1),
                                              [](int64_t extent) { return extent == 1; });
      if (is_row && operand.dims.back() == product->y.dims.back() && alpha_ == 1 && !bias.get_ndims()) {
        bias = desc;
        instance->arguments[DNNL_ARG_BIAS] = added;
      } else {
        instance->arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(operations.len()) | DNNL_ARG_SRC_1] = added;
        operations.append_binary(dnnl::algorithm::binary_add, desc);
      }
      instance->inputs.emplace_back(i, added);
    }
    if (!append_activation(operations, attributes())) return nullptr;
    dnnl::primitive_attr attr;
    attr.set_post_ops(operations);

    const Tensor* weights = constant(1);
    auto describe = [&](const memory::desc& b) {
      return bias.get_ndims() ? dnnl::matmul::primitive_desc(cpu(), a, b, bias, y, attr, true)
                              : dnnl::matmul::primitive_desc(cpu(), a, b, y, attr, true);
    };
    // Weights are in the layout that suits the library best, but are not packed twice for shapes that can do with one.
    dnnl::matmul::primitive_desc pd;
    if (weights && packed_.last() && packed_.last()->get_dims() == given.get_dims()) pd = describe(*packed_.last());
    if (!is_optimized(pd)) pd = describe(weights ? any_layout(product->b.dims, type_) : given);
    if (!is_optimized(pd)) return nullptr;

    memory left = handle(a), right = weights ? packed_.get(*weights, given, pd.weights_desc()) : handle(given);
    instance->inputs.emplace_back(0, left);
    if (!weights) instance->inputs.emplace_back(1, right);
    instance->result = handle(y);
    instance->arguments[DNNL_ARG_SRC] = left;
    instance->arguments[DNNL_ARG_WEIGHTS] = right;
    instance->arguments[DNNL_ARG_DST] = instance->result;
    instance->primitive = dnnl::matmul(pd);
    instance->dtype = dtype_;
    instance->y_shape = product->y_shape;
    return instance;
  }

  bool has_packed(size_t i) const override { return i == 1 && packed_.replaces_tensor(); }

 private:
  // Empty when the operands do not fit, which the reference kernel has words for, or when there is nothing to compute.
  std::optional<Product> resolve(const Shapes& shapes) const {
    if (shapes.size() < 2 || !shapes[0] || !shapes[1]) return std::nullopt;
    for (const auto& shape : shapes) {
      if (shape && element_count(*shape) == 0) return std::nullopt;
    }
    auto fits = [](const Shape& shape, const std::vector<int64_t>& permutation) {
      return permutation.empty() || permutation.size() == shape.size();
    };
    if (!fits(*shapes[0], permutation_a_) || !fits(*shapes[1], permutation_b_)) return std::nullopt;
    Product p;
    p.a = Operand::dense(*shapes[0], permutation_a_);
    p.b = Operand::dense(*shapes[1], permutation_b_);
    const bool row = p.a.rank() == 1, column = p.b.rank() == 1;
    if (p.a.rank() == 0 || p.b.rank() == 0) return std::nullopt;
    if (row) p.a.insert(0, 1, p.a.dims[0]);
    if (column) p.b.insert(1, 1, 1);
    const size_t rank = std::max(p.a.rank(), p.b.rank());
    p.a.align(rank), p.b.align(rank);
    const int64_t m = p.a.dims[rank - 2], k = p.a.dims[rank - 1], n = p.b.dims[rank - 1];
    if (p.b.dims[rank - 2] != k) return std::nullopt;
    auto batch = broadcast(std::span(p.a.dims).first(rank - 2), std::span(p.b.dims).first(rank - 2));
    if (!batch) return std::nullopt;

    Shape full = *batch;
    full.push_back(m), full.push_back(n);
    if (permutation_y_.empty()) {
      p.y = Operand::dense(full);
      p.y_shape = *batch;
      if (!row) p.y_shape.push_back(m);
      if (!column) p.y_shape.push_back(n);
    } else {
      if (row || column || permutation_y_.size() != rank) return std::nullopt;
      for (int64_t axis : permutation_y_) p.y_shape.push_back(full[axis]);
      std::vector<int64_t> inverse(rank);
      for (size_t i = 0; i < rank; ++i) inverse[permutation_y_[i]] = static_cast<int64_t>(i);
      p.y = Operand::dense(p.y_shape, inverse);
    }
    for (size_t i = 2; i < std::min<size_t>(shapes.size(), 4); ++i) {
      if (!shapes[i]) continue;
      Operand added = Operand::dense(*shapes[i]);
      if (row || column || added.rank() > rank) return std::nullopt;
      added.align(rank);
      for (size_t axis = 0; axis < rank; ++axis) {
        if (added.dims[axis] != 1 && added.dims[axis] != full[axis]) return std::nullopt;
      }
      p.added.push_back(std::move(added));
    }
    p.merge_axes();
    return p;
  }

  DType dtype_;
  memory::data_type type_;
  std::vector<int64_t> permutation_a_, permutation_b_, permutation_y_;
  float alpha_;
  PackedConstant packed_;
};

std::unique_ptr<PreparedKernel> prepare_matmul(const PrepareRequest& request) {
  if (!data_type(request.input(0).dtype) || request.input(1).dtype != request.input(0).dtype) return nullptr;
  // A scaled third operand is rare.
  if (request.op == "Gemm" && request.input(2).present && request.attributes.get_float("beta", 1) != 1) return nullptr;
  return prepare_shaped<MatMul>(request);
}

}  // namespace

void register_matmul(PreparedRegistry& registry) {
  for (const char* name : {"MatMul", "Gemm", "LoweredMatMul"}) registry.add(name, "onednn:matmul", prepare_matmul);
}

}  // namespace anfora::kernels::onednn
