#include "rules/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/evaluate.h"
#include "analysis/verify_types.h"
#include "anfora/error.h"
#include "driver/compare.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "pipeline/expand.h"
#include "pipeline/pipeline.h"
#include "rules/instance.h"
#include "support/element_types.h"
#include "support/hash.h"

namespace anfora::rules {

using namespace ir;
using rewrite::Equation;
using rewrite::Promise;

namespace {

constexpr int kRuns = 4;                  // on inputs of each kind
constexpr int kRunsWithoutNumbers = 3;    // on operands of which some elements are no numbers
constexpr uint64_t kSeedOfOperators = 1;  // of random operators

using AnyFloat = Join<Join<Floats, Float8s>, TypeList<Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>;

bool is_number(const Tensor& tensor, size_t i) {
  if (is_complex(tensor.dtype())) {
    return dispatch<Complexes>(tensor.dtype(), [&]<class T>() {
      T z = tensor.data<T>()[i];
      return std::isfinite(z.real()) && std::isfinite(z.imag());
    });
  }
  if (!is_float(tensor.dtype())) return true;
  return dispatch<AnyFloat>(tensor.dtype(),
                            [&]<class T>() { return std::isfinite(static_cast<double>(tensor.data<T>()[i])); });
}

bool is_nan(const Tensor& tensor, size_t i) {
  if (!is_float(tensor.dtype())) return false;
  return dispatch<AnyFloat>(tensor.dtype(),
                            [&]<class T>() { return std::isnan(static_cast<double>(tensor.data<T>()[i])); });
}

bool all_numbers(const Datum& datum) {
  if (!datum.is_tensor()) {
    bool has_items = datum.kind() == Datum::Kind::Tuple || datum.kind() == Datum::Kind::Sequence;
    return !has_items || std::ranges::all_of(datum.items(), all_numbers);
  }
  for (size_t i = 0; i < static_cast<size_t>(datum.tensor().size()); ++i) {
    if (!is_number(datum.tensor(), i)) return false;
  }
  return true;
}

std::string element(const Tensor& tensor, size_t i) {
  if (tensor.dtype() == DType::String) return '"' + tensor.data<std::string>()[i] + '"';
  if (is_float(tensor.dtype())) {
    return dispatch<AnyFloat>(tensor.dtype(),
                              [&]<class T>() { return fmt::format("{}", static_cast<double>(tensor.data<T>()[i])); });
  }
  if (is_complex(tensor.dtype())) return "a complex number";
  using Rest = Join<Join<Integers, SubByteIntegers>, TypeList<bool>>;
  return dispatch<Rest>(tensor.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, uint64_t>) {
      return fmt::format("{}", tensor.data<T>()[i]);
    } else {
      return fmt::format("{}", static_cast<int64_t>(tensor.data<T>()[i]));
    }
  });
}

// Bits, but one NaN is as good as another.
std::string compare_bits(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) return driver::compare(got, want).difference;
  if (Tensor::identical(got, want)) return "";
  for (size_t i = 0; i < static_cast<size_t>(want.size()); ++i) {
    bool same = dispatch_by_size(want.dtype(), [&]<class T>() { return got.data<T>()[i] == want.data<T>()[i]; });
    if (same || (is_nan(got, i) && is_nan(want, i))) continue;
    return fmt::format("element {} is {} instead of {}", i, element(got, i), element(want, i));
  }
  return "";
}

// Where the left side is a NaN, the right side is no number.
std::string compare_nans(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape() || !is_float(want.dtype())) return "";
  for (size_t i = 0; i < static_cast<size_t>(want.size()); ++i) {
    if (is_nan(want, i) && is_number(got, i))
      return fmt::format("element {} is {} instead of a NaN", i, element(got, i));
  }
  return "";
}

