#include "driver/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cctype>
#include <chrono>
#include <cmath>
#include <compare>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "anfora/error.h"
#include "driver/pin.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/readable.h"
#include "support/element_types.h"
#include "support/integers.h"

namespace anfora::driver {

using namespace ir;

namespace {

// What one search may cost. A try is an inference, and a run where that finds nothing wrong.
constexpr int kMostTries = 400;
constexpr double kMostSeconds = 15;
// The same where the model runs already, but gives no number: without an element, or only NaN.
constexpr int kMostTriesForNumbers = 40;
constexpr double kMostSecondsForNumbers = 2;
// What one value may take in a try of other sizes than the plain ones: pixels that attend to each other are soon too many.
constexpr double kMostBytes = 0.25e9;

// Sizes that occur: small ones, of images, of sequences and embeddings, mel bins, a second of sound.
constexpr int64_t kCommonSizes[] = {1,   3,   4,   5,   8,   16,  24,  32,   48,   64,    80,   96,
                                    128, 160, 224, 256, 320, 512, 640, 1024, 4096, 16000, 48000};
// Numbers that inputs are, beside sizes: sampling rates.
constexpr int64_t kCommonNumbers[] = {1, 0, 2, 3, 4, 8, 16, 8000, 16000, 22050, 44100, 48000};

constexpr size_t kMostComparedNumbers = 16;  // constants with more elements are tables
constexpr int kDeepestConstants = 4;         // operands above a node that failed, whose constants are looked at
constexpr size_t kMostClues = 24;            // numbers that one failure gives

// What the uses of an integer input say of it.
struct Hints {
  std::optional<int64_t> bound;    // it is an index below that
  std::set<int64_t> compared;      // with these constants
  bool is_compared_value = false;  // with something that is computed
};

// Follows the values of a parameter to where they mean something.
class UsesOf {
 public:
  explicit UsesOf(const Parameter& parameter) {
    follow(&parameter);
    while (!pending_.empty()) {
      const Node* node = pending_.back();
      pending_.pop_back();
      for (const ir::Use& use : node->uses()) look_at(*use.user, use.index());
    }
  }

  Hints result;

 private:
  void follow(const Node* node) {
    if (node && seen_.insert(node).second) pending_.push_back(node);
  }

  void follow_call(const Node* callee, size_t argument) {
    if (const Value* value = callee->as_value(); value && value->function()) {
      if (argument < value->function()->parameters().size()) follow(value->function()->parameter(argument));
      return;
    }
    const Apply* choice = callee->as_apply();
    if (!choice || choice->primitive() != Primitive::Switch) return;
    follow_call(choice->input(1), argument);
    follow_call(choice->input(2), argument);
  }

  void look_at(const Apply& user, size_t operand) {
    if (user.primitive() == Primitive::Call && operand > 0) return follow_call(user.input(0), operand - 1);
    if (user.primitive() != Primitive::Operation) return;
    const std::string_view op = user.op().name;
    if (operand == 1 && (op == "Gather" || op == "GatherElements")) return index_of(user);
    if (op == "Equal" || op == "Less" || op == "LessOrEqual" || op == "Greater" || op == "GreaterOrEqual")
      return compared_with(user.input(1 - operand));
    const bool moves = user.op().fusion == FusionKind::View || op == "Cast" || op == "Identity" || op == "Transpose" ||
                       op == "Expand" || op == "Tile" || op == "Slice" || op == "Gather";
    if (operand == 0 && moves) follow(&user);
  }

  void index_of(const Apply& gather) {
    const Type* data = gather.input(0)->type();
    if (!data || !data->is_tensor() || !data->has_rank() || data->rank() == 0) return;
    int64_t axis = gather.attributes().get_int("axis", 0);
    if (axis < 0) axis += data->rank();
    if (axis < 0 || axis >= data->rank()) return;
    if (auto size = data->dim(static_cast<int>(axis)).as_constant(); size && *size > 0)
      result.bound = std::min(result.bound.value_or(*size), *size);
  }

