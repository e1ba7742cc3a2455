// Normalizations against their definitions, in double and in plain loops.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernel_values.h"

namespace anfora {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

struct Statistics {
  double mean, variance;
};
Statistics statistics(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = sum(values) / n;
  double squares = 0;
  for (double v : values) squares += (v - mean) * (v - mean);
  return {mean, squares / n};
}

std::vector<double> slice(const std::vector<double>& values, int64_t begin, int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

std::vector<int64_t> last_dims(const std::vector<int64_t>& shape, size_t axis) {
  return {shape.begin() + static_cast<int64_t>(axis), shape.end()};
}

void check_layer_normalization(DType dtype, const std::vector<int64_t>& shape, size_t axis, bool with_bias) {
  const std::vector<int64_t> row = last_dims(shape, axis);
  const Tensor x = random_tensor(dtype, shape, 1), scale = random_tensor(dtype, row, 2),
               bias = random_tensor(dtype, row, 3);
  const std::vector<double> values = doubles(x), scales = doubles(scale), biases = doubles(bias);
  std::vector<double> want, means, inverses;
  const int64_t length = elements(row);
  for (int64_t r = 0; r * length < x.size(); ++r) {
    auto [mean, variance] = statistics(slice(values, r * length, length));
    means.push_back(mean);
    inverses.push_back(1 / std::sqrt(variance + 1e-5f));
    for (int64_t i = 0; i < length; ++i) {
      want.push_back((values[r * length + i] - mean) * inverses.back() * scales[i] + (with_bias ? biases[i] : 0));
    }
  }
  const AttributeSet attributes{{"axis", static_cast<int64_t>(axis) - static_cast<int64_t>(shape.size())}};
  std::vector<Tensor> inputs{x, scale};
  if (with_bias) inputs.push_back(bias);
  const std::vector<Tensor> got = run_kernel("LayerNormalization", attributes, inputs, 3);
  expect_close(got[0], want, "Y");
  EXPECT_EQ(got[1].dtype(), DType::F32);
  EXPECT_EQ(static_cast<size_t>(got[1].rank()), shape.size());
  expect_close(got[1], means, "Mean");
  expect_close(got[2], inverses, "InvStdDev");
}

TEST(LayerNormalization, EveryRankAndAxis) {
  const std::vector<int64_t> dims{2, 3, 1, 5, 4};
  for (DType dtype : kFloatTypes) {
    for (size_t rank = 1; rank <= 5; ++rank) {
      for (size_t axis = 0; axis < rank; ++axis) {
        check_layer_normalization(dtype, {dims.end() - static_cast<int64_t>(rank), dims.end()}, axis, axis % 2 == 0);
      }
    }
  }
}

TEST(LayerNormalization, RowsOfEveryLength) {
  for (int64_t length : {1, 2, 7, 31, 32, 33, 768, 70000, 200001})
    check_layer_normalization(DType::F32, {2, length}, 1, true);
}

TEST(LayerNormalization, ScaleAndBiasBroadcast) {
  const std::vector<int64_t> shape{2, 3, 4};
  const Tensor x = random_tensor(DType::F32, shape, 1);
  const Tensor ones = tensor_of(DType::F32, {4}, std::vector<double>(4, 1));
  const std::vector<double> plain = doubles(run_kernel("LayerNormalization", {}, {x, ones})[0]);
  const std::vector<std::vector<int64_t>> factor_shapes{{}, {1}, {4}, {3, 1}, {3, 4}, {2, 1, 1}, {2, 3, 4}, {1, 1, 4}};
  for (const std::vector<int64_t>& own : factor_shapes) {
    const Tensor scale = random_tensor(DType::F32, own, 5), bias = random_tensor(DType::F32, own, 6);
    std::vector<double> want;
    for (int64_t i = 0; i < 24; ++i) {
      const std::vector<int64_t> index{i / 12, i / 4 % 3, i % 4};
      int64_t at = 0;
      for (size_t d = 0; d < own.size(); ++d) {
        at = at * own[d] + (own[d] == 1 ? 0 : index[3 - own.size() + d]);
      }
      want.push_back(plain[i] * doubles(scale)[at] + doubles(bias)[at]);
    }
    expect_close(run_kernel("LayerNormalization", {}, {x, scale, bias})[0], want, to_string(own));
  }
  EXPECT_THROW(run_kernel("LayerNormalization", {}, {x, random_tensor(DType::F32, {3}, 1)}), Error);
  EXPECT_THROW(run_kernel("LayerNormalization", {}, {x, random_tensor(DType::F32, {1, 2, 3, 4}, 1)}), Error);
  EXPECT_THROW(run_kernel("LayerNormalization", {{"axis", int64_t{3}}}, {x, ones}), Error);
}

TEST(LayerNormalization, AnOffsetDoesNotCancel) {
  const Tensor x = make_tensor<float>({1, 4}, {1e6f, 1e6f + 1, 1e6f + 2, 1e6f + 3});
  const Tensor ones = tensor_of(DType::F32, {4}, {1, 1, 1, 1});
  const double step = 1 / std::sqrt(1.25 + 1e-5);
  // The mean, rounded to float, is half a step off at most.
  const std::vector<float> y = values_of<float>(run_kernel("LayerNormalization", {}, {x, ones})[0]);
  for (int i = 0; i + 1 < 4; ++i) EXPECT_NEAR(y[i + 1] - y[i], step, 1e-5);
}

TEST(LayerNormalization, SpecialValuesStayInTheirRow) {
  const Tensor x = tensor_of(DType::F32, {4, 2}, {1, kNaN, 1, kInfinity, -0.0, 0, 3, 1});
  const Tensor ones = tensor_of(DType::F32, {2}, {1, 1});
  const double one = 1 / std::sqrt(1 + 1e-5);
  expect_close(run_kernel("LayerNormalization", {}, {x, ones})[0], {kNaN, kNaN, kNaN, kNaN, 0, 0, one, -one});
}

TEST(LayerNormalization, Empty) {
  const Tensor none = Tensor::allocate(DType::F32, Shape{0, 3}), scale = tensor_of(DType::F32, {3}, {1, 1, 1});
  EXPECT_EQ(run_kernel("LayerNormalization", {}, {none, scale})[0].shape(), (Shape{0, 3}));
  const std::vector<Tensor> outputs = run_kernel(
      "LayerNormalization", {}, {Tensor::allocate(DType::F16, Shape{2, 0}), Tensor::allocate(DType::F16, Shape{0})}, 3);
  EXPECT_EQ(outputs[0].shape(), (Shape{2, 0}));
  EXPECT_EQ(outputs[1].shape(), (Shape{2, 1}));
  expect_close(outputs[1], {kNaN, kNaN});
}

TEST(RMSNormalization, AgainstItsDefinition) {
  for (DType dtype : kFloatTypes) {
    for (DType scale_dtype : kFloatTypes) {
      const Tensor x = random_tensor(dtype, {2, 3, 5}, 1), scale = random_tensor(scale_dtype, {3, 5}, 2);
      const std::vector<double> values = doubles(x), scales = doubles(scale);
      std::vector<double> want;
      for (int64_t r = 0; r < 2; ++r) {
        double squares = 0;
        for (int64_t i = 0; i < 15; ++i) squares += values[r * 15 + i] * values[r * 15 + i];
        for (int64_t i = 0; i < 15; ++i)
          want.push_back(values[r * 15 + i] / std::sqrt(squares / 15 + 0.25) * scales[i]);
      }
      const Tensor got = run_kernel("RMSNormalization", {{"axis", int64_t{1}}, {"epsilon", 0.25f}}, {x, scale})[0];
      EXPECT_EQ(got.dtype(), scale_dtype);
      if (scale_dtype == DType::F64 && dtype != DType::F64) continue;  // checked to the precision of double only below
      expect_close(got, want);
    }
  }
}

// Channels of [2, 6, inner…] in groups, against loops.
void check_groups(DType dtype, const std::vector<int64_t>& inner, int64_t groups) {
  std::vector<int64_t> shape{2, 6};
  shape.insert(shape.end(), inner.begin(), inner.end());
  const int64_t size = elements(inner), length = 6 / groups * size;
  const Tensor x = random_tensor(dtype, shape, 1), scale = random_tensor(dtype, {6}, 2),
               bias = random_tensor(dtype, {6}, 3);
  const std::vector<double> values = doubles(x), scales = doubles(scale), biases = doubles(bias);
  std::vector<double> want;
  for (int64_t i = 0; i < x.size(); ++i) {
    auto [mean, variance] = statistics(slice(values, i / length * length, length));
    const int64_t channel = i / size % 6;
    want.push_back((values[i] - mean) / std::sqrt(variance + 1e-5f) * scales[channel] + biases[channel]);
  }
  const bool instance = groups == 6;
  const AttributeSet attributes = instance ? AttributeSet{} : AttributeSet{{"num_groups", groups}};
  const std::string op = instance ? "InstanceNormalization" : "GroupNormalization";
  expect_close(run_kernel(op, attributes, {x, scale, bias})[0], want);

  std::vector<int64_t> to_last{0}, to_first{0, static_cast<int64_t>(shape.size()) - 1};
  for (size_t axis = 2; axis < shape.size(); ++axis) {
    to_last.push_back(static_cast<int64_t>(axis));
    to_first.push_back(static_cast<int64_t>(axis) - 1);
  }
  to_last.push_back(1);
  const Tensor last = run_kernel("Transpose", {{"perm", to_last}}, {x})[0];
  const Tensor y = run_kernel("Lowered" + op, attributes.with("channels_last", int64_t{1}), {last, scale, bias})[0];
  expect_close(run_kernel("Transpose", {{"perm", to_first}}, {y})[0], want);
}

TEST(GroupNormalization, ShortAndLongChannels) {
  for (DType dtype : kFloatTypes) {
    for (const std::vector<int64_t>& inner : {std::vector<int64_t>{}, {3}, {2, 5}, {4, 4}, {3, 3, 3}, {9, 15}}) {
      for (int64_t groups : {1, 2, 3}) check_groups(dtype, inner, groups);
    }
  }
  const Tensor x = random_tensor(DType::F32, {2, 6, 3}, 1), factors = random_tensor(DType::F32, {6}, 1);
  EXPECT_THROW(run_kernel("GroupNormalization", {{"num_groups", int64_t{4}}}, {x, factors, factors}), Error);
  EXPECT_THROW(run_kernel("GroupNormalization", {}, {x, factors, factors}), Error);
}

TEST(InstanceNormalization, AgainstItsDefinition) {
  for (DType dtype : kFloatTypes) {
    for (const std::vector<int64_t>& inner : {std::vector<int64_t>{2}, {5, 4}, {2, 3, 7}})
      check_groups(dtype, inner, 6);
  }
}

std::vector<double> batch_normalized(const std::vector<double>& x, int64_t channels, int64_t inner,
                                     const std::vector<std::vector<double>>& p, double epsilon) {
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / static_cast<size_t>(inner) % static_cast<size_t>(channels);
    y.push_back((x[i] - p[2][c]) / std::sqrt(p[3][c] + epsilon) * p[0][c] + p[1][c]);
  }
  return y;
}

TEST(BatchNormalization, Inference) {
  for (DType dtype : kFloatTypes) {
    for (const std::vector<int64_t>& inner : {std::vector<int64_t>{}, {3}, {4, 4}, {5, 2, 3}}) {
      std::vector<int64_t> shape{3, 4};
      shape.insert(shape.end(), inner.begin(), inner.end());
      const Tensor x = random_tensor(dtype, shape, 1);
      std::vector<Tensor> inputs{x};
      std::vector<std::vector<double>> parameters;
      for (unsigned i = 0; i < 4; ++i) {
        inputs.push_back(random_tensor(i < 2 ? dtype : DType::F32, {4}, 2 + i, i == 3 ? 0.5 : -1, 2));
        parameters.push_back(doubles(inputs.back()));
      }
      expect_close(run_kernel("BatchNormalization", {{"epsilon", 0.5f}}, inputs)[0],
                   batch_normalized(doubles(x), 4, elements(inner), parameters, 0.5), to_string(shape));
    }
  }
}

TEST(BatchNormalization, Training) {
  for (DType dtype : kFloatTypes) {
    for (const std::vector<int64_t>& inner : {std::vector<int64_t>{}, {3}, {4, 5}}) {
      std::vector<int64_t> shape{5, 3};
      shape.insert(shape.end(), inner.begin(), inner.end());
      const int64_t size = elements(inner);
      const Tensor x = random_tensor(dtype, shape, 1), mean = random_tensor(DType::F32, {3}, 4);
      const Tensor variance = random_tensor(DType::F32, {3}, 5, 0.5, 2);
      const Tensor scale = random_tensor(dtype, {3}, 2), bias = random_tensor(dtype, {3}, 3);
      const std::vector<double> values = doubles(x);
      std::vector<double> means, variances, running_mean, running_variance;
      for (int64_t c = 0; c < 3; ++c) {
        std::vector<double> channel;
        for (int64_t i = 0; i < x.size(); ++i) {
          if (i / size % 3 == c) channel.push_back(values[i]);
        }
        auto [m, v] = statistics(channel);
        means.push_back(m);
        variances.push_back(v);
        running_mean.push_back(0.75 * doubles(mean)[c] + 0.25 * m);
        running_variance.push_back(0.75 * doubles(variance)[c] + 0.25 * v);
      }
      const std::vector<Tensor> got =
          run_kernel("BatchNormalization", {{"training_mode", int64_t{1}}, {"momentum", 0.75f}},
                     {x, scale, bias, mean, variance}, 3);
      expect_close(got[0], batch_normalized(values, 3, size, {doubles(scale), doubles(bias), means, variances}, 1e-5f));
      expect_close(got[1], running_mean);
      expect_close(got[2], running_variance);
    }
  }
}

TEST(BatchNormalization, TrainingTakesAVectorAsOneChannel) {
  const AttributeSet training{{"training_mode", int64_t{1}}};
  std::vector<Tensor> inputs{random_tensor(DType::F32, {10}, 1)};
  for (unsigned i = 0; i < 4; ++i) inputs.push_back(random_tensor(DType::F32, {1}, 2 + i, 0.5, 2));
  const std::vector<Tensor> of_vector = run_kernel("BatchNormalization", training, inputs, 3);
  inputs[0] = random_tensor(DType::F32, {10, 1}, 1);
  const std::vector<Tensor> of_matrix = run_kernel("BatchNormalization", training, inputs, 3);
  for (size_t i = 0; i < of_vector.size(); ++i) expect_close(of_vector[i], doubles(of_matrix[i]));
  EXPECT_EQ(of_vector[0].shape(), Shape{10});
}

TEST(BatchNormalization, RefusesWhatDoesNotFit) {
  const Tensor x = random_tensor(DType::F32, {2, 3}, 1), three = random_tensor(DType::F32, {3}, 1);
  EXPECT_THROW(run_kernel("BatchNormalization", {}, {x, three, three, three, random_tensor(DType::F32, {2}, 1)}),
               Error);
  EXPECT_THROW(run_kernel("BatchNormalization", {}, {three, three, three, three, three}), Error);
  const Tensor none = Tensor::allocate(DType::F32, Shape{0, 3, 7});
  EXPECT_EQ(run_kernel("BatchNormalization", {}, {none, three, three, three, three})[0].shape(), (Shape{0, 3, 7}));
}

TEST(MeanVarianceNormalization, AnyAxes) {
  const std::vector<int64_t> shape{2, 3, 4, 5};
  for (DType dtype : kFloatTypes) {
    const Tensor x = random_tensor(dtype, shape, 1);
    const std::vector<double> values = doubles(x);
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0, 2, 3}, {1}, {-1, -2}, {0, 1, 2, 3}, {}}) {
      auto group_of = [&](int64_t i) {
        int64_t group = 0;
        const std::vector<int64_t> index{i / 60, i / 20 % 3, i / 5 % 4, i % 5};
        for (int64_t d = 0; d < 4; ++d) {
          const bool reduced = std::ranges::find(axes, d) != axes.end() || std::ranges::find(axes, d - 4) != axes.end();
          group = group * shape[d] + (reduced ? 0 : index[d]);
        }
        return group;
      };
      std::vector<std::vector<double>> groups(120);
      for (int64_t i = 0; i < 120; ++i) groups[group_of(i)].push_back(values[i]);
      std::vector<double> want;
      for (int64_t i = 0; i < 120; ++i) {
        auto [mean, variance] = statistics(groups[group_of(i)]);
        want.push_back((values[i] - mean) / (std::sqrt(variance) + 1e-9));
      }
      expect_close(run_kernel("MeanVarianceNormalization", {{"axes", axes}}, {x})[0], want);
    }
  }
}

