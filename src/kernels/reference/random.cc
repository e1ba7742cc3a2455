// Random tensors. An operator with a seed draws the same numbers in every run; the others draw from the state that the
// executable passes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/random_numbers.h"
#include "support/element_types.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// A seed is an integer in a float attribute; of one that is not, the bits are taken.
uint32_t seed_of(const KernelContext& context) {
  const float seed = context.attributes().get_float("seed", 0);
  const bool integral = seed >= 0 && seed < 0x1p32f && seed == std::trunc(seed);
  return integral ? static_cast<uint32_t>(seed) : std::bit_cast<uint32_t>(seed);
}

// Calls body(engine). What a seed selects is ONNX Runtime's engine, so that the first run of a model gives the same
// numbers in both.
template <class Body>
void with_engine(KernelContext& context, Body&& body) {
  if (!context.attributes().has("seed")) return body(context.random());
  std::minstd_rand0 engine(seed_of(context));
  body(engine);
}

void fill_normal(KernelContext& context, Tensor& output) {
  const float scale = context.attributes().get_float("scale", 1), mean = context.attributes().get_float("mean", 0);
  if (!(scale >= 0)) refuse("the standard deviation is {}", scale);
  with_engine(context, [&](auto& engine) {
    dispatch<Floats>(output.dtype(), [&]<class T>() {
      std::normal_distribution<ComputeType<T>> normal;
      for (T& element : output.data<T>()) element = static_cast<T>(normal(engine) * scale + mean);
    });
  });
}

void fill_uniform(KernelContext& context, Tensor& output) {
  const float low = context.attributes().get_float("low", 0), high = context.attributes().get_float("high", 1);
  if (!(low <= high && std::isfinite(high - low))) refuse("the range is [{}, {})", low, high);
  with_engine(context, [&](auto& engine) {
    dispatch<Floats>(output.dtype(), [&]<class T>() {
      std::uniform_real_distribution<ComputeType<T>> uniform(low, high);
      for (T& element : output.data<T>()) element = static_cast<T>(uniform(engine));
    });
  });
}

template <void (*Fill)(KernelContext&, Tensor&)>
void random_of_shape(KernelContext& context) {
  DType dtype = dtype_attribute(context.attributes(), "dtype", DType::F32);
  Fill(context, context.allocate_output(0, dtype, context.attributes().get_ints("shape")));
}

template <void (*Fill)(KernelContext&, Tensor&)>
void random_like(KernelContext& context) {
  const Tensor& like = context.input(0);
  DType dtype = dtype_attribute(context.attributes(), "dtype", like.dtype());
  Fill(context, context.allocate_output(0, dtype, like.shape()));
}

// Calls body(i, value) for every element, as double.
template <class Body>
void for_each_real(const Tensor& tensor, Body&& body) {
  dispatch<Floats>(tensor.dtype(), [&]<class T>() {
    auto elements = tensor.data<T>();
    for (size_t i = 0; i < elements.size(); ++i) body(i, static_cast<double>(static_cast<ComputeType<T>>(elements[i])));
  });
}

void bernoulli(KernelContext& context) {
  const Tensor& probabilities = context.input(0);
  ScratchVector<uint8_t> drawn(static_cast<size_t>(probabilities.size()));
  const bool seeded = context.attributes().has("seed");
  UniformNumbers uniform = seeded ? UniformNumbers(seed_of(context)) : UniformNumbers(context.random());
  for_each_real(probabilities, [&](size_t i, double p) { drawn[i] = uniform() < p; });
  DType dtype = dtype_attribute(context.attributes(), "dtype", probabilities.dtype());
  Tensor& output = context.allocate_output(0, dtype, probabilities.shape());
  dispatch<Join<Numbers, TypeList<bool>>>(dtype, [&]<class T>() {
    auto elements = output.data<T>();
    for (size_t i = 0; i < drawn.size(); ++i) elements[i] = static_cast<T>(drawn[i]);
  });
}

// Samples by the inverse of each row's cumulative distribution; the input holds logarithms of weights.
void multinomial(KernelContext& context) {
  const Tensor& logits = context.input(0);
  if (logits.rank() != 2 || logits.dim(1) == 0) refuse("expected [batch, classes], got {}", to_string(logits.shape()));
  const int64_t samples = context.attributes().get_int("sample_size", 1);
  if (samples < 0) refuse("sample_size is {}", samples);
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  DType dtype = dtype_attribute(context.attributes(), "dtype", DType::I32);
  Tensor& output = context.allocate_output(0, dtype, Shape{batch, samples});
  ScratchVector<double> weights(static_cast<size_t>(logits.size()));
  for_each_real(logits, [&](size_t i, double value) { weights[i] = value; });
  with_engine(context, [&](auto& engine) {
    std::uniform_real_distribution<double> uniform;
    for (int64_t b = 0; b < batch; ++b) {
      auto row = std::span(weights).subspan(static_cast<size_t>(b * classes), static_cast<size_t>(classes));
      const double highest = *std::max_element(row.begin(), row.end());
      double sum = 0;
      for (double& weight : row) weight = sum += std::exp(weight - highest);
      if (!(sum > 0 && std::isfinite(sum))) refuse("row {} of the logarithms of weights is no distribution", b);
      for (int64_t i = 0; i < samples; ++i) {
        auto at = std::upper_bound(row.begin(), row.end() - 1, sum * uniform(engine)) - row.begin();
        dispatch<TypeList<int32_t, int64_t>>(
            dtype, [&]<class T>() { output.data<T>()[b * samples + i] = static_cast<T>(at); });
      }
    }
  });
}

}  // namespace

void register_random(KernelRegistry& registry) {
  registry.add("RandomNormal", random_of_shape<fill_normal>);
  registry.add("RandomUniform", random_of_shape<fill_uniform>);
  registry.add("RandomNormalLike", random_like<fill_normal>);
  registry.add("RandomUniformLike", random_like<fill_uniform>);
  registry.add("Bernoulli", bernoulli);
  registry.add("Multinomial", multinomial);
}

}  // namespace anfora::kernels
