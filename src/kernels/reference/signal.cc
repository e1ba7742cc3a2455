// DFT, STFT and MelWeightMatrix.
#include <algorithm>
#include <cmath>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/fourier.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// Longer transforms are refused.
constexpr int64_t kLongestTransform = int64_t{1} << 26;
// Elements transformed that are worth a thread of their own.
constexpr int64_t kTransformGrain = 2048;

int64_t checked_length(int64_t length) {
  if (length < 1 || length > kLongestTransform) refuse("a Fourier transform of length {}", length);
  return length;
}

// Numbers stored along the last dimension: one component (real) or two (real, imaginary).
int64_t components_of(const Tensor& tensor) {
  int64_t components = tensor.rank() > 0 ? tensor.dim(tensor.rank() - 1) : 0;
  if (components != 1 && components != 2) refuse("a signal of shape {}", to_string(tensor.shape()));
  return components;
}

// Transforms of many lines of real or complex elements.
template <class T>
struct LineTransforms {
  int64_t length;              // of a transform
  bool inverse = false;
  int64_t given, components;   // elements of a line and components of each; what is missing is zero
  int64_t step = 1;            // from one element to the next, in the input and the result
  bool gives_half = false;     // the other half of its spectrum is the conjugate mirror image
  const T* window = nullptr;   // factors of the elements
  int64_t results, result_components;

  // Line i begins at from(i) and has its result at to(i).
  template <class From, class To>
  void run(int64_t lines, const From& from, const To& to) const;

 private:
  bool is_real() const { return components == 1 && !inverse; }
  template <int L, class From>
  void load(double* lines, int64_t count, const From& from) const;
  template <int L, class To>
  void store(const double* spectra, int64_t count, const To& to) const;
};

// Lines as FourierTransform takes them.
template <class T>
template <int L, class From>
void LineTransforms<T>::load(double* lines, int64_t count, const From& from) const {
  const int64_t parts = is_real() ? 1 : 2;
  std::fill_n(lines, parts * length * L, 0.0);
  const auto load_parts = [&](const auto& factor) {
    for (int64_t lane = 0; lane < count; ++lane) {
      for (int64_t part = 0; part < components; ++part) {
        const T* line = from(lane) + part;
        double* to = lines + part * L + lane;
        for (int64_t k = 0; k < given; ++k) to[k * parts * L] = static_cast<double>(line[k * step * components]) * factor(k);
      }
    }
  };
  window ? load_parts([&](int64_t k) { return static_cast<double>(window[k]); }) : load_parts([](int64_t) { return 1.0; });
  if (!gives_half) return;
  for (int64_t k = 1; 2 * k < length; ++k) {
    for (int64_t i = 0; i < L; ++i) {
      lines[2 * (length - k) * L + i] = lines[2 * k * L + i];
      lines[(2 * (length - k) + 1) * L + i] = -lines[(2 * k + 1) * L + i];
    }
  }
}

template <class T>
template <int L, class To>
void LineTransforms<T>::store(const double* spectra, int64_t count, const To& to) const {
  const int64_t known = is_real() ? std::min(results, length / 2 + 1) : results;  // the others are conjugates of these
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t part = 0; part < result_components; ++part) {
      const double* spectrum = spectra + part * L + lane;
      T* line = to(lane) + part;
      const int64_t result_step = step * result_components;
      for (int64_t k = 0; k < known; ++k) line[k * result_step] = static_cast<T>(spectrum[2 * k * L]);
      for (int64_t k = known; k < results; ++k) line[k * result_step] = static_cast<T>((part == 0 ? 1 : -1) * spectrum[2 * (length - k) * L]);
    }
  }
}

