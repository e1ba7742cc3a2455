// Reference kernels that write and read rows that lie apart.
#include "prepare_kernel.h"

namespace anfora {
namespace {

class ReferenceKernel : public kernels::PreparedKernel {
 public:
  explicit ReferenceKernel(std::string_view op) : function_(kernels::reference_kernels().find(op)), rows_(kernels::reference_kernels().rows_apart(op)) {}
  void run(kernels::KernelContext& context, State*) const override { function_(context); }
  bool writes_rows_apart(size_t i) const override { return i == 0 && rows_.of_output; }
  bool reads_rows_apart(size_t i) const override { return i == 0 && rows_.of_inputs; }

 private:
  kernels::KernelFunction function_;
  kernels::RowsApart rows_;
};

void expect_rows_apart_of(std::string_view op, const AttributeSet& attributes, const std::vector<Tensor>& inputs) {
  const ReferenceKernel kernel(op);
  ASSERT_TRUE(kernel.writes_rows_apart(0)) << op;
  std::vector<Datum> data;
  for (const Tensor& input : inputs) data.push_back(input.defined() ? Datum(input) : Datum());
  std::vector<const Datum*> pointers;
  for (const Datum& datum : data) pointers.push_back(&datum);
  expect_rows_apart(kernel, attributes, pointers, run_kernel(op, attributes, inputs));
}

Tensor image(DType dtype, int64_t channels = 7) {
  const Tensor random = random_tensor({2, 5, 6, channels}, 1);
  Tensor image = Tensor::allocate(dtype, random.shape());
  dispatch<Numbers>(dtype, [&]<class T>() { std::ranges::transform(random.data<float>(), image.data<T>().begin(), [](float x) { return static_cast<T>(100 * (x + 1)); }); });
  return image;
}

Tensor integers(std::vector<int64_t> values) { return make_tensor<int64_t>({std::ssize(values)}, values); }

TEST(RowsApart, OfResizedImages) {
  const std::vector<std::vector<float>> scales = {{1, 2, 2, 1}, {1, 2, 1.4f, 1}, {1, 1, 1, 1.6f}, {1, 1, 0.5f, 2}, {1.5f, 0.6f, 1, 1}, {1, 1, 1, 1}};
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::U8}) {
      for (const std::vector<float>& scale : scales) {
        SCOPED_TRACE(testing::Message() << mode << " " << name(dtype) << " " << testing::PrintToString(scale));
        for (int64_t channels : {1, 7, 20})
          expect_rows_apart_of("Resize", {{"mode", std::string(mode)}}, {image(dtype, channels), Tensor(), make_tensor<float>({4}, scale)});
      }
    }
  }
}

TEST(RowsApart, OfImagesThatAreCropped) {
  for (const char* mode : {"nearest", "linear"}) {
    const AttributeSet attributes{{"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string("tf_crop_and_resize")}, {"extrapolation_value", 3.0f}};
    const Tensor region = make_tensor<float>({8}, {0, -0.3f, 0.2f, 0, 1, 0.8f, 1.4f, 1}), sizes = integers({2, 7, 9, 7});
    expect_rows_apart_of("Resize", attributes, {image(DType::F32), region, Tensor(), sizes});
  }
}

TEST(RowsApart, OfMovedElements) {
  const Tensor x = image(DType::F32);
  expect_rows_apart_of("Transpose", {{"perm", std::vector<int64_t>{0, 2, 3, 1}}}, {x});
  expect_rows_apart_of("Slice", {}, {x, integers({1, 2}), integers({4, 7}), integers({1, 3})});
  expect_rows_apart_of("DepthToSpace", {{"blocksize", int64_t{2}}}, {random_tensor({1, 8, 3, 5}, 2)});
  expect_rows_apart_of("SpaceToDepth", {{"blocksize", int64_t{2}}}, {random_tensor({1, 3, 4, 6}, 3)});
}

}  // namespace
}  // namespace anfora
