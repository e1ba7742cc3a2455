// MatMul, Gemm, and the lowered product ("LoweredMatMul"), all as one strided product:
//
//     Y[batch…, m, n] = activation(alpha · Σ_k A[batch…, m, k] · B[batch…, k, n] + C + Z)
//
// Each operand is dimensions and strides over the axes batch…, rows, columns; an axis that it broadcasts along has
// extent 1. A transposed operand is one whose strides are permuted: nothing moves. The fewer axes, the better the
// implementation that the library finds, and a batch that all operands but B walk along like rows is rows:
//
//     [8, 128, 768] × [768, 768]   is   [1024, 768] × [768, 768]
//
// Where the weights B are constant and one matrix serves all rows, the same product is also an inner product of the library and a
// convolution of one point by one; product_form.h says which computes it fastest.
#include <algorithm>

#include "kernels/onednn/epilogue.h"
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/onednn/product_form.h"

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
  // Nobody steps along rows where there is one, but the library refuses a stride that is shorter than the row.
  void lengthen_single_row() {
    const size_t rows = rank() - 2;
    if (dims[rows] == 1) strides[rows] = std::max(strides[rows], dims[rows + 1] * strides[rows + 1]);
  }
  // Makes axes i and i + 1 one.
  void compose(size_t i) {
    if (dims[i + 1] == 1) strides[i + 1] = strides[i];
    dims[i + 1] *= dims[i];
    erase(i);
  }
  memory::desc desc(memory::data_type type) const { return strided(dims, type, strides); }
  // A matrix whose rows follow each other.
  bool is_dense_matrix() const {
    return rank() == 2 && (dims[1] == 1 || strides[1] == 1) && (dims[0] == 1 || strides[0] == dims[1]);
  }
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
    for_each([](Operand& operand) { operand.lengthen_single_row(); });
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
    onednn::execute(primitive, arguments);
  }

  // Once the primitive is chosen.
  void complete() {
    primitive = dnnl::primitive(chosen);
    add_scratchpad(chosen.query_md(dnnl::query::scratchpad_md), arguments);
  }

  Form form = Form::MatMul;
  dnnl::primitive_desc chosen;
  dnnl::primitive primitive;
  Arguments arguments;
  std::vector<std::pair<size_t, memory>> inputs;  // by number, those that are read from the tensors of each run
  memory result;
  DType dtype = DType::F32;
  Shape y_shape;
};

class MatMul : public ShapedKernel {
 public:
  explicit MatMul(KernelData& data)
      : ShapedKernel(data), dtype_(data.input(0).dtype), type_(*data_type(dtype_)) {
    if (data.op == "Gemm") {
      if (attributes().get_int("transA", 0) != 0) permutation_a_ = {1, 0};
      if (attributes().get_int("transB", 0) != 0) permutation_b_ = {1, 0};
    } else if (data.op == "LoweredMatMul") {
      permutation_a_ = attributes().get_ints("perm_a");
      permutation_b_ = attributes().get_ints("perm_b");
      permutation_y_ = attributes().get_ints("perm_y");
    }
    alpha_ = attributes().get_float("alpha", 1);
  }

 protected:
  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    std::optional<Product> product = resolve(shapes);
    if (!product) return nullptr;
    const Tensor* weights = constant(1);
    const memory::desc given = product->b.desc(type_);
    std::unique_ptr<MatMulInstance> instance =
        weights ? choose(*product, shapes) : describe(Form::MatMul, *product, shapes, given);
    if (!instance || !is_optimized(instance->chosen)) return nullptr;