template <class T>
template <class From, class To>
void LineTransforms<T>::run(int64_t lines, const From& from, const To& to) const {
  constexpr int64_t kLongestSideBySide = 1 << 14;  // so that memory stays small
  const int64_t at_once = lines == 1 || length > kLongestSideBySide ? 1 : FourierTransform::kLanes;
  const auto run_with = [&](const auto& transform) {
    parallel_for(ceil_div(lines, at_once), grain_of(kTransformGrain, at_once * length), [&](int64_t begin, int64_t end) {
      Scratch<double> in(static_cast<size_t>(2 * at_once * length)), out(static_cast<size_t>(2 * at_once * (length + 1)));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i * at_once, count = std::min(at_once, lines - first);
        const auto run_lanes = [&]<int L>() {
          load<L>(in.data(), count, [&](int64_t lane) { return from(first + lane); });
          transform.template run<L>(in.data(), out.data());
          store<L>(out.data(), count, [&](int64_t lane) { return to(first + lane); });
        };
        count == 1 ? run_lanes.template operator()<1>() : run_lanes.template operator()<FourierTransform::kLanes>();
      }
    });
  };
  is_real() ? run_with(RealFourierTransform(length)) : run_with(FourierTransform(length, inverse));
}

void dft(KernelContext& context) {
  const Tensor& x = context.input(0);
  bool inverse = context.attributes().get_int("inverse", 0) != 0;
  bool onesided = context.attributes().get_int("onesided", 0) != 0;
  int64_t components = components_of(x);
  int axis = normalize_axis(context.has_input(2) ? integer(context.input(2)) : -2, x.rank());
  if (axis == x.rank() - 1) refuse("a transform along the axis of real and imaginary parts");
  int64_t given = x.dim(axis);
  bool halves_in = onesided && inverse, halves_out = onesided && !inverse;
  if (halves_out && components != 1) refuse("a onesided transform of a complex signal");
  if (halves_in && components != 2) refuse("a onesided inverse transform of a real spectrum");
  int64_t length = context.has_input(1) ? integer(context.input(1)) : halves_in ? 2 * (given - 1) : given;
  checked_length(length);
  int64_t used = std::min(given, halves_in ? length / 2 + 1 : length);
  int64_t results = halves_out ? length / 2 + 1 : length, out_components = halves_in ? 1 : 2;
  Shape shape = x.shape();
  shape[axis] = results;
  shape.back() = out_components;
  int64_t outer = extent(x.shape(), 0, axis), inner = extent(x.shape(), axis + 1, x.rank() - 1);
  Tensor wide = widen(context, x);
  WideOutput y(context, 0, x.dtype(), shape);
  dispatch<FloatAccumulators>(wide.dtype(), [&]<class T>() {
    const T* from = wide.data<T>().data();
    T* to = y.data<T>();
    const LineTransforms<T> transforms{.length = length, .inverse = inverse, .given = used, .components = components, .step = inner,
                                       .gives_half = halves_in, .results = results, .result_components = out_components};
    const auto place = [&](int64_t line, int64_t extent) { return line / inner * extent * inner + line % inner; };
    transforms.run(outer * inner, [&](int64_t i) { return from + place(i, given) * components; },
                   [&](int64_t i) { return to + place(i, results) * out_components; });
  });
  y.finish();
}

