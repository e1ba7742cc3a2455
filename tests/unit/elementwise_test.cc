// Elementwise kernels: broadcasting, all element types, special values, and results that take over an input's memory.
#include <functional>
#include <limits>

#include "kernel_values.h"

namespace anfora {
namespace {

const std::vector<DType> kIntegerTypes = {DType::I8, DType::I16, DType::I32, DType::I64,
                                          DType::U8, DType::U16, DType::U32, DType::U64};

// The element of a tensor of `shape` that belongs at `flat` of a result of shape `to`.
int64_t broadcast_index(int64_t flat, const Shape& to, const std::vector<int64_t>& shape) {
  int64_t index = 0, step = 1;
  for (size_t d = to.size(); d-- > 0; flat /= to[d]) {
    const size_t lead = to.size() - shape.size();
    if (d < lead) continue;
    index += shape[d - lead] == 1 ? 0 : flat % to[d] * step;
    step *= shape[d - lead];
  }
  return index;
}

using Binary = std::function<double(double, double)>;
const std::vector<std::pair<std::string, Binary>> kArithmetic{{"Add", [](double a, double b) { return a + b; }},
                                                              {"Sub", [](double a, double b) { return a - b; }},
                                                              {"Mul", [](double a, double b) { return a * b; }},
                                                              {"Div", [](double a, double b) { return a / b; }},
                                                              {"Max", [](double a, double b) { return std::max(a, b); }},
                                                              {"Min", [](double a, double b) { return std::min(a, b); }}};
const std::vector<std::pair<std::string, Binary>> kComparisons{
    {"Equal", [](double a, double b) { return a == b; }},
    {"Less", [](double a, double b) { return a < b; }},
    {"LessOrEqual", [](double a, double b) { return a <= b; }},
    {"Greater", [](double a, double b) { return a > b; }},
    {"GreaterOrEqual", [](double a, double b) { return a >= b; }}};

void check_binary(const std::string& op, const Binary& want_of, DType dtype, const std::vector<int64_t>& a_shape,
                  const std::vector<int64_t>& b_shape) {
  const bool real = is_float(dtype);
  const Tensor a = random_tensor(dtype, a_shape, 1, 6, 11), b = random_tensor(dtype, b_shape, 2, 1, 6);
  const Tensor got = run_kernel(op, {}, {a, b})[0];
  const std::vector<double> x = doubles(a), y = doubles(b);
  std::vector<double> want;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double value =
        want_of(x[broadcast_index(i, got.shape(), a_shape)], y[broadcast_index(i, got.shape(), b_shape)]);
    want.push_back(real ? value : std::trunc(value));
  }
  expect_close(got, want,
               op + " of " + std::string(name(dtype)) + " " + to_string(a_shape) + " and " + to_string(b_shape));
}

TEST(Elementwise, ShapesBroadcast) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> shapes{{{}, {}},
                                                                                  {{3}, {}},
                                                                                  {{}, {4}},
                                                                                  {{2, 3}, {3}},
                                                                                  {{2, 3}, {2, 1}},
                                                                                  {{2, 1, 4}, {3, 1}},
                                                                                  {{2, 3, 4, 5}, {3, 1, 5}},
                                                                                  {{1, 2, 1, 3, 1}, {4, 1, 5, 1, 6}},
                                                                                  {{0, 3}, {1, 3}},
                                                                                  {{5, 1}, {1, 0}},
                                                                                  {{33, 65}, {65}},
                                                                                  {{65}, {33, 1}},
                                                                                  {{700, 3}, {3}},
                                                                                  {{7}, {2, 301, 7}},
                                                                                  {{700, 3}, {700, 1}},
                                                                                  {{401, 1}, {401, 7}},
                                                                                  {{1300, 1}, {2}},
                                                                                  {{1}, {1, 1, 1}}};
  for (const auto& [a, b] : shapes) {
    for (const auto& [op, want] : kArithmetic) check_binary(op, want, DType::F32, a, b);
    for (DType dtype : {DType::F64, DType::F16, DType::BF16, DType::I8, DType::U64})
      check_binary("Add", kArithmetic[0].second, dtype, a, b);
    for (const auto& [op, want] : kComparisons) check_binary(op, want, DType::F16, a, b);
  }
  EXPECT_THROW(run_kernel("Add", {}, {random_tensor(DType::F32, {2}, 1), random_tensor(DType::F32, {3}, 1)}), Error);
  EXPECT_THROW(run_kernel("Add", {}, {random_tensor(DType::F32, {2}, 1), random_tensor(DType::F64, {2}, 1)}), Error);
}