// Where the left side is a number, the right side is that number but for rounding. What is no number is left out of both.
std::string compare_rounded(Tensor got, Tensor want) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) return driver::compare(got, want).difference;
  if (is_float(want.dtype()) || is_complex(want.dtype())) {
    got = got.clone();
    want = want.clone();
    size_t width = element_bytes(want.dtype());
    for (size_t i = 0; i < static_cast<size_t>(want.size()); ++i) {
      if (is_number(want, i)) continue;
      std::fill_n(static_cast<std::byte*>(got.raw()) + i * width, width, std::byte{0});
      std::fill_n(static_cast<std::byte*>(want.raw()) + i * width, width, std::byte{0});
    }
  }
  return driver::compare(got, want, std::nullopt, driver::Scale::Tensor).difference;
}

std::string compare(const Datum& got, const Datum& want, Promise promise) {
  if (!want.is_tensor() || !got.is_tensor()) {
    return driver::compare(got, want, promise == Promise::Real ? std::nullopt : std::optional(driver::Tolerance{}))
        .difference;
  }
  return promise == Promise::Real ? compare_rounded(got.tensor(), want.tensor())
                                  : compare_bits(got.tensor(), want.tensor());
}

bool has_elements(const Datum& datum) { return !datum.is_tensor() || datum.tensor().size() > 0; }

std::string show(const Module& module) {
  return print(module, {.numbers = PrintOptions::Numbers::Sequential, .locations = false, .header = false});
}

std::string show(const Datum& datum) {
  if (!datum.is_tensor()) return "…";
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(static_cast<size_t>(datum.tensor().size()), 24); ++i) {
    text += (i ? ", " : "") + element(datum.tensor(), i);
  }
  return fmt::format("[{}]", text);
}

class Checker {
 public:
  Checker(const Equation& equation, Context& context, const Effort& effort)
      : equation_(equation), context_(context), effort_(effort) {
    for (const rewrite::Term& result : equation.results) {
      // Each alternative by itself, and whether it pays is not asked: it must be right.
      Equation alone = equation;
      alone.results = {result};
      alone.must_pay = false;
      auto rules = std::make_unique<rewrite::RuleSet>(context);
      rules->add(std::move(alone));
      alternatives_.push_back(std::move(rules));
    }
  }

  Finding run() {
    uint64_t name = hash_bytes(equation_.name.data(), equation_.name.size());
    std::vector<int> fired(alternatives_.size(), 0);
    for (int attempt = 0; attempt < effort_.attempts * static_cast<int>(alternatives_.size()); ++attempt) {
      size_t alternative = static_cast<size_t>(attempt) % alternatives_.size();
      if (fired[alternative] == effort_.instances) continue;
      ++finding_.attempts;
      Draw draw(hash_combine(name, static_cast<uint64_t>(attempt)));
      auto instance = make_instance(equation_, context_, draw_constants(draw), draw);
      if (!instance || !check(*instance, *alternatives_[alternative], draw)) continue;
      if (!finding_.failure.empty()) return finding_;
      ++fired[alternative];
      ++finding_.fired;
      auto symbolic = with_symbols(*instance, draw);
      if (symbolic && check(*symbolic, *alternatives_[alternative], draw)) ++finding_.symbolic;
      if (!finding_.failure.empty()) return finding_;
    }
    return finding_;
  }

 private:
  Constants draw_constants(Draw& draw) const {
    if (draw.percent(50)) return {};
    return {values_for(equation_.on_floats), values_for(equation_.on_others)};
  }

  // What a promise covers.
  static Values values_for(Promise promise) {
    switch (promise) {
      case Promise::Exact: return Values::Special;
      case Promise::Finite: return Values::Finite;
      case Promise::Real: break;
    }
    return Values::Extreme;
  }

