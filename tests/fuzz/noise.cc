#include "fuzz/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/compare.h"
#include "ir/clone.h"
#include "support/element_types.h"

namespace anfora::fuzz {

using namespace ir;

namespace {

constexpr int kRuns = 24;
// Rounding errors in one value: a few operators of a few terms each.
constexpr double kErrors = 4;
// A difference of the two sides may be this many times what each moves by.
constexpr double kFactor = 3;

using AnyNumber =
    Join<Join<Join<Numbers, Float8s>, SubByteIntegers>, TypeList<bool, Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>;

// Half the distance from 1 to the next number; 0: not perturbed.
double unit_roundoff(const Type* type) {
  if (!type || !type->is_tensor()) return 0;
  switch (type->dtype()) {
    case DType::F64: return 0x1p-24;  // the parameters of the random operator are f32, and f64 is compared like it
    case DType::F32: return 0x1p-24;
    case DType::F16: return 0x1p-11;
    case DType::BF16: return 0x1p-8;
    default: return 0;
  }
}

void perturb(Module& module, Graph* graph, Node* node) {
  double u = unit_roundoff(node->type());
  if (u == 0 || !node->has_uses()) return;
  AttributeSet around_one{{"low", static_cast<float>(1 - kErrors * u)}, {"high", static_cast<float>(1 + kErrors * u)}};
  Context& context = module.context();
  Apply* factor = module.apply(graph, context.get_operator("RandomUniformLike"), {node}, around_one);
  Apply* product = module.apply(graph, context.get_operator("Mul"), {node, factor});
  factor->set_type(node->type());
  product->set_type(node->type());
  std::vector<std::pair<Apply*, size_t>> uses;
  for (const Use& use : node->uses()) {
    if (use.user != factor && use.user != product) uses.emplace_back(use.user, use.index());
  }
  for (auto [user, index] : uses) module.set_operand(user, index, product);
}

std::unique_ptr<Module> perturbed(const Module& module) {
  std::unique_ptr<Module> copy = clone(module);
  analysis::infer_types(*copy);
  std::vector<Node*> nodes(copy->main()->parameters().begin(), copy->main()->parameters().end());
  for (Graph* graph : copy->graphs()) {
    for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      bool computes = node->primitive() == Primitive::Operation || node->primitive() == Primitive::TupleGetItem;
      if (computes && node->num_outputs() == 1) nodes.push_back(node);
    }
  }
  for (Node* node : nodes) perturb(*copy, node->graph(), node);
  return copy;
}

// What no numeral of a finite number says is told apart by a hash.
std::optional<double> numeral(const std::string& text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && std::isfinite(x);
  return is_whole ? std::optional(x) : std::nullopt;
}

template <class F>
void for_each_number(const Tensor& t, F&& f) {
  if (t.dtype() == DType::String) {
    auto elements = t.data<std::string>();
    for (size_t i = 0; i < elements.size(); ++i) {
      f(i, numeral(elements[i]).value_or(static_cast<double>(std::hash<std::string>()(elements[i]))));
    }
    return;
  }
  dispatch<AnyNumber>(t.dtype(), [&]<class T>() {
    auto elements = t.data<T>();
    for (size_t i = 0; i < elements.size(); ++i) f(i, static_cast<double>(static_cast<ComputeType<T>>(elements[i])));
  });
}

std::vector<double> numbers_of(const Tensor& t) {
  std::vector<double> numbers(static_cast<size_t>(t.size()));
  for_each_number(t, [&](size_t i, double x) { numbers[i] = x; });
  return numbers;
}

// Elements that the left side has no number for are made equal.
Tensor without_infinities(const Tensor& t, const Tensor& want) {
  if (!is_float(want.dtype()) || t.dtype() != want.dtype() || t.shape() != want.shape()) return t;
  Tensor copy = t.clone();
  size_t width = element_bytes(t.dtype());
  for_each_number(want, [&](size_t i, double x) {
    if (!std::isfinite(x)) std::memset(static_cast<std::byte*>(copy.raw()) + i * width, 0, width);
  });
  return copy;
}

bool is_nan(const Tensor& t, size_t i) {
  bool found = false;
  dispatch<AnyNumber>(t.dtype(), [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) found = std::isnan(static_cast<double>(t.data<T>()[i]));
  });
  return found;
}