TEST(Elementwise, EveryElementType) {
  std::vector<DType> all = kFloatTypes;
  all.insert(all.end(), kIntegerTypes.begin(), kIntegerTypes.end());
  for (DType dtype : all) {
    for (const auto& [op, want] : kArithmetic) check_binary(op, want, dtype, {2, 35}, {35});
    for (const auto& [op, want] : kComparisons) check_binary(op, want, dtype, {2, 35}, {2, 1});
  }
}

// op on one element each; the result is converted to double.
double apply(const std::string& op, DType dtype, const std::vector<double>& operands,
             const AttributeSet& attributes = {}) {
  std::vector<Tensor> inputs;
  for (double operand : operands) inputs.push_back(tensor_of(dtype, {}, {operand}));
  return doubles(run_kernel(op, attributes, inputs)[0])[0];
}

TEST(Elementwise, IntegersWrapAround) {
  EXPECT_EQ(apply("Add", DType::I8, {127, 1}), -128);
  EXPECT_EQ(apply("Mul", DType::U16, {65535, 65535}), 1);
  EXPECT_EQ(apply("Sub", DType::U32, {0, 1}), 4294967295.0);
  EXPECT_EQ(apply("Div", DType::I32, {-2147483648.0, -1}), -2147483648.0);
  EXPECT_EQ(apply("Abs", DType::I8, {-128}), -128);
  EXPECT_EQ(apply("Neg", DType::I16, {-32768}), -32768);
  EXPECT_EQ(apply("Div", DType::I32, {-7, 2}), -3);
  EXPECT_THROW(apply("Div", DType::I64, {1, 0}), Error);
  EXPECT_THROW(apply("Mod", DType::U8, {1, 0}), Error);
}

TEST(Elementwise, Remainders) {
  const AttributeSet truncated{{"fmod", int64_t{1}}};
  for (double a : {-7, 7}) {
    for (double b : {-3, 3}) {
      EXPECT_EQ(apply("Mod", DType::I32, {a, b}), a - b * std::floor(a / b));
      EXPECT_EQ(apply("Mod", DType::I32, {a, b}, truncated), std::fmod(a, b));
      EXPECT_EQ(apply("Mod", DType::F32, {a + 0.5, b}, truncated), std::fmod(a + 0.5, b));
    }
  }
  EXPECT_EQ(apply("Mod", DType::I8, {-128, -1}), 0);
}

TEST(Elementwise, NotANumberInExtrema) {
  for (DType dtype : kFloatTypes) {
    for (const char* op : {"Max", "Min"}) {
      EXPECT_TRUE(std::isnan(apply(op, dtype, {kNaN, 1})));
      EXPECT_TRUE(std::isnan(apply(op, dtype, {1, kNaN})));
    }
    EXPECT_EQ(apply("Max", dtype, {-kInfinity, -1}), -1);
    EXPECT_TRUE(std::isnan(apply("Clip", dtype, {kNaN, 0, 1})));
    EXPECT_EQ(apply("Clip", dtype, {5, 3, 1}), 1);  // the upper bound wins
    EXPECT_TRUE(std::isnan(apply("Relu", dtype, {kNaN})));
  }
}