TEST(MeanVarianceNormalization, DefaultAxesOfFewerDimensions) {
  const Tensor x = random_tensor(DType::F32, {3, 2, 5}, 1);
  const Tensor got = run_kernel("MeanVarianceNormalization", {}, {x})[0];
  const AttributeSet given{{"axes", std::vector<int64_t>{0, 2}}};
  EXPECT_TRUE(Tensor::identical(got, run_kernel("MeanVarianceNormalization", given, {x})[0]));
  EXPECT_THROW(run_kernel("MeanVarianceNormalization", {{"axes", std::vector<int64_t>{3}}}, {x}), Error);
}

TEST(LRN, WindowsOfChannels) {
  for (DType dtype : kFloatTypes) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 5}, {1, 7, 3}, {2, 4, 17, 16}}) {
      for (int64_t size : {1, 2, 3, 6, 20}) {
        const Tensor x = random_tensor(dtype, shape, 1);
        const std::vector<double> values = doubles(x);
        const int64_t channels = shape[1], inner = x.size() / shape[0] / channels;
        std::vector<double> want;
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t c = i / inner % channels;
          double squares = 0;
          for (int64_t k = c - (size - 1) / 2; k <= c + size / 2; ++k) {
            if (k >= 0 && k < channels) squares += std::pow(values[i + (k - c) * inner], 2);
          }
          want.push_back(values[i] / std::pow(1.5 + 0.5 / static_cast<double>(size) * squares, 0.75));
        }
        const AttributeSet attributes{{"size", size}, {"alpha", 0.5f}, {"beta", 0.75f}, {"bias", 1.5f}};
        expect_close(run_kernel("LRN", attributes, {x})[0], want);
      }
    }
  }
}