std::string bits_differ(const Datum& got, const Datum& want) {
  if (got.kind() != want.kind()) return "another kind of value";
  if (!want.is_tensor()) {
    bool has_items = want.kind() == Datum::Kind::Sequence || want.kind() == Datum::Kind::Tuple;
    if (!has_items) return driver::compare(got, want, driver::Tolerance{}).difference;
    if (got.items().size() != want.items().size()) return "another number of items";
    for (size_t i = 0; i < want.items().size(); ++i) {
      if (std::string d = bits_differ(got.items()[i], want.items()[i]); !d.empty()) return d;
    }
    return "";
  }
  const Tensor &a = got.tensor(), &b = want.tensor();
  if (Tensor::identical(a, b)) return "";
  bool comparable = a.dtype() == b.dtype() && a.shape() == b.shape() && is_float(b.dtype());
  if (!comparable) {
    std::string d = driver::compare(got, want, driver::Tolerance{}).difference;
    return d.empty() ? "other bits" : d;
  }
  size_t width = element_bytes(b.dtype());
  for (size_t i = 0; i < static_cast<size_t>(b.size()); ++i) {
    const std::byte* x = static_cast<const std::byte*>(a.raw()) + i * width;
    const std::byte* y = static_cast<const std::byte*>(b.raw()) + i * width;
    if (std::memcmp(x, y, width) == 0 || (is_nan(a, i) && is_nan(b, i))) continue;
    return fmt::format("element {} is {} instead of {}", i, numbers_of(a)[i], numbers_of(b)[i]);
  }
  return "";
}

// The tensors in a value, in order.
void flatten(const Datum& datum, std::vector<Tensor>& tensors) {
  if (datum.is_tensor()) return tensors.push_back(datum.tensor());
  bool has_items = datum.kind() == Datum::Kind::Sequence || datum.kind() == Datum::Kind::Tuple;
  for (size_t i = 0; has_items && i < datum.items().size(); ++i) flatten(datum.items()[i], tensors);
}
std::vector<Tensor> tensors_of(const Datum& datum) {
  std::vector<Tensor> tensors;
  flatten(datum, tensors);
  return tensors;
}

class Judge {
 public:
  Judge(const Module& after, const Module& before, const std::vector<Datum>& inputs)
      : after_(after), before_(before), inputs_(inputs) {}

  Agreement result(size_t number, const Datum& got, const Datum& want) {
    std::vector<Tensor> a = tensors_of(got), b = tensors_of(want);
    Agreement whole;
    if (got.kind() != want.kind() || a.size() != b.size()) {
      whole = {Agreement::Verdict::Different, driver::compare(got, want).difference};
      if (is_undecided(number, want)) whole.verdict = Agreement::Verdict::WithinNoise;
    }
    for (size_t item = 0; item < std::min(a.size(), b.size()); ++item) {
      Agreement one = tensor(number, item, a[item], b[item]);
      if (one.verdict > whole.verdict) whole = one;
    }
    if (!whole.difference.empty()) whole.difference = fmt::format("result {}: {}", number, whole.difference);
    return whole;
  }

 private:
  Agreement tensor(size_t number, size_t item, const Tensor& got, const Tensor& want) {
    Tensor wanted = without_infinities(want, want), comparable = without_infinities(got, want);
    std::string difference = driver::compare(comparable, wanted, std::nullopt, driver::Scale::Tensor).difference;
    if (difference.empty()) return {};
    bool within = is_within_noise(number, item, comparable, wanted);
    return {within ? Agreement::Verdict::WithinNoise : Agreement::Verdict::Different, difference};
  }

