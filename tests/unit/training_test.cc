// Optimizer steps against the pseudo code of their definitions, and random numbers against NumPy's.
#include "kernel_values.h"

namespace anfora {
namespace {

constexpr float kNorm = 0.25f, kAlpha = 0.75f, kBeta = 0.5f, kEpsilon = 0.125f;

// Two parameters of different shapes, with `groups` tensors each, after R and T.
std::vector<Tensor> optimizer_inputs(DType dtype, size_t groups, int64_t count) {
  std::vector<Tensor> inputs{Tensor::scalar<float>(0.5f), Tensor::scalar<int64_t>(count)};
  for (unsigned g = 0; g < groups; ++g) {
    inputs.push_back(random_tensor(dtype, {2, 3}, 10 + g, g < 2 ? -2 : 0.5, 2));
    inputs.push_back(random_tensor(dtype, {}, 20 + g, g < 2 ? -2 : 0.5, 2));
  }
  return inputs;
}

// step(values of one element's group) gives the new parameter and state.
template <class Step>
void check_step(const char* op, const AttributeSet& attributes, size_t groups, int64_t count, const Step& step) {
  for (DType dtype : {DType::F32, DType::F64}) {
    const std::vector<Tensor> inputs = optimizer_inputs(dtype, groups, count);
    const std::vector<Tensor> got =
        run_kernel(std::string("ai.onnx.preview.training::") + op, attributes, inputs, 2 * (groups - 1));
    for (size_t i = 0; i < 2; ++i) {
      std::vector<std::vector<double>> want(groups - 1);
      for (int64_t k = 0; k < inputs[2 + i].size(); ++k) {
        std::vector<double> values;
        for (size_t g = 0; g < groups; ++g) values.push_back(doubles(inputs[2 + 2 * g + i])[k]);
        const std::vector<double> result = step(values);
        for (size_t g = 0; g < result.size(); ++g) want[g].push_back(result[g]);
      }
      for (size_t g = 0; g + 1 < groups; ++g) {
        EXPECT_EQ(got[2 * g + i].shape(), inputs[2 + i].shape());
        expect_close(got[2 * g + i], want[g], op);
      }
    }
  }
}

TEST(Training, Adagrad) {
  const AttributeSet attributes{{"norm_coefficient", kNorm}, {"decay_factor", 0.5f}, {"epsilon", kEpsilon}};
  for (int64_t count : {0, 3}) {
    check_step("Adagrad", attributes, 3, count, [&](const std::vector<double>& v) -> std::vector<double> {
      const double g = kNorm * v[0] + v[1], h = v[2] + g * g;
      return {v[0] - 0.5 / (1 + static_cast<double>(count) * 0.5) * g / (std::sqrt(h) + kEpsilon), h};
    });
  }
}

TEST(Training, Adam) {
  const AttributeSet attributes{{"norm_coefficient", kNorm},
                                {"norm_coefficient_post", 0.5f},
                                {"alpha", kAlpha},
                                {"beta", kBeta},
                                {"epsilon", kEpsilon}};
  for (int64_t count : {0, 1, 5}) {
    check_step("Adam", attributes, 4, count, [&](const std::vector<double>& v) -> std::vector<double> {
      const double g = kNorm * v[0] + v[1], m = kAlpha * v[2] + (1 - kAlpha) * g,
                   h = kBeta * v[3] + (1 - kBeta) * g * g;
      const auto t = static_cast<double>(count);
      const double rate = count > 0 ? 0.5 * std::sqrt(1 - std::pow(kBeta, t)) / (1 - std::pow(kAlpha, t)) : 0.5;
      return {0.5 * (v[0] - rate * m / (std::sqrt(h) + kEpsilon)), m, h};
    });
  }
}

TEST(Training, Momentum) {
  for (int64_t count : {0, 2}) {
    for (bool nesterov : {false, true}) {
      const AttributeSet attributes{{"norm_coefficient", kNorm},
                                    {"alpha", kAlpha},
                                    {"beta", kBeta},
                                    {"mode", std::string(nesterov ? "nesterov" : "standard")}};
      check_step("Momentum", attributes, 3, count, [&](const std::vector<double>& v) -> std::vector<double> {
        const double g = kNorm * v[0] + v[1], m = kAlpha * v[2] + (count > 0 ? kBeta : 1) * g;
        return {v[0] - 0.5 * (nesterov ? g + kAlpha * m : m), m};
      });
    }
  }
}

TEST(Training, RefusesWhatDoesNotFit) {
  std::vector<Tensor> inputs = optimizer_inputs(DType::F32, 3, 1);
  inputs.pop_back();
  EXPECT_THROW(run_kernel("ai.onnx.preview.training::Adagrad", {}, inputs, 4), Error);
  inputs.push_back(random_tensor(DType::F32, {2}, 1));
  EXPECT_THROW(run_kernel("ai.onnx.preview.training::Adagrad", {}, inputs, 4), Error);
  EXPECT_THROW(run_kernel("ai.onnx.preview.training::Momentum", {{"mode", std::string("heavy")}}, inputs, 4), Error);
}

// Random tensors as ONNX Runtime draws them; Bernoulli, whose numbers the conformance suite has, as NumPy does.
TEST(Random, SeedsSelectTheNumbersOfOthers) {
  const AttributeSet seven{
      {"seed", 7.0f}, {"shape", std::vector<int64_t>{3}}, {"dtype", static_cast<int64_t>(DType::F64)}};
  expect_close(run_kernel("RandomUniform", seven, {})[0],
               {0.9207645169652923, 0.21055092323121571, 0.5327143044186753});
  expect_close(run_kernel("RandomNormal", seven, {})[0], {1.6314491698788602, 0.21174800915267622, 2.1370227821783807});
  const Tensor p = make_tensor<double>({5}, {0, 0.77, 0.5, 1, 1});
  EXPECT_EQ(doubles(run_kernel("Bernoulli", {{"seed", 7.0f}}, {p})[0]), (std::vector<double>{0, 0, 1, 1, 1}));
}

}  // namespace
}  // namespace anfora