TEST(LRN, BasesThatAreNotPositive) {
  const Tensor x = tensor_of(DType::F32, {1, 3}, {1, 2, 0});
  const AttributeSet square{{"size", int64_t{1}}, {"alpha", -1.0f}, {"beta", 2.0f}, {"bias", 1.0f}};
  expect_close(run_kernel("LRN", square, {x})[0], {kInfinity, 2.0 / 9, 0});
  EXPECT_THROW(run_kernel("LRN", {{"size", int64_t{0}}}, {x}), Error);
}

TEST(LpNormalization, EveryAxis) {
  const std::vector<int64_t> shape{3, 4, 5};
  for (DType dtype : kFloatTypes) {
    for (int64_t axis : {0, 1, 2}) {
      for (int64_t p : {1, 2}) {
        const Tensor x = random_tensor(dtype, shape, 1);
        const std::vector<double> values = doubles(x);
        const int64_t stride = axis == 0 ? 20 : axis == 1 ? 5 : 1, size = shape[axis];
        std::vector<double> want;
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t first = i - i / stride % size * stride;
          double norm = 0;
          for (int64_t k = 0; k < size; ++k) norm += std::pow(std::fabs(values[first + k * stride]), p);
          want.push_back(values[i] / std::pow(norm, 1.0 / static_cast<double>(p)));
        }
        expect_close(run_kernel("LpNormalization", {{"axis", axis}, {"p", p}}, {x})[0], want);
      }
    }
  }
  const Tensor special = tensor_of(DType::F32, {3, 2}, {0, -0.0, kNaN, 1, kInfinity, 1});
  expect_close(run_kernel("LpNormalization", {}, {special})[0], {0, 0, kNaN, kNaN, kNaN, 0});
  EXPECT_THROW(run_kernel("LpNormalization", {{"p", int64_t{3}}}, {special}), Error);
}