TEST(Elementwise, ManyInputs) {
  for (DType dtype : kFloatTypes) {
    const Tensor a = random_tensor(dtype, {2, 3, 4}, 1), b = random_tensor(dtype, {4}, 2),
                 c = random_tensor(dtype, {3, 1}, 3);
    std::vector<double> sum, mean, largest;
    for (int64_t i = 0; i < 24; ++i) {
      const double x = doubles(a)[i], y = doubles(b)[i % 4], z = doubles(c)[i / 4 % 3];
      sum.push_back(x + y + z);
      mean.push_back((x + y + z) / 3);
      largest.push_back(std::max({x, y, z}));
    }
    expect_close(run_kernel("Sum", {}, {a, b, c})[0], sum);
    expect_close(run_kernel("Mean", {}, {a, b, c})[0], mean);
    expect_close(run_kernel("Max", {}, {a, b, c})[0], largest);
    EXPECT_TRUE(Tensor::identical(run_kernel("Sum", {}, {a})[0], a));
  }
}

TEST(Elementwise, Powers) {
  auto power = [](DType base, double b, DType exponent, double e) {
    return doubles(run_kernel("Pow", {}, {tensor_of(base, {}, {b}), tensor_of(exponent, {}, {e})})[0])[0];
  };
  for (double e : {2.0, 3.0, 0.5, -1.0, 0.0, 1.0, -2.0, 1.5}) {
    EXPECT_FLOAT_EQ(static_cast<float>(power(DType::F32, 1.75, DType::F32, e)), static_cast<float>(std::pow(1.75, e)));
  }
  EXPECT_EQ(power(DType::I32, -3, DType::I64, 3), -27);
  EXPECT_EQ(power(DType::I64, 2, DType::F32, 0.5), 1);
  EXPECT_EQ(power(DType::F32, 2, DType::I32, -1), 0.5);
  EXPECT_EQ(power(DType::F32, -0.0, DType::F32, 0.5), 0);
  EXPECT_EQ(power(DType::F32, -kInfinity, DType::F32, 0.5), kInfinity);
  EXPECT_TRUE(std::isnan(power(DType::F32, -1, DType::F32, 0.5)));
}

using Unary = std::function<double(double)>;
double positive(double x) { return std::max(x, 0.0); }