  // Whether the rule fired at the root, and something could be compared.
  bool check(const Instance& instance, const rewrite::RuleSet& rules, Draw& draw) {
    std::unique_ptr<Module> after = clone(*instance.module);
    std::vector<Apply*> matched;
    for (const GraphOrder& graph : topological_order(*instance.module).graphs)
      matched.insert(matched.end(), graph.nodes.begin(), graph.nodes.end());
    Promise promise = promise_of(equation_, matched);
    std::string root = describe(*instance.root);
    rewrite::Remarks remarks(true);
    try {
      // One rewrite for each application is enough; an equation whose alternatives are each other's reverse has no end.
      int64_t fuel = static_cast<int64_t>(after->main()->num_nodes());
      analysis::Inference inference(*after);
      inference.run();
      rewrite::apply_rules(rules, {.fuel = &fuel}, inference, remarks, "rules");
      if (!fired_at(remarks, root)) return false;
      ir::verify_or_throw(*after);
      analysis::verify_typed_or_throw(*after);
      // What operators of ONNX Runtime compute is said by their expansions.
      pipeline::expand(*after);
    } catch (const Error& error) {
      return fail(instance, *after, {}, error.what());
    }
    bool compared = compare_values(instance, *after, promise, draw);
    if (finding_.failure.empty() && promise != Promise::Exact && !equation_.takes_numbers)
      compare_without_numbers(instance, rules, promise, draw);
    return compared;
  }

  // The same on operands some elements of which are NaN, unless the rule is not applied then.
  void compare_without_numbers(const Instance& instance, const rewrite::RuleSet& rules, Promise promise, Draw& draw) {
    Instance quotients{.module = clone(*instance.module), .bounds = instance.bounds, .sizes = instance.sizes};
    Module& module = *quotients.module;
    const size_t operands = module.main()->parameters().size();
    for (size_t i = 0; i < operands; ++i) {
      Parameter* p = module.main()->parameter(i);
      if (!is_float(p->type()->dtype()) || element_bits(p->type()->dtype()) < 16) continue;
      Parameter* divisor = module.add_parameter(module.main(), p->type(), fmt::format("divisor{}", i));
      Node* operand_and_divisor[] = {p, divisor};
      Apply* quotient = module.apply(module.main(), context_.get_operator("Div"), operand_and_divisor);
      std::vector<std::pair<Apply*, size_t>> uses;
      for (const Use& use : p->uses()) uses.emplace_back(use.user, use.index());
      for (auto [user, index] : uses) {
        if (user != quotient) module.set_operand(user, index, quotient);
      }
    }
    quotients.root = module.main()->result()->as_apply();
    if (module.main()->parameters().size() == operands || !quotients.root) return;
    std::unique_ptr<Module> after = clone(module);
    rewrite::Remarks remarks(true);
    try {
      analysis::infer_types(module);
      analysis::Inference inference(*after);
      inference.run();
      int64_t fuel = static_cast<int64_t>(after->main()->num_nodes());
      rewrite::apply_rules(rules, {.fuel = &fuel}, inference, remarks, "rules");
      if (!fired_at(remarks, describe(*instance.root))) return;
      pipeline::expand(*after);
    } catch (const Error&) {
      return;
    }
    for (int run = 0; run < kRunsWithoutNumbers; ++run) {
      std::vector<Datum> inputs = inputs_of(quotients, Values::Normal, draw);
      for (size_t i = operands; i < inputs.size(); ++i) {
        Tensor divisor = inputs[i].tensor();
        const std::string name(module.main()->parameter(i)->name());
        Tensor dividend = inputs[std::stoul(name.substr(std::string_view("divisor").size()))].tensor();
        dispatch<Floats>(divisor.dtype(), [&]<class T>() {
          for (size_t j = 0; j < static_cast<size_t>(divisor.size()); ++j) {
            const bool is_number = draw.percent(60);
            divisor.data<T>()[j] = static_cast<T>(is_number ? 1.0F : 0.0F);
            if (!is_number) dividend.data<T>()[j] = static_cast<T>(0.0F);
          }
        });
      }
      std::vector<Datum> want, got;
      try {
        want = analysis::interpret(module, inputs, kSeedOfOperators);
        got = analysis::interpret(*after, inputs, kSeedOfOperators);
      } catch (const Error&) {
        continue;
      }
      for (size_t i = 0; i < want.size(); ++i) {
        if (!want[i].is_tensor() || !got[i].is_tensor()) continue;
        std::string difference = compare_nans(got[i].tensor(), want[i].tensor());
        if (difference.empty()) difference = compare_rounded(got[i].tensor(), want[i].tensor());
        if (difference.empty() || may_round_apart(quotients, want[i], promise)) continue;
        fail(quotients, *after, inputs, difference);
        return;
      }
    }
  }