    const memory::desc wanted = instance->chosen.query_md(dnnl::query::weights_md);
    if (weights) {
      memory packed = packed_.get(*weights, given, as_matrix(instance->form, wanted));
      instance->arguments[DNNL_ARG_WEIGHTS] = memory(wanted, cpu(), packed.get_data_handle());
    } else {
      instance->inputs.emplace_back(1, instance->arguments[DNNL_ARG_WEIGHTS] = handle(given));
    }
    instance->complete();
    instance->dtype = dtype_;
    instance->y_shape = product->y_shape;
    return instance;
  }

  bool packs(size_t i) const override { return i == 1 && packed_.replaces_tensor(); }

 private:
  // With constant weights: in the form and with the layout of weights that suits the library best. Weights are packed once:
  // other shapes take a form that reads that layout, or GEMM, which reads the tensor itself.
  std::unique_ptr<MatMulInstance> choose(const Product& product, const Shapes& shapes) const {
    const memory::desc any = any_layout(product.b.dims, type_), *packed = packed_.last();
    if (packed && packed->get_dims() != any.get_dims()) packed = nullptr;
    const size_t rank = product.y.rank();
    const int64_t rows = product.y.dims[rank - 2], depth = product.b.dims[rank - 2];
    const bool has_other_forms = product.a.is_dense_matrix() && product.y.is_dense_matrix() &&
                                 std::ranges::all_of(product.added, &Operand::is_dense_matrix);
    for (Form form : forms_by_preference(rows)) {
      if (form != Form::MatMul && !has_other_forms) continue;
      auto instance = describe(form, product, shapes, any);
      // The library does not know the weights of its convolutions again by a description of ours.
      if (packed && instance && as_matrix(form, instance->chosen.query_md(dnnl::query::weights_md)) != *packed) {
        instance = form == Form::Convolution ? nullptr : describe(form, product, shapes, *packed);
      }
      if (instance && is_fast(form, instance->chosen, rows, depth)) return instance;
    }
    return describe(Form::MatMul, product, shapes, any);
  }

  // Everything but the weights and the primitive itself; null when the library has no such activation.
  std::unique_ptr<MatMulInstance> describe(Form form, const Product& product, const Shapes& shapes,
                                           const memory::desc& b) const {
    auto instance = std::make_unique<MatMulInstance>();
    instance->form = form;
    auto view = [&](const Operand& operand) { return activations(form, operand.desc(type_)); };
    const memory::desc a = view(product.a), y = view(product.y);
    dnnl::post_ops operations;
    if (alpha_ != 1) operations.append_eltwise(dnnl::algorithm::eltwise_linear, alpha_, 0);
    memory::desc bias;
    size_t next = 0;
    for (size_t i = 2; i < std::min<size_t>(shapes.size(), 4); ++i) {
      if (!shapes[i]) continue;
      const Operand& operand = product.added[next++];
      const bool is_row = std::ranges::all_of(std::span(operand.dims).first(operand.rank() - 1),
                                              [](int64_t extent) { return extent == 1; });
      memory added;
      if (is_row && operand.dims.back() == product.y.dims.back() && alpha_ == 1 && !bias.get_ndims()) {
        bias = form == Form::MatMul ? operand.desc(type_) : dense(std::span(operand.dims).last(1), type_);
        instance->arguments[DNNL_ARG_BIAS] = added = handle(bias);
      } else {
        added = handle(view(operand));
        instance->arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(operations.len()) | DNNL_ARG_SRC_1] = added;
        operations.append_binary(dnnl::algorithm::binary_add, added.get_desc());
      }
      instance->inputs.emplace_back(i, added);
    }
    if (!append_activation(operations, attributes())) return nullptr;
    dnnl::primitive_attr attr = own_scratchpad();
    attr.set_post_ops(operations);
    instance->chosen = onednn::describe(form, a, b, bias, y, attr);
    instance->inputs.emplace_back(0, instance->arguments[DNNL_ARG_SRC] = handle(a));
    instance->arguments[DNNL_ARG_DST] = instance->result = handle(y);
    return instance;
  }

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
  mutable PackedLayouts packed_ = packed_layouts(1);
};

std::unique_ptr<PreparedKernel> prepare_matmul(KernelData& data) {
  if (!data_type(data.input(0).dtype) || data.input(1).dtype != data.input(0).dtype) return nullptr;
  // A scaled third operand is rare.
  if (data.op == "Gemm" && data.input(2).present && data.attributes.get_float("beta", 1) != 1) return nullptr;
  return prepare_shaped<MatMul>(data);
}

}  // namespace

void register_matmul(PreparedRegistry& registry) {
  for (const char* name : {"MatMul", "Gemm", "LoweredMatMul"}) registry.add(name, "onednn:matmul", prepare_matmul);
}

}  // namespace anfora::kernels::onednn
