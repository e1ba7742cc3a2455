// Rates of products with constant weights, rows × K × N, on all threads: generated code, and that of Strassen's algorithm, beside oneDNN's primitives, and the rate of
// fused multiply-adds in registers. Each turn runs all of them for a while, one after the other, and takes the best run of each, as other processes
// interrupt long ones; printed are medians over the turns.
//
// usage: product_bench [--threads N] [--turns N] [--milliseconds N] [--cold] [--cpu-time] ROWSxKxN…
//   --cold      weights are not in a cache when a run begins, as in a model
//   --cpu-time  by the time that the threads ran, on a machine that others use, too
// Prints one JSON object a shape: GFLOP/s by name.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <vector>

#include "codegen/generated_kernels.h"
#include "codegen/roofline.h"
#include "kernels/generated/strassen.h"
#include "kernels/onednn/onednn_kernels.h"
#include "kernels/onednn/product_form.h"
#include "support/parallel.h"

namespace anfora {
namespace {

using namespace kernels;

// Seconds of a clock of the system's: CLOCK_MONOTONIC, or CLOCK_PROCESS_CPUTIME_ID of all threads together.
double seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Options {
  int threads = 0, turns = 15;
  double milliseconds = 20;
  bool cold = false, cpu_time = false;
};

struct ProductSize {
  int64_t rows, depth, columns;
  double flops() const { return 2.0 * static_cast<double>(rows * depth * columns); }
};

Tensor random(const Shape& shape) {
  Tensor tensor = Tensor::allocate(DType::F32, shape);
  uint32_t state = 1;
  for (float& value : tensor.data<float>())
    value = static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 32768.0f - 1.0f;
  return tensor;
}

// Something to measure: runs once, and counts that many operations.
struct Candidate {
  std::string name;
  double flops;
  std::function<void()> run;
  std::vector<double> rates;
};

// A prepared kernel with its data, outputs kept.
struct Prepared {
  KernelData data;
  std::unique_ptr<PreparedKernel> kernel;
  std::unique_ptr<PreparedKernel::State> state;
  Workspace workspace;
  Datum a, b;
  Tensor y;

  Prepared(const PreparedRegistry& registry, const ProductSize& size, const Tensor& weights, std::string_view implementation = {})
      : data{.op = "LoweredMatMul", .attributes = {}, .inputs = {}, .num_outputs = 1},
        a(random({size.rows, size.depth})),
        b(weights),
        y(Tensor::allocate(DType::F32, Shape{size.rows, size.columns})) {
    data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = a.tensor().shape(), .constant = {}});
    data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = weights.shape(), .constant = weights});
    kernel = implementation.empty() ? registry.prepare(data) : registry.prepare_as(data, implementation);
    if (kernel) state = kernel->make_state();
  }
  void run() {
    const std::array<const Datum*, 2> inputs{&a, &b};
    Datum output;
    KernelContext context({}, inputs, {&output, 1}, {&y, 1}, nullptr, {}, &workspace);
    workspace.begin({});
    kernel->run(context, state.get());
    workspace.end();
  }
};

// Generated code for all shapes, not for those alone for which it is preferred.
const PreparedRegistry& all_generated() {
  static const PreparedRegistry registry = [] {
    PreparedRegistry all;
    all.add("LoweredMatMul", "generated:product", codegen::generate_product);
    return all;
  }();
  return registry;
}