  static bool fired_at(const rewrite::Remarks& remarks, const std::string& node) {
    return std::ranges::any_of(remarks.all(), [&](const rewrite::Remark& remark) {
      return remark.outcome == rewrite::Remark::Outcome::Applied && remark.node == node;
    });
  }

  bool compare_values(const Instance& instance, const Module& after, Promise promise, Draw& draw) {
    bool compared = false;
    for (int run = 0; run < kRuns; ++run) {
      Values values = run < kRuns / 2 ? Values::Normal : values_for(promise);
      std::vector<Datum> inputs = inputs_of(instance, values, draw);
      bool numbers_only = true;
      bool watches = promise == Promise::Finite;
      analysis::Observer observer = [&](const Node&, const Datum& value) {
        numbers_only = numbers_only && all_numbers(value);
      };
      std::vector<Datum> want, got;
      try {
        want = analysis::interpret(*instance.module, inputs, kSeedOfOperators, watches ? observer : nullptr);
      } catch (const Error&) {
        continue;  // no such value: an index out of range, a division by zero
      }
      if (watches && !numbers_only) continue;
      try {
        got = analysis::interpret(after, inputs, kSeedOfOperators);
      } catch (const Error& error) {
        return fail(instance, after, inputs, error.what());
      }
      for (size_t i = 0; i < want.size(); ++i) {
        std::string difference = compare(got[i], want[i], promise);
        if (!difference.empty() && !may_round_apart(instance, want[i], promise))
          return fail(instance, after, inputs, difference);
        compared = compared || has_elements(want[i]);
      }
    }
    if (compared && instance.root->type()->is_tensor()) finding_.dtypes.insert(instance.root->type()->dtype());
    return compared;
  }

  // Over the reals a < b + c and a − c < b are the same; rounding tells them apart at the border, which is rarely met but with
  // the few numbers of a narrow type.
  static bool may_round_apart(const Instance& instance, const Datum& want, Promise promise) {
    if (promise != Promise::Real || !want.is_tensor() || is_float(want.tensor().dtype())) return false;
    return std::ranges::any_of(instance.module->main()->parameters(),
                               [](const Parameter* p) { return is_narrow_float(p->type()->dtype()); });
  }

  static std::vector<Datum> inputs_of(const Instance& instance, Values values, Draw& draw) {
    std::vector<Datum> inputs;
    for (const Parameter* parameter : instance.module->main()->parameters()) {
      Shape shape;
      for (Dim dim : parameter->type()->dims()) {
        shape.push_back(dim.is_symbol() ? instance.sizes.at(std::string(dim.symbol_name())) : dim.constant());
      }
      auto bounds = instance.bounds.find(parameter->index());
      inputs.emplace_back(random_tensor(parameter->type()->dtype(), shape, values, draw,
                                        bounds == instance.bounds.end() ? nullptr : &bounds->second));
    }
    return inputs;
  }

  bool fail(const Instance& instance, const Module& after, std::span<const Datum> inputs, std::string_view why) {
    finding_.failure =
        fmt::format("{}: {}\n{}{}", equation_.place, equation_.text, show(*instance.module), show(after));
    for (size_t i = 0; i < inputs.size(); ++i) finding_.failure += fmt::format("input {}: {}\n", i, show(inputs[i]));
    finding_.failure += why;
    return true;
  }

  const Equation& equation_;
  Context& context_;
  const Effort& effort_;
  std::vector<std::unique_ptr<rewrite::RuleSet>> alternatives_;
  Finding finding_;
};

}  // namespace

Finding check_equation(const Equation& equation, Context& context, const Effort& effort) {
  return Checker(equation, context, effort).run();
}

}  // namespace anfora::rules
