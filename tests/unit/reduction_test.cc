// Reductions, softmax and their relatives against plain loops in double.
#include <limits>

#include "kernel_values.h"

namespace anfora {
namespace {

// The elements that go into each result, by a walk over all of them.
std::vector<std::vector<double>> groups(const std::vector<double>& values, const std::vector<int64_t>& shape,
                                        const std::vector<bool>& reduced) {
  int64_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d) count *= reduced[d] ? 1 : shape[d];
  std::vector<std::vector<double>> result(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t group = 0, step = 1;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      if (reduced[d]) continue;
      group += rest % shape[d] * step;
      step *= shape[d];
    }
    result[static_cast<size_t>(group)].push_back(values[i]);
  }
  return result;
}

double reduced_by(const std::string& op, const std::vector<double>& values) {
  double sum = 0, product = 1, magnitude = 0, squares = 0, exponentials = 0, largest = -kInfinity, smallest = kInfinity;
  for (double v : values) {
    sum += v, product *= v, magnitude += std::fabs(v), squares += v * v, exponentials += std::exp(v);
    largest = v > largest || std::isnan(v) ? v : largest;
    smallest = v < smallest || std::isnan(v) ? v : smallest;
  }
  if (op == "ReduceSum") return sum;
  if (op == "ReduceMean") return sum / static_cast<double>(values.size());
  if (op == "ReduceProd") return product;
  if (op == "ReduceMax") return largest;
  if (op == "ReduceMin") return smallest;
  if (op == "ReduceL1") return magnitude;
  if (op == "ReduceL2") return std::sqrt(squares);
  if (op == "ReduceSumSquare") return squares;
  if (op == "ReduceLogSum") return std::log(sum);
  return std::log(exponentials);
}

const std::vector<std::string> kReductions{"ReduceSum",    "ReduceMean",     "ReduceProd", "ReduceMax",
                                           "ReduceMin",    "ReduceL1",       "ReduceL2",   "ReduceSumSquare",
                                           "ReduceLogSum", "ReduceLogSumExp"};

void check_reduction(const std::string& op, DType dtype, const std::vector<int64_t>& shape, unsigned axes,
                     bool keepdims) {
  const Tensor x = random_tensor(dtype, shape, axes + 1, 0.25, is_float(dtype) ? 1.75 : 4);
  std::vector<bool> reduced(shape.size());
  std::vector<int64_t> listed;
  Shape want_shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    reduced[d] = (axes >> d & 1) != 0;
    if (reduced[d])
      listed.push_back(d % 2 == 0 ? static_cast<int64_t>(d)
                                  : static_cast<int64_t>(d) - static_cast<int64_t>(shape.size()));
    if (!reduced[d])
      want_shape.push_back(shape[d]);
    else if (keepdims)
      want_shape.push_back(1);
  }
  const AttributeSet attributes{{"keepdims", static_cast<int64_t>(keepdims)}, {"noop_with_empty_axes", int64_t{1}}};
  const Tensor got = run_kernel(op, attributes, {x, Tensor::vector<int64_t>(listed)})[0];
  EXPECT_EQ(got.shape(), want_shape);
  std::vector<double> want;
  for (const std::vector<double>& group : groups(doubles(x), shape, reduced)) {
    const double value = reduced_by(op, group);
    want.push_back(is_float(dtype) ? value : std::trunc(value));
  }
  expect_close(got, want, op + " of " + std::string(name(dtype)) + " " + to_string(shape));
}

TEST(Reduction, EveryKindAndSetOfAxes) {
  const std::vector<int64_t> dims{2, 3, 1, 4, 2};
  for (const std::string& op : kReductions) {
    for (size_t rank = 0; rank <= 5; ++rank) {
      for (unsigned axes = 0; axes < 1u << rank; ++axes) {
        for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::U64}) {
          if (!is_float(dtype) && op.starts_with("ReduceLog")) continue;
          check_reduction(op, dtype, {dims.end() - static_cast<int64_t>(rank), dims.end()}, axes, axes % 2 == 0);
        }
      }
    }
  }
}