TEST(Activation, AgainstTheirDefinitions) {
  const double selu_alpha = 1.67326319217681884765625, selu_gamma = 1.05070102214813232421875;
  const std::vector<std::tuple<std::string, AttributeSet, Unary>> cases{
      {"Relu", {}, positive},
      {"LeakyRelu", {{"alpha", 0.25f}}, [](double x) { return x < 0 ? 0.25 * x : x; }},
      {"Elu", {{"alpha", 1.5f}}, [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; }},
      {"Celu", {{"alpha", 2.0f}}, [](double x) { return positive(x) + std::min(0.0, 2 * std::expm1(x / 2)); }},
      {"Selu", {}, [=](double x) { return selu_gamma * (x > 0 ? x : selu_alpha * std::expm1(x)); }},
      {"Sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"HardSigmoid", {}, [](double x) { return std::clamp(0.2f * x + 0.5, 0.0, 1.0); }},
      {"HardSwish", {}, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"Softplus", {}, [](double x) { return std::log1p(std::exp(-std::fabs(x))) + positive(x); }},
      {"Softsign", {}, [](double x) { return x / (1 + std::fabs(x)); }},
      {"ThresholdedRelu", {{"alpha", 0.5f}}, [](double x) { return x > 0.5 ? x : 0; }},
      {"Shrink",
       {{"lambd", 0.5f}, {"bias", 0.25f}},
       [](double x) { return x < -0.5  ? x + 0.25
                             : x > 0.5 ? x - 0.25
                                       : 0; }},
      {"Mish", {}, [](double x) { return x * std::tanh(std::log1p(std::exp(-std::fabs(x))) + positive(x)); }},
      {"Gelu", {}, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"Gelu",
       {{"approximate", std::string("tanh")}},
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {"Swish", {{"alpha", 1.5f}}, [](double x) { return x / (1 + std::exp(-1.5 * x)); }},
      {"Exp", {}, [](double x) { return std::exp(x); }},
      {"Erf", {}, [](double x) { return std::erf(x); }},
      {"Tanh", {}, [](double x) { return std::tanh(x); }},
      {"Sin", {}, [](double x) { return std::sin(x); }},
      {"Cos", {}, [](double x) { return std::cos(x); }},
      {"Floor", {}, [](double x) { return std::floor(x); }},
      {"Round", {}, [](double x) { return std::nearbyint(x); }},
      {"Sign", {}, [](double x) { return x > 0   ? 1
                                         : x < 0 ? -1
                                                 : 0; }}};
  for (const auto& [op, attributes, want_of] : cases) {
    for (DType dtype : kFloatTypes) {
      // 2,003 elements: whole vectors, whole blocks, and a rest.
      const Tensor x = random_tensor(dtype, {2003}, 1, -6, 6);
      std::vector<double> want;
      for (double value : doubles(x)) want.push_back(want_of(value));
      // In single precision f'(x) times the rounding of x, for |x| up to 6.
      const Tensor got = run_kernel(op, attributes, {x})[0];
      expect_close(got, want, op);
    }
  }
}

// Large angles take another way.
TEST(Activation, SinesDoNotDependOnTheirNeighbours) {
  for (const char* op : {"Sin", "Cos"}) {
    for (int i = 0; i < 64; ++i) {
      const double x = -3 + 0.1 * i;
      const double alone = doubles(run_kernel(op, {}, {tensor_of(DType::F32, {1}, {x})})[0])[0];
      EXPECT_EQ(doubles(run_kernel(op, {}, {tensor_of(DType::F32, {2}, {x, 1e30})})[0])[0], alone) << op << x;
    }
  }
}

TEST(Activation, FarValues) {
  const std::vector<std::tuple<std::string, double, double>> cases{{"Sigmoid", -kInfinity, 0},
                                                                   {"Sigmoid", kInfinity, 1},
                                                                   {"Softplus", kInfinity, kInfinity},
                                                                   {"Softplus", -kInfinity, 0},
                                                                   {"Tanh", 1e30, 1},
                                                                   {"Elu", -kInfinity, -1},
                                                                   {"Gelu", kInfinity, kInfinity},
                                                                   {"Mish", kInfinity, kInfinity},
                                                                   {"Mish", 100, 100},
                                                                   {"Exp", -200, 0},
                                                                   {"Exp", 100, kInfinity},
                                                                   {"ThresholdedRelu", kNaN, 0},
                                                                   {"Shrink", kNaN, 0},
                                                                   {"Sin", kInfinity, kNaN},
                                                                   {"Sin", 1e5, std::sin(1e5)},
                                                                   {"Cos", 1e5, std::cos(1e5)},
                                                                   {"Reciprocal", -0.0, -kInfinity},
                                                                   {"Sqrt", -1, kNaN},
                                                                   {"Log", 0, -kInfinity}};
  for (const auto& [op, x, want] : cases)
    expect_close(run_kernel(op, {}, {tensor_of(DType::F32, {}, {x})})[0], {want}, op);
}

TEST(Elementwise, ResultsInPlaceOfAnOperand) {
  // The planned output is the first, then the second operand's memory.
  for (size_t taken : {0u, 1u}) {
    for (DType dtype : {DType::F32, DType::F16, DType::I64}) {
      Tensor a = random_tensor(dtype, {3, 1000}, 1, 1, 100), b = random_tensor(dtype, {3, 1000}, 2, 1, 100);
      const Tensor want = run_kernel("Sub", {}, {a, b})[0];
      const Datum left(a), right(b);
      const std::vector<const Datum*> inputs{&left, &right};
      std::vector<Datum> outputs(1);
      const std::vector<Tensor> planned{taken == 0 ? a : b};
      const AttributeSet none;
      kernels::KernelContext context(none, inputs, outputs, planned);
      kernels::reference_kernels().find("Sub")(context);
      EXPECT_EQ(outputs[0].tensor().raw(), planned[0].raw());
      EXPECT_TRUE(Tensor::identical(outputs[0].tensor(), want));
    }
  }
}

}  // namespace
}  // namespace anfora