// A primitive of oneDNN's in a form of its own, with the layout of weights that it likes best.
std::function<void()> primitive_of(onednn::Form form, const ProductSize& size, const Tensor& weights) {
  using dnnl::memory;
  const auto type = memory::data_type::f32;
  const memory::desc a = onednn::activations(form, onednn::dense(Shape{size.rows, size.depth}, type));
  const memory::desc y = onednn::activations(form, onednn::dense(Shape{size.rows, size.columns}, type));
  const Shape matrix{size.depth, size.columns};
  const dnnl::primitive_desc chosen = onednn::describe(form, a, onednn::any_layout(matrix, type), {}, y, {});
  if (!chosen) return {};
  const memory::desc wanted = chosen.query_md(dnnl::query::weights_md);
  memory given = onednn::handle(onednn::dense(matrix, type)), packed = onednn::owned(wanted);
  onednn::point(given, weights);
  memory as_matrix(onednn::as_matrix(form, wanted), onednn::cpu(), packed.get_data_handle());
  dnnl::reorder(given, as_matrix).execute(onednn::stream(), given, as_matrix);
  auto arguments = std::make_shared<onednn::Arguments>();
  memory x = onednn::owned(a);
  const Tensor values = random({size.rows, size.depth});
  std::memcpy(x.get_data_handle(), values.raw(), values.bytes());
  *arguments = {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, onednn::owned(y)}};
  const dnnl::primitive primitive(chosen);
  return [=] {
    onednn::execute(primitive, *arguments);
    onednn::stream().wait();
  };
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// Evicts what lies in caches.
void make_cold() {
  static std::vector<char> other(size_t{96} << 20);
  parallel_for(std::ssize(other) / 64, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++other[static_cast<size_t>(i) * 64];
  });
}

void measure(const ProductSize& size, const Options& options) {
  const Tensor weights = random({size.depth, size.columns});
  Prepared generated(all_generated(), size, weights), onednn(onednn_kernels(), size, weights);
  Prepared strassen(codegen::generating_kernels(), size, weights, generated::kStrassen);
  const codegen::RateLoop peak = codegen::multiply_adds();
  std::vector<Candidate> candidates{{"peak", peak.amount, [&] { peak.run(); }, {}}};
  auto add = [&](const char* name, std::function<void()> run) {
    if (run) candidates.push_back({name, size.flops(), std::move(run), {}});
  };
  if (generated.kernel) add("generated", [&] { generated.run(); });
  if (strassen.kernel) add("strassen", [&] { strassen.run(); });
  if (onednn.kernel) add("onednn", [&] { onednn.run(); });
  add("matmul", primitive_of(onednn::Form::MatMul, size, weights));
  add("inner_product", primitive_of(onednn::Form::InnerProduct, size, weights));
  add("convolution", primitive_of(onednn::Form::Convolution, size, weights));
  for (int turn = 0; turn < options.turns; ++turn) {
    for (Candidate& candidate : candidates) {
      std::vector<double> times;
      const clockid_t clock = options.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
      const double begin = seconds(CLOCK_MONOTONIC);
      do {
        if (options.cold) make_cold();
        const double start = seconds(clock);
        candidate.run();
        times.push_back((seconds(clock) - start) / (options.cpu_time ? thread_count() : 1));
      } while (seconds(CLOCK_MONOTONIC) - begin < options.milliseconds * 1e-3 || times.size() < 3);
      candidate.rates.push_back(candidate.flops / *std::ranges::min_element(times) * 1e-9);
    }
  }
  std::string line = fmt::format("{{\"shape\": \"{}x{}x{}\"", size.rows, size.depth, size.columns);
  for (const Candidate& candidate : candidates)
    line += fmt::format(", \"{}\": {:.1f}", candidate.name, median(candidate.rates));
  fmt::print("{}}}\n", line);
}

int run(int count, char** arguments) {
  Options options;
  std::vector<ProductSize> sizes;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    auto number = [&] { return std::atoi(++i < count ? arguments[i] : "0"); };
    long rows = 0, depth = 0, columns = 0;
    if (word == "--threads")
      options.threads = number();
    else if (word == "--turns")
      options.turns = number();
    else if (word == "--milliseconds")
      options.milliseconds = number();
    else if (word == "--cold")
      options.cold = true;
    else if (word == "--cpu-time")
      options.cpu_time = true;
    else if (std::sscanf(arguments[i], "%ldx%ldx%ld", &rows, &depth, &columns) == 3)
      sizes.push_back({rows, depth, columns});
    else
      return fmt::print(stderr, "product_bench: '{}' is neither an option nor ROWSxKxN\n", word), 2;
  }
  with_threads(options.threads, [&] {
    for (const ProductSize& size : sizes) measure(size, options);
  });
  return 0;
}

}  // namespace
}  // namespace anfora

int main(int count, char** arguments) { return anfora::run(count, arguments); }
