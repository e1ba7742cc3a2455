// MatMul, Gemm, and the lowered product as the strided product that they are (kernels/strided_product.h).
//
// Where the weights B are constant and one matrix serves all rows, the same product is also an inner product of the library and a
// convolution of one point by one; product_form.h says which computes it fastest.
#include <algorithm>

#include "kernels/onednn/epilogue.h"
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/onednn/product_form.h"
#include "kernels/reference/gemm.h"
#include "kernels/strided_product.h"
#include "support/parallel.h"

namespace anfora::kernels::onednn {
namespace {

using Operand = StridedOperand;
using Product = StridedProduct;

memory::desc strided_desc(const Operand& operand, memory::data_type type) {
  return strided(operand.dims, type, operand.strides);
}

// The library's best implementation knows the operands of attention by their layout with four axes.
void add_axis_for_attention(Product& product) {
  bool is_permuted = false;
  product.for_each([&](Operand& operand) { is_permuted = is_permuted || !operand.is_sorted(); });
  if (product.y.rank() != 3 || !is_permuted) return;
  product.for_each([&](Operand& operand) { operand.insert(0, 1, operand.extent()); });
}

// A matrix times a column as a row times the transposed matrix, (AB)ᵀ = BᵀAᵀ, which the library computes faster.
bool transpose_column(Product& product) {
  if (product.y.rank() != 2 || product.y.dims[1] != 1 || product.y.dims[0] == 1) return false;
  product.for_each([](Operand& operand) {
    std::swap(operand.dims[0], operand.dims[1]);
    std::swap(operand.strides[0], operand.strides[1]);
  });
  std::swap(product.a, product.b);
  product.a.lengthen_single_row();
  product.y.lengthen_single_row();
  return true;
}

class MatMulInstance : public ShapedKernel::Instance {
 public:
  void execute(KernelContext& context) override {
    Tensor& y = context.allocate_output(0, dtype, y_shape);
    for (auto& [input, memory] : inputs) point(memory, context.input(input));
    point(result, y);
    execute_between(primitive, arguments);
  }

  // What the primitive writes, of that layout, for a result of another one.
  memory write_as(const memory::desc& y, const memory::desc& made) { return written_as(result = handle(y), made); }

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

// alpha times one row times a matrix that a run computes. The library would pack the matrix, to read it once.
class RowInstance : public ShapedKernel::Instance {
 public:
  // Null where there are more rows, or nothing is contiguous.
  static std::unique_ptr<RowInstance> make(const Product& product, size_t left, float alpha) {
    const size_t row = product.y.rank() - 2, column = row + 1;
    const bool has_neighbours = product.b.strides[row] == 1 || (product.b.strides[column] == 1 && product.y.strides[column] == 1);
    return product.y.dims[row] == 1 && has_neighbours ? std::make_unique<RowInstance>(product, left, alpha) : nullptr;
  }

  RowInstance(Product product, size_t left, float alpha) : product_(std::move(product)), left_(left), alpha_(alpha) {}

  void execute(KernelContext& context) override {
    const float *a = context.input(left_).data<float>().data(), *b = context.input(1 - left_).data<float>().data();
    float* y = context.allocate_output(0, DType::F32, product_.y_shape).data<float>().data();
    const size_t batch = product_.y.rank() - 2;
    const auto matrix_of = [&]<class T>(T* data, const Operand& operand, int64_t number) {
      for (size_t axis = batch; axis-- > 0; number /= product_.y.dims[axis]) {
        if (operand.dims[axis] != 1) data += number % product_.y.dims[axis] * operand.strides[axis];
      }
      return MatrixView<T>{data, operand.dims[batch], operand.dims[batch + 1], operand.strides[batch], operand.strides[batch + 1]};
    };
    const int64_t products = element_count(std::span(product_.y.dims).first(batch)), work = product_.b.dims[batch] * product_.b.dims[batch + 1];
    parallel_for(products, grain_of(kMultiplyGrain, work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const MatrixView<float> row = matrix_of(y, product_.y, i);
        multiply(matrix_of(a, product_.a, i), matrix_of(b, product_.b, i), row);
        if (alpha_ == 1) continue;
        for (int64_t j = 0; j < row.columns; ++j) row.data[j * row.column_stride] *= alpha_;
      }
    });
  }

 private:
  Product product_;
  size_t left_;
  float alpha_;
};

class MatMul : public ShapedKernel {
 public:
  explicit MatMul(KernelData& data)
      : ShapedKernel(data), dtype_(data.input(0).dtype), type_(*data_type(dtype_)), attributes_(data) {}

  // Where all shapes are known, in the form that the data names, or in the best one, which the data then names. Else each shape has the
  // form that suits it, under the name of matmul. False where that cannot be.
  bool prepare(KernelData& data) {
    form_ = form_named(data.implementation);
    if (!prepare_static()) return false;
    if (!is_static()) {
      const bool is_open = form_.value_or(Form::MatMul) == Form::MatMul;
      form_.reset();
      return is_open;
    }
    form_ = taken_;
    data.implementation = name_of(taken_);
    return true;
  }

 protected:
  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    std::optional<Product> product = attributes_.resolve(shapes);
    if (!product) return nullptr;
    const Tensor* weights = constant(1);
    const size_t left = !weights && transpose_column(*product) ? 1 : 0;
    const bool is_product = !weights && dtype_ == DType::F32 && product->added.empty() && !attributes().has("activation");
    if (is_product && form_.value_or(Form::MatMul) == Form::MatMul) {
      taken_ = Form::MatMul;
      if (auto row = RowInstance::make(*product, left, attributes_.alpha())) return row;
    }
    add_axis_for_attention(*product);
    const memory::desc given = strided_desc(product->b, type_);
    std::unique_ptr<MatMulInstance> instance;
    if (!weights) {
      if (form_.value_or(Form::MatMul) == Form::MatMul) {
        instance = describe(Form::MatMul, *product, shapes, given, left);
        // The library's fast implementations add nothing to a transposed result.
        if (instance && !is_optimized(instance->chosen)) instance = describe(Form::MatMul, *product, shapes, given, left, true);
      }
    } else {
      instance = form_ ? describe_form(*form_, *product, shapes) : choose(*product, shapes);
    }
    if (!instance || !is_optimized(instance->chosen)) return nullptr;
    taken_ = instance->form;