TEST(Reduction, LongRowsAndColumns) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"}) {
    for (int64_t n : {31, 32, 127, 128, 129, 260, 1025}) {
      for (unsigned axes : {1u, 2u, 3u}) {
        check_reduction(op, DType::F32, {n, 5}, axes, true);
        check_reduction(op, DType::F32, {5, n}, axes, false);
        check_reduction(op, DType::I32, {5, n}, axes, false);
      }
    }
    for (unsigned axes : {1u, 2u, 4u, 5u, 7u}) check_reduction(op, DType::F32, {7, 700, 129}, axes, true);
  }
}

TEST(Reduction, SumsDoNotDrift) {
  // One big element and many small ones, which a sum in float would lose.
  std::vector<float> values(1 << 20, 0.1f);
  values[0] = 16777216;
  const float sum = values_of<float>(run_kernel("ReduceSum", {}, {make_tensor<float>({1 << 20}, values)})[0])[0];
  EXPECT_NEAR(sum, 16777216 + 0.1 * ((1 << 20) - 1), 2);
  // Squares beyond the range of float.
  const Tensor big = tensor_of(DType::F32, {2}, {3e30, 4e30});
  EXPECT_FLOAT_EQ(values_of<float>(run_kernel("ReduceL2", {}, {big})[0])[0], 5e30f);
}

TEST(Reduction, SpecialValues) {
  const Tensor x = tensor_of(DType::F32, {4, 2}, {1, kNaN, kInfinity, 1, kInfinity, -kInfinity, -0.0, -0.0});
  const Tensor last = make_tensor<int64_t>({1}, {1});
  const AttributeSet flat{{"keepdims", int64_t{0}}};
  expect_close(run_kernel("ReduceMax", flat, {x, last})[0], {kNaN, kInfinity, kInfinity, 0});
  expect_close(run_kernel("ReduceMin", flat, {x, last})[0], {kNaN, 1, -kInfinity, 0});
  expect_close(run_kernel("ReduceSum", flat, {x, last})[0], {kNaN, kInfinity, kNaN, 0});
  expect_close(run_kernel("ReduceLogSumExp", flat, {x, last})[0], {kNaN, kInfinity, kInfinity, std::log(2)});
}

// Operator sets below 28 have logarithms of integers, which ONNX's function computes in f64 and casts.
TEST(Reduction, LogarithmsOfIntegers) {
  const AttributeSet flat{{"keepdims", int64_t{0}}};
  const Tensor last = make_tensor<int64_t>({1}, {1});
  for (DType dtype : {DType::I32, DType::I64, DType::U32, DType::U64}) {
    // log(10), log(4), log(2797); 4.44, 2.39, 700.74
    const Tensor x = tensor_of(dtype, {3, 4}, {1, 2, 3, 4, 1, 1, 1, 1, 700, 699, 699, 699});
    EXPECT_EQ(doubles(run_kernel("ReduceLogSum", flat, {x, last})[0]), (std::vector<double>{2, 1, 7}));
    EXPECT_EQ(doubles(run_kernel("ReduceLogSumExp", flat, {x, last})[0]), (std::vector<double>{4, 2, 700}));
  }
}