TEST(Dropout, InferenceIsTheIdentity) {
  const Tensor x = random_tensor(DType::F16, {2, 3}, 1);
  const std::vector<Tensor> got = run_kernel("Dropout", {}, {x}, 2);
  EXPECT_TRUE(Tensor::identical(got[0], x));
  EXPECT_EQ(doubles(got[1]), std::vector<double>(6, 1));
  const Tensor ratio = Tensor::scalar<float>(0), training = Tensor::scalar<bool>(true);
  EXPECT_TRUE(Tensor::identical(run_kernel("Dropout", {}, {x, ratio, training})[0], x));
}

TEST(Dropout, DropsAsNumPyDraws) {
  // numpy.random.RandomState(7).rand(3) is 0.0763, 0.7799, 0.4384.
  const Tensor x = make_tensor<float>({3}, {1, 2, -0.0f}), training = Tensor::scalar<bool>(true);
  const AttributeSet seed{{"seed", int64_t{7}}};
  std::vector<Tensor> got = run_kernel("Dropout", seed, {x, Tensor::scalar<float>(0.25f), training}, 2);
  EXPECT_EQ(doubles(got[1]), (std::vector<double>{0, 1, 1}));
  expect_close(got[0], {0, 2 / 0.75, -0.0});
  EXPECT_EQ(doubles(run_kernel("Dropout", seed, {x, Tensor(), training}, 2)[1]), (std::vector<double>{0, 1, 0}));
  for (float ratio : {-0.1f, 1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THROW(run_kernel("Dropout", seed, {x, Tensor::scalar<float>(ratio), training}), Error);
  }
}

}  // namespace
}  // namespace anfora