void stft(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor* window = context.optional_input(2);
  if (x.rank() != 2 && x.rank() != 3) refuse("a signal of shape {}, expected rank 2 or 3", to_string(x.shape()));
  // Without an axis of components the signal is real.
  int64_t components = x.rank() == 2 ? 1 : components_of(x), batch = x.dim(0), samples = x.dim(1),
          step = integer(context.input(1));
  if (window && (window->rank() != 1 || window->dtype() != x.dtype())) {
    refuse("a window of shape {} and type {}", to_string(window->shape()), name(window->dtype()));
  }
  int64_t length = context.has_input(3) ? integer(context.input(3)) : window ? window->dim(0) : samples;
  checked_length(length);
  if (step < 1) refuse("a frame step of {}", step);
  if (window && window->dim(0) != length) refuse("a window of {} for frames of {}", window->dim(0), length);
  if (length > samples) refuse("frames of {} of a signal of {}", length, samples);
  int64_t frames = (samples - length) / step + 1;
  int64_t bins = context.attributes().get_int("onesided", 1) != 0 ? length / 2 + 1 : length;
  Tensor wide = widen(context, x), wide_window = window ? widen(context, *window) : Tensor();
  WideOutput y(context, 0, x.dtype(), Shape{batch, frames, bins, 2});
  dispatch<FloatAccumulators>(wide.dtype(), [&]<class T>() {
    const T* from = wide.data<T>().data();
    T* to = y.data<T>();
    const LineTransforms<T> transforms{.length = length, .given = length, .components = components,
                                       .window = window ? wide_window.data<T>().data() : nullptr, .results = bins, .result_components = 2};
    transforms.run(batch * frames, [&](int64_t i) { return from + (i / frames * samples + i % frames * step) * components; },
                   [&](int64_t i) { return to + i * bins * 2; });
  });
  y.finish();
}

// Triangles over the bins of a spectrum, their corners equally spaced on the mel scale.
ScratchVector<double> mel_weights(int64_t mel_bins, int64_t dft_length, int64_t sample_rate, double lower,
                                  double upper) {
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  auto hertz = [](double mel) { return 700 * (std::pow(10, mel / 2595) - 1); };
  int64_t bins = dft_length / 2 + 1;
  double step = (mel(upper) - mel(lower)) / static_cast<double>(mel_bins + 2);
  ScratchVector<int64_t> corners(mel_bins + 2);
  for (int64_t i = 0; i < mel_bins + 2; ++i) {
    double bin = std::floor(static_cast<double>(dft_length + 1) * hertz(mel(lower) + static_cast<double>(i) * step) /
                            static_cast<double>(sample_rate));
    bool inside = bin >= 0 && bin <= static_cast<double>(bins);
    if (!inside) refuse("mel bands from {} to {} hertz at {}", lower, upper, sample_rate);
    corners[i] = static_cast<int64_t>(bin);
  }
  ScratchVector<double> weights(bins * mel_bins, 0.0);
  for (int64_t i = 0; i < mel_bins; ++i) {
    int64_t low = corners[i], center = corners[i + 1], high = corners[i + 2];
    auto set = [&](int64_t bin, int64_t distance, int64_t width) {
      if (bin < bins) weights[bin * mel_bins + i] = static_cast<double>(distance) / static_cast<double>(width);
    };
    if (low == center) set(center, 1, 1);
    for (int64_t bin = low; low < center && bin <= center; ++bin) set(bin, bin - low, center - low);
    for (int64_t bin = center; bin < high; ++bin) set(bin, high - bin, high - center);
  }
  return weights;
}

void mel_weight_matrix(KernelContext& context) {
  int64_t mel_bins = integer(context.input(0)), dft_length = integer(context.input(1));
  int64_t rate = integer(context.input(2));
  DType dtype = dtype_attribute(context.attributes(), "output_datatype", DType::F32);
  if (mel_bins < 0 || mel_bins > kLongestTransform) refuse("{} mel bands", mel_bins);
  if (rate < 1) refuse("a sample rate of {}", rate);
  checked_length(dft_length);
  Tensor& out = context.allocate_output(0, dtype, Shape{dft_length / 2 + 1, mel_bins});
  ScratchVector<double> weights =
      mel_weights(mel_bins, dft_length, rate, number(context.input(3)), number(context.input(4)));
  dispatch<Numbers>(dtype, [&]<class T>() {
    T* to = out.data<T>().data();
    for (size_t i = 0; i < weights.size(); ++i) to[i] = static_cast<T>(static_cast<ComputeType<T>>(weights[i]));
  });
}

}  // namespace

void register_signal(KernelRegistry& registry) {
  registry.add("DFT", dft);
  registry.add("STFT", stft);
  registry.add("MelWeightMatrix", mel_weight_matrix);
}

}  // namespace anfora::kernels