    const memory::desc wanted = instance->chosen.query_md(dnnl::query::weights_md);
    if (weights) {
      memory packed = packed_.get(*weights, given, as_matrix(instance->form, wanted));
      instance->arguments[DNNL_ARG_WEIGHTS] = memory(wanted, cpu(), packed.get_data_handle());
    } else {
      instance->inputs.emplace_back(1 - left, instance->arguments[DNNL_ARG_WEIGHTS] = handle(given));
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
    const int64_t rows = product.y.dims[product.y.rank() - 2], depth = product.b.dims[product.b.rank() - 2];
    for (Form form : forms_by_preference(rows)) {
      auto instance = describe_form(form, product, shapes);
      if (instance && reads_packed(*instance) && is_fast(form, instance->chosen, rows, depth)) return instance;
    }
    return describe(Form::MatMul, product, shapes, any_layout(product.b.dims, type_));
  }

  // With constant weights, in the layout in which they are packed already if the form can read that; null where there is no such form.
  std::unique_ptr<MatMulInstance> describe_form(Form form, const Product& product, const Shapes& shapes) const {
    const bool has_other_forms = product.a.is_dense_matrix() && product.y.is_dense_matrix() &&
                                 std::ranges::all_of(product.added, &Operand::is_dense_matrix);
    if (form != Form::MatMul && !has_other_forms) return nullptr;
    auto instance = describe(form, product, shapes, any_layout(product.b.dims, type_));
    // The library does not know the weights of its convolutions again by a description of ours.
    if (!instance || form == Form::Convolution || reads_packed(*instance)) return instance;
    auto with_packed = describe(form, product, shapes, *packed_.last());
    return with_packed && is_optimized(with_packed->chosen) ? std::move(with_packed) : std::move(instance);
  }

  // Whether the weights, if there are packed ones of these dimensions, need not be packed again.
  bool reads_packed(const MatMulInstance& instance) const {
    const memory::desc* packed = packed_.last();
    if (!packed || !instance.chosen) return true;
    const memory::desc wanted = as_matrix(instance.form, instance.chosen.query_md(dnnl::query::weights_md));
    return packed->get_dims() != wanted.get_dims() || wanted == *packed;
  }

  // Everything but the weights and the primitive itself; null when the library has no such activation. `left`: the input that is A.
  // `moves`: a dense result is brought into its layout afterwards.
  std::unique_ptr<MatMulInstance> describe(Form form, const Product& product, const Shapes& shapes, const memory::desc& b,
                                           size_t left = 0, bool moves = false) const {
    auto instance = std::make_unique<MatMulInstance>();
    instance->form = form;
    auto view = [&](const Operand& operand) { return activations(form, strided_desc(operand, type_)); };
    const memory::desc a = view(product.a), y = view(product.y);
    dnnl::post_ops operations;
    if (attributes_.alpha() != 1) operations.append_eltwise(dnnl::algorithm::eltwise_linear, attributes_.alpha(), 0);
    memory::desc bias;
    size_t next = 0;
    for (size_t i = 2; i < std::min<size_t>(shapes.size(), 4); ++i) {
      if (!shapes[i]) continue;
      const Operand& operand = product.added[next++];
      const bool is_row = std::ranges::all_of(std::span(operand.dims).first(operand.rank() - 1),
                                              [](int64_t extent) { return extent == 1; });
      memory added;
      if (is_row && operand.dims.back() == product.y.dims.back() && attributes_.alpha() == 1 && !bias.get_ndims()) {
        bias = form == Form::MatMul ? strided_desc(operand, type_) : dense(std::span(operand.dims).last(1), type_);
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
    const memory::desc made = moves ? dense(product.y.dims, type_) : y;
    instance->chosen = onednn::describe(form, a, b, bias, made, attr);
    instance->inputs.emplace_back(left, instance->arguments[DNNL_ARG_SRC] = handle(a));
    instance->arguments[DNNL_ARG_DST] = instance->write_as(y, made);
    return instance;
  }

  DType dtype_;
  memory::data_type type_;
  ProductAttributes attributes_;
  std::optional<Form> form_;               // of all instances; none: each has its own
  mutable Form taken_ = Form::MatMul;      // by the last instance
  mutable PackedLayouts packed_ = packed_layouts(1);
};

std::unique_ptr<PreparedKernel> prepare_matmul(KernelData& data) {
  if (!data_type(data.input(0).dtype) || data.input(1).dtype != data.input(0).dtype) return nullptr;
  // A scaled third operand is rare.
  if (data.op == "Gemm" && data.input(2).present && data.attributes.get_float("beta", 1) != 1) return nullptr;
  auto kernel = std::make_unique<MatMul>(data);
  return kernel->prepare(data) ? std::move(kernel) : nullptr;
}

}  // namespace

void register_matmul(PreparedRegistry& registry) {
  for (const char* name : {"MatMul", "Gemm", "LoweredMatMul"}) {
    registry.add(name, name_of(Form::MatMul), prepare_matmul);
    for (Form form : {Form::Convolution, Form::InnerProduct}) registry.add_form(name, name_of(form), prepare_matmul);
  }
}

}  // namespace anfora::kernels::onednn