  void compared_with(const Node* other) {
    const Tensor* constant = constant_tensor(other);
    if (!constant) {
      result.is_compared_value = true;
      return;
    }
    if (constant->size() > static_cast<int64_t>(kMostComparedNumbers)) return;
    if (!is_integer(constant->dtype()) && constant->dtype() != DType::F32 && constant->dtype() != DType::F64) return;
    dispatch<Join<Integers, TypeList<float, double>>>(constant->dtype(), [&]<class T>() {
      for (T value : constant->data<T>()) {
        const double number = static_cast<double>(value);
        if (std::abs(number) < 1e9) result.compared.insert(static_cast<int64_t>(number));
      }
    });
  }

  boost::unordered_flat_set<const Node*> seen_;
  std::vector<const Node*> pending_;
};

// One assignment of what is open.
struct Guess {
  SizeByName sizes;
  std::map<size_t, int64_t> numbers;  // what all elements of an integer input are
  friend auto operator<=>(const Guess&, const Guess&) = default;
};

// How far a guess comes.
struct Outcome {
  enum class Stage : uint8_t { TooLarge, Refused, Failed, Empty, Fits } stage = Stage::Refused;
  size_t at = 0;  // the node that failed, in the module's order
  const Apply* node = nullptr;
  std::string message;  // where and what
  std::string clues;    // what: its numbers are worth a try
  std::vector<Datum> outputs = {};

  bool is_further_than(const Outcome& other) const {
    return stage != other.stage ? stage > other.stage : at > other.at;
  }
};

bool has_number(const Datum& datum) {
  if (!datum.is_tensor()) return datum.kind() != Datum::Kind::Sequence || !datum.items().empty();
  const Tensor& tensor = datum.tensor();
  if (tensor.size() == 0) return false;
  if (tensor.dtype() != DType::F32) return true;
  return std::ranges::any_of(tensor.data<float>(), [](float x) { return std::isfinite(x); });
}

// Whether an input is of integers, or one float: a threshold, a rate.
bool is_number(const Type* type) {
  if (is_integer(type->dtype())) return true;
  return is_float(type->dtype()) && type->has_rank() && type->static_shape() &&
         element_count(*type->static_shape()) == 1;
}

class Search {
 public:
  Search(const Module& module, runtime::Executable& executable, const RandomInputs& given)
      : module_(module), executable_(executable), given_(given) {
    for (const GraphOrder& graph : topological_order(module).graphs) {
      for (Apply* node : graph.nodes) {
        if (node->primitive() == Primitive::Operation) order_.emplace(describe(*node), std::pair(order_.size(), node));
      }
    }
    for (const Parameter* p : module.main()->parameters()) {
      const Type* type = p->type();
      if (module.default_of(p) || !type || !type->is_tensor()) continue;
      if (is_number(type) && !given.domains.contains(p->index())) uses_.emplace(p->index(), UsesOf(*p).result);
      for (int axis = 0; type->has_rank() && axis < type->rank(); ++axis) {
        for_each_symbol(type->dim(axis), [&](Dim symbol) {
          std::string name(symbol.symbol_name());
          if (!given.dims.contains(name)) open_[name].emplace_back(p->index(), axis);
        });
      }
    }
  }

  Fit run() {
    Guess guess;
    for (const auto& [name, places] : open_) guess.sizes[name] = kDefaultDim;
    Outcome best = evaluate(guess);
    bool blames_all = false;
    while (best.stage != Outcome::Stage::Fits && may_go_on(best)) {
      std::optional<Guess> better = climb(guess, best, blames_all);
      if (!better && std::exchange(blames_all, true)) break;
      if (!better) continue;
      guess = *better;
      blames_all = false;
    }
    return result(guess, std::move(best));
  }

 private:
  bool may_go_on(const Outcome& best) const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (best.stage == Outcome::Stage::Empty) return tries_ < kMostTriesForNumbers && seconds < kMostSecondsForNumbers;
    return tries_ < kMostTries && seconds < kMostSeconds;
  }