TEST(Reduction, OfNothing) {
  const Tensor none = Tensor::allocate(DType::F32, Shape{2, 0});
  const AttributeSet flat{{"keepdims", int64_t{0}}};
  const Tensor last = make_tensor<int64_t>({1}, {1}), first = make_tensor<int64_t>({1}, {0});
  expect_close(run_kernel("ReduceSum", flat, {none, last})[0], {0, 0});
  expect_close(run_kernel("ReduceProd", flat, {none, last})[0], {1, 1});
  expect_close(run_kernel("ReduceMax", flat, {none, last})[0], {-kInfinity, -kInfinity});
  expect_close(run_kernel("ReduceMean", flat, {none, last})[0], {kNaN, kNaN});
  EXPECT_EQ(run_kernel("ReduceSum", flat, {none, first})[0].shape(), Shape{0});
  const Tensor bytes = Tensor::allocate(DType::I8, Shape{0});
  EXPECT_EQ(doubles(run_kernel("ReduceMin", flat, {bytes})[0]), std::vector<double>{127});
  EXPECT_EQ(doubles(run_kernel("ReduceMax", flat, {bytes})[0]), std::vector<double>{-128});
  EXPECT_THROW(run_kernel("ReduceSum", {}, {none, make_tensor<int64_t>({1}, {2})}), Error);
}

TEST(ArgMax, TiesAndNaN) {
  const Tensor x = tensor_of(DType::F32, {3, 4}, {1, 3, 3, 2, kNaN, 5, kNaN, 1, 0, -0.0, 0, -1});
  auto arg = [&](const char* op, int64_t axis, bool last) {
    return values_of<int64_t>(
        run_kernel(op, {{"axis", axis}, {"keepdims", int64_t{0}}, {"select_last_index", int64_t{last}}}, {x})[0]);
  };
  EXPECT_EQ(arg("ArgMax", 1, false), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(arg("ArgMax", 1, true), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(arg("ArgMin", -1, false), (std::vector<int64_t>{0, 0, 3}));
  EXPECT_EQ(arg("ArgMax", 0, false), (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(arg("ArgMin", 0, true), (std::vector<int64_t>{1, 2, 1, 2}));
}

void check_softmax(DType dtype, const std::vector<int64_t>& shape, size_t axis, double spread) {
  const Tensor x = random_tensor(dtype, shape, 3, -spread, spread);
  const std::vector<double> values = doubles(x);
  int64_t inner = 1;
  for (size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  std::vector<double> softmax, logarithm, hard;
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t first = i - i / inner % shape[axis] * inner;
    double largest = -kInfinity, sum = 0;
    int64_t at = 0;
    for (int64_t k = 0; k < shape[axis]; ++k) {
      if (values[first + k * inner] > largest) largest = values[first + k * inner], at = first + k * inner;
    }
    for (int64_t k = 0; k < shape[axis]; ++k) sum += std::exp(values[first + k * inner] - largest);
    softmax.push_back(std::exp(values[i] - largest) / sum);
    logarithm.push_back(values[i] - largest - std::log(sum));
    hard.push_back(i == at);
  }
  const AttributeSet attributes{{"axis", static_cast<int64_t>(axis)}};
  expect_close(run_kernel("Softmax", attributes, {x})[0], softmax, to_string(shape));
  expect_close(run_kernel("LogSoftmax", attributes, {x})[0], logarithm, to_string(shape));
  expect_close(run_kernel("Hardmax", attributes, {x})[0], hard, to_string(shape));
}

TEST(Softmax, EveryAxis) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{1}, {130}, {3, 70}, {2, 3, 4}, {2, 33, 70}, {2, 2, 1, 3, 5}}) {
      for (size_t axis = 0; axis < shape.size(); ++axis) check_softmax(dtype, shape, axis, 3);
    }
    check_softmax(dtype, {4, 50}, 1, 300);
  }
}

TEST(Softmax, SpecialValues) {
  const Tensor x = tensor_of(DType::F32, {4, 2}, {1, kNaN, kInfinity, 1, -kInfinity, -kInfinity, -kInfinity, 1e30});
  expect_close(run_kernel("Softmax", {}, {x})[0], {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, 0, 1});
  EXPECT_EQ(run_kernel("Softmax", {}, {Tensor::allocate(DType::F32, Shape{2, 0})})[0].shape(), (Shape{2, 0}));
  EXPECT_THROW(run_kernel("Softmax", {{"axis", int64_t{2}}}, {x}), Error);
}

}  // namespace
}  // namespace anfora