  void measure() {
    if (noise_before_) return;
    noise_before_.emplace(before_, inputs_);
    noise_after_.emplace(after_, inputs_);
  }

  // Whether the number of items depends on rounding.
  bool is_undecided(size_t number, const Datum& want) {
    measure();
    size_t count = tensors_of(want).size();
    return std::ranges::any_of(noise_before_->runs(),
                               [&](const auto& run) { return tensors_of(run[number]).size() != count; });
  }

  bool is_within_noise(size_t number, size_t item, const Tensor& got, const Tensor& want) {
    if (is_complex(want.dtype())) return false;
    measure();
    std::vector<double> before = noise_before_->spread(number, item, want),
                        after = noise_after_->spread(number, item, got);
    if (before.empty() || after.empty()) return true;
    if (got.dtype() != want.dtype() || got.shape() != want.shape()) return false;
    driver::Tolerance tolerance = driver::tolerance_of(want.dtype());
    std::vector<double> a = numbers_of(got), b = numbers_of(want);
    double largest = 0;
    for (double x : b) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < a.size(); ++i) {
      double noise = before[i] + after[i];
      if (std::isnan(noise) || std::isinf(noise)) continue;
      double allowed = tolerance.absolute + tolerance.relative * largest + kFactor * noise;
      if (!is_float(want.dtype())) allowed = noise == 0 ? 0 : are_numerals(got, want, i) ? kFactor * noise : INFINITY;
      if (!(std::abs(a[i] - b[i]) <= allowed)) return false;
    }
    return true;
  }

  static bool are_numerals(const Tensor& got, const Tensor& want, size_t i) {
    return want.dtype() == DType::String && numeral(got.data<std::string>()[i]) && numeral(want.data<std::string>()[i]);
  }

  const Module &after_, &before_;
  const std::vector<Datum>& inputs_;
  std::optional<Noise> noise_before_, noise_after_;
};

}  // namespace

Noise::Noise(const Module& module, const std::vector<Datum>& inputs) {
  std::unique_ptr<Module> copy = perturbed(module);
  for (int run = 0; run < kRuns; ++run) {
    try {
      runs_.push_back(analysis::interpret(*copy, inputs, static_cast<uint64_t>(run) + 1));
    } catch (const Error&) {
      runs_.clear();
      return;
    }
  }
}

std::vector<double> Noise::spread(size_t result, size_t item, const Tensor& like) const {
  std::vector<double> low = numbers_of(like), high = low;
  if (runs_.empty()) return {};
  for (const auto& run : runs_) {
    std::vector<Tensor> tensors = tensors_of(run[result]);
    if (item >= tensors.size() || tensors[item].shape() != like.shape() || tensors[item].dtype() != like.dtype())
      return {};
    for_each_number(tensors[item], [&](size_t i, double x) {
      bool undecided = std::isnan(x) != std::isnan(low[i]);
      low[i] = undecided ? -INFINITY : std::min(low[i], x);
      high[i] = undecided ? INFINITY : std::max(high[i], x);
    });
  }
  for (size_t i = 0; i < low.size(); ++i) high[i] = high[i] == low[i] ? 0 : high[i] - low[i];
  return high;
}

Agreement same_bits(const std::vector<Datum>& got, const std::vector<Datum>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    std::string difference = bits_differ(got[i], want[i]);
    if (!difference.empty()) return {Agreement::Verdict::Different, fmt::format("result {}: {}", i, difference)};
  }
  return {};
}

Agreement agree(const Module& after, const std::vector<Datum>& got, const Module& before,
                const std::vector<Datum>& want, const std::vector<Datum>& inputs) {
  Judge judge(after, before, inputs);
  Agreement whole;
  for (size_t i = 0; i < want.size(); ++i) {
    Agreement one = judge.result(i, got[i], want[i]);
    if (one.verdict > whole.verdict) whole = one;
  }
  return whole;
}

}  // namespace anfora::fuzz