  // The first of the changes of `from` that comes further than `best`, which becomes how far.
  std::optional<Guess> climb(const Guess& from, Outcome& best, bool blames_all) {
    const std::set<size_t> blamed = blames_all ? all_inputs() : inputs_behind(best.node);
    const std::vector<int64_t> clues = clues_of(best);
    auto try_sizes = [&](std::span<const int64_t> values) -> std::optional<Guess> {
      const auto groups = groups_of(blamed);
      for (int64_t value : values) {
        for (const std::set<std::string>& group : groups) {
          Guess guess = from;
          for (const std::string& name : group) guess.sizes[name] = value;
          if (is_further(guess, best)) return guess;
          if (!may_go_on(best)) return std::nullopt;
        }
      }
      return std::nullopt;
    };
    auto try_numbers = [&](auto&& numbers_of) -> std::optional<Guess> {
      for (size_t input : blamed) {
        auto use = uses_.find(input);
        if (use == uses_.end()) continue;
        for (int64_t value : numbers_of(use->second)) {
          Guess guess = from;
          guess.numbers[input] = value;
          if (is_further(guess, best)) return guess;
          if (!may_go_on(best)) return std::nullopt;
        }
      }
      return std::nullopt;
    };
    std::optional<Guess> found = try_sizes(clues);
    if (!found) {
      found = try_numbers([&](const Hints& use) {
        std::vector<int64_t> numbers(use.compared.begin(), use.compared.end());
        for (const auto& [name, size] : from.sizes) numbers.push_back(size);
        numbers.insert(numbers.end(), clues.begin(), clues.end());
        return numbers;
      });
    }
    if (!found) found = try_sizes(kCommonSizes);
    if (!found) found = try_numbers([](const Hints&) { return std::span<const int64_t>(kCommonNumbers); });
    return found;
  }

  bool is_further(const Guess& guess, Outcome& best) {
    if (!tried_.insert(guess).second) return false;
    Outcome outcome = evaluate(guess);
    if (!outcome.is_further_than(best)) return false;
    best = std::move(outcome);
    return true;
  }

  Outcome evaluate(const Guess& guess) {
    ++tries_;
    const RandomInputs inputs = inputs_of(guess);
    Outcome outcome = infer(guess);
    if (outcome.stage == Outcome::Stage::TooLarge) return outcome;
    // What is refused inside of a function may be a branch that no run takes.
    if (outcome.stage == Outcome::Stage::Refused && outcome.node && outcome.node->graph() == module_.main())
      return outcome;
    outcome = {.stage = Outcome::Stage::Failed};
    try {
      outcome.outputs = executable_.run(random_inputs(module_, inputs), {.seed = inputs.seed});
      outcome.stage = std::ranges::all_of(outcome.outputs, has_number) ? Outcome::Stage::Fits : Outcome::Stage::Empty;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::Unsupported) throw;
      if (error.code() == ErrorCode::ResourceExhausted) outcome.stage = Outcome::Stage::TooLarge;
      blame(error, outcome);
    }
    return outcome;
  }

  // Whether the sizes can be typed, and no value is too large.
  Outcome infer(const Guess& guess) const {
    Outcome outcome{.stage = Outcome::Stage::Failed};
    if (guess.sizes.empty()) return outcome;
    SizeByName sizes = guess.sizes;
    sizes.insert(given_.dims.begin(), given_.dims.end());
    try {
      const std::unique_ptr<Module> pinned = clone(module_);
      pin_dims(*pinned, sizes);
      if (tries_ > 1 && has_large_value(*pinned)) outcome.stage = Outcome::Stage::TooLarge;
    } catch (const Error& error) {
      outcome.stage = Outcome::Stage::Refused;
      blame(error, outcome);
    }
    return outcome;
  }

  static bool has_large_value(const Module& module) {
    auto is_large = [](const Node* node) {
      const Type* type = node->type();
      const auto shape = type && type->is_tensor() && type->has_rank() ? type->static_shape() : std::nullopt;
      if (!shape) return false;
      double bytes = element_bits(type->dtype()) / 8.0;
      for (int64_t extent : *shape) bytes *= static_cast<double>(extent);
      return bytes > kMostBytes;
    };
    return std::ranges::any_of(module.main()->parameters(), is_large) || std::ranges::any_of(topological_order(*module.main()), is_large);
  }

  void blame(const Error& error, Outcome& outcome) const {
    outcome.message = error.what();
    outcome.clues = error.message() + " " + error.hint();
    if (auto found = order_.find(error.node()); found != order_.end())
      std::tie(outcome.at, outcome.node) = found->second;
  }

  RandomInputs inputs_of(const Guess& guess) const {
    RandomInputs inputs = given_;
    inputs.dims.insert(guess.sizes.begin(), guess.sizes.end());
    for (const auto& [input, use] : uses_) {
      if (auto number = guess.numbers.find(input); number != guess.numbers.end()) {
        inputs.domains[input].choices = {number->second};
      } else {
        inputs.domains[input] = domain_of(input, use, guess);
      }
    }
    return inputs;
  }

  IntegerDomain domain_of(size_t input, const Hints& use, const Guess& guess) const {
    IntegerDomain domain;
    if (use.bound) {
      domain.high = *use.bound - 1;
      return domain;
    }
    for (int64_t number : use.compared) {
      if (number != 0 && number != 1) domain.choices.push_back(number);
    }
    const Type* type = module_.main()->parameter(input)->type();
    if (domain.choices.empty() && use.is_compared_value && is_integer(type->dtype()) && type->has_rank() &&
        type->rank() <= 1)
      domain.choices = lengths(input, guess);
    return domain;
  }

  // What a vector of lengths may hold: the longest of the axes that are open, or where none is, nothing.
  std::vector<int64_t> lengths(size_t input, const Guess& guess) const {
    int64_t longest = 0;
    for (const auto& [name, places] : open_) {
      const bool is_other = std::ranges::any_of(places, [&](const auto& place) { return place.first != input; });
      if (is_other) longest = std::max(longest, guess.sizes.at(name));
    }
    return longest > 0 ? std::vector{longest} : std::vector<int64_t>{};
  }

  std::set<size_t> all_inputs() const {
    std::set<size_t> all;
    for (const Parameter* p : module_.main()->parameters()) all.insert(p->index());
    return all;
  }

  // The inputs that a node depends on. Where a function's parameter is among its operands: all.
  std::set<size_t> inputs_behind(const Apply* node) const {
    if (!node) return all_inputs();
    std::set<size_t> inputs;
    std::vector<const Node*> pending{node};
    boost::unordered_flat_set<const Node*> seen;
    while (!pending.empty()) {
      const Node* next = pending.back();
      pending.pop_back();
      if (!seen.insert(next).second) continue;
      if (const Apply* apply = next->as_apply()) {
        for (const ir::Use& use : apply->operands()) pending.push_back(use.node);
      } else if (const Value* value = next->as_value()) {
        if (value->function() && value->function()->return_node()) pending.push_back(value->function()->return_node());
      } else if (next->graph() != module_.main()) {
        return all_inputs();
      } else {
        inputs.insert(static_cast<const Parameter*>(next)->index());
      }
    }
    return inputs.empty() ? all_inputs() : inputs;
  }

  // Numbers that the failure tells: in its message, and sizes of constants near the node.
  std::vector<int64_t> clues_of(const Outcome& outcome) const {
    std::vector<int64_t> clues;
    auto add = [&](int64_t number) {
      if (number > 0 && number < 1'000'000 && number != kDefaultDim && clues.size() < kMostClues &&
          !std::ranges::count(clues, number))
        clues.push_back(number);
    };
    const std::string& text = outcome.clues;
    for (size_t i = 0; i < text.size();) {
      if (!std::isdigit(static_cast<unsigned char>(text[i]))) {
        ++i;
        continue;
      }
      int64_t number = 0;
      for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) && number < 1'000'000; ++i)
        number = number * 10 + (text[i] - '0');
      add(number);
    }
    if (outcome.node) add_constant_sizes(*outcome.node, kDeepestConstants, add);
    return clues;
  }

  template <class F>
  static void add_constant_sizes(const Apply& node, int depth, F&& add) {
    for (const ir::Use& use : node.operands()) {
      if (const Tensor* constant = constant_tensor(use.node)) {
        for (int64_t size : constant->shape()) add(size);
        if (auto numbers =
                constant->size() <= static_cast<int64_t>(kMostComparedNumbers) ? integers_of(constant) : std::nullopt) {
          for (int64_t number : *numbers) add(number);
        }
      } else if (const Apply* above = use.node->as_apply(); above && depth > 0) {
        add_constant_sizes(*above, depth - 1, add);
      }
    }
  }

  // Symbols that are changed together: the places of images, the last axes, all, each alone; and all but the batch.
  std::vector<std::set<std::string>> groups_of(const std::set<size_t>& inputs) const {
    std::set<std::string> places, last, rest, all;
    for (const auto& [name, at] : open_) {
      for (auto [input, axis] : at) {
        if (!inputs.contains(input)) continue;
        const int rank = module_.main()->parameter(input)->type()->rank();
        all.insert(name);
        if (rank >= 4 && axis >= 2) places.insert(name);
        if (axis == rank - 1) last.insert(name);
        if (axis > 0) rest.insert(name);
      }
    }
    std::vector<std::set<std::string>> groups;
    auto add = [&](std::set<std::string> group) {
      if (!group.empty() && !std::ranges::count(groups, group)) groups.push_back(std::move(group));
    };
    add(places);
    add(last);
    for (const std::string& name : all) add({name});
    add(rest);
    add(all);
    return groups;
  }

  Fit result(const Guess& guess, Outcome best) const {
    Fit fit{.inputs = inputs_of(guess),
            .fits = best.stage >= Outcome::Stage::Empty,
            .failure = std::move(best.message),
            .outputs = std::move(best.outputs)};
    std::vector<std::string> found, suggestion;
    for (const auto& [name, size] : guess.sizes) {
      if (size != kDefaultDim && !is_generated(name)) found.push_back(fmt::format("{}={}", name, size));
      if (!is_generated(name)) suggestion.push_back(fmt::format("--dim {}={}", name, is_first(name) ? 1 : 320));
    }
    for (const Parameter* p : module_.main()->parameters()) {
      const Type* type = p->type();
      if (!type->is_tensor() || !type->has_rank() || module_.default_of(p)) continue;
      std::vector<int64_t> shape;
      bool is_open = false, is_plain = true;
      for (Dim d : type->dims()) {
        shape.push_back(evaluate_dim(d, fit.inputs.dims));
        if (!d.is_symbol() || !is_generated(d.symbol_name())) continue;
        is_open = true;
        is_plain = is_plain && shape.back() == kDefaultDim;
      }
      if (is_open && !is_plain) found.push_back(fmt::format("{} of {}", p->name(), fmt::join(shape, "×")));
      if (is_open) suggestion.push_back(fmt::format("--shape {}={}", p->name(), fmt::join(shape, ",")));
    }
    for (const auto& [input, number] : guess.numbers)
      found.push_back(fmt::format("{}={}", module_.main()->parameter(input)->name(), number));
    fit.found = fmt::format("{}", fmt::join(found, ", "));
    fit.suggestion = fmt::format("{}", fmt::join(suggestion, " "));
    return fit;
  }

  static int64_t evaluate_dim(Dim dim, const SizeByName& sizes) {
    return ir::evaluate(dim,
                        [&](std::string_view name) -> std::optional<int64_t> {
                          auto known = sizes.find(name);
                          return known == sizes.end() ? kDefaultDim : known->second;
                        })
        .value_or(kDefaultDim);
  }

  bool is_first(const std::string& symbol) const {
    return std::ranges::any_of(open_.at(symbol), [](const auto& place) { return place.second == 0; });
  }

  const Module& module_;
  runtime::Executable& executable_;
  const RandomInputs& given_;
  boost::unordered_flat_map<std::string, std::pair<size_t, const Apply*>> order_;  // by description
  std::map<std::string, std::vector<std::pair<size_t, int>>, std::less<>> open_;   // symbols: inputs and axes
  std::map<size_t, Hints> uses_;                                                   // of inputs that are numbers
  std::set<Guess> tried_;
  int tries_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Fit fit_inputs(const Module& module, runtime::Executable& executable, const RandomInputs& given) {
  return Search(module, executable, given).run();
}

std::vector<Datum> fitting_inputs(runtime::Executable& executable, std::vector<Datum> plain, const RandomInputs& given,
                                  const std::function<LoadedModel()>& reload) {
  try {
    executable.run(plain, {.seed = given.seed});
    return plain;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Unsupported) throw;
  }
  plain.clear();
  const LoadedModel model = reload();
  const Fit fit = fit_inputs(*model.module, executable, given);
  if (fit.fits) return random_inputs(*model.module, fit.inputs);
  throw Error(ErrorCode::InvalidArgument, "made-up inputs do not fit: " + fit.failure)
      .with_hint(fmt::format("try {}{}--input in.npz", fit.suggestion, fit.suggestion.empty() ? "" : ", or "));
}

}  // namespace anfora::driver
