// The driver: a worklist seeded with all applications in topological order. When a rule fires, the users of the new node,
// the node itself and the operands of the old one are looked at again, because their neighbourhood changed.
// With rules that each shrink a measure (rules/README.md), the list empties; a bound per node catches a pair of rules
// that undo each other.
#include "rewrite/rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <deque>
#include <vector>

#include "analysis/cost.h"
#include "analysis/evaluate.h"
#include "anfora/error.h"
#include "ir/order.h"
#include "ops/registry.h"
#include "rewrite/group.h"
#include "rewrite/result.h"
#include "rewrite/rule_set.h"
#include "support/cancellation.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

// Firings per node of the module at the start beyond which the rules are taken not to terminate.
constexpr size_t kMostFiringsPerNode = 16;
// Elements of a constant that is folded while rules run.
constexpr int64_t kMostNumbers = 16;
// Applications that are looked at behind those that are replaced with a root, for what was made.
constexpr size_t kMostFollowed = 256;
// Users of a value that are looked at again when it gets one more.
constexpr size_t kMostUsersAgain = 32;

class Worklist : public Listener {
 public:
  void add(Node* node) {
    Apply* apply = node->as_apply();
    if (!apply || apply->is_erased() || apply->primitive() == Primitive::Return ||
        apply->primitive() == Primitive::Call)
      return;
    if (apply->id() >= queued_.size()) queued_.resize(apply->id() + apply->id() / 2 + 64);
    if (queued_[apply->id()]) return;
    queued_[apply->id()] = true;
    queue_.push_back(apply);
  }
  Apply* next() {
    while (!queue_.empty()) {
      Apply* node = queue_.front();
      queue_.pop_front();
      queued_[node->id()] = false;
      if (!node->is_erased()) return node;
    }
    return nullptr;
  }
  void on_created(Node& node) override { add(&node); }
  void on_operand_changed(Apply& user, size_t) override { add(&user); }
  void on_erased(Node& node) override {
    if (measuring_ && node.is_apply()) erased_ += work_of(*measuring_, *node.as_apply());
  }

  // What is erased from now on, until it is asked for.
  void measure(analysis::Inference& inference) {
    erased_ = {};
    measuring_ = &inference;
  }
  Work erased() {
    measuring_ = nullptr;
    return erased_;
  }

 private:
  std::deque<Apply*> queue_;
  analysis::Inference* measuring_ = nullptr;
  Work erased_;
  std::vector<bool> queued_;
};

// Whether a dimension is a symbol that stands for something that inference could not express at this node.
bool is_symbol_of(Dim dim, const Apply& node) {
  return dim.is_symbol() && dim.symbol_name().starts_with(fmt::format("_{}_", node.id()));
}
// … at one of these.
bool is_own_symbol(Dim dim, std::span<Apply* const> made) {
  return dim.is_unknown() || std::ranges::any_of(made, [&](const Apply* node) { return is_symbol_of(dim, *node); });
}

// Applications that broadcast into each other, beyond which it is not looked what goes into a dimension.
constexpr size_t kMostBroadcasts = 64;

// A dimension that broadcasting gives and inference has no word for, of N and M, is told by what goes into it; `from_end` is
// 1 for the last axis. Empty: too much goes into it.
std::optional<std::vector<Dim>> broadcast_from(const Node& node, int from_end) {
  std::vector<Dim> dims;
  std::vector<const Node*> pending = {&node}, seen;
  while (!pending.empty()) {
    const Node* next = pending.back();
    pending.pop_back();
    if (!next->type() || !next->type()->is_tensor() || !next->type()->has_rank()) continue;
    int axis = next->type()->rank() - from_end;
    if (axis < 0) continue;
    Dim dim = next->type()->dim(axis);
    const Apply* apply = next->as_apply();
    bool broadcasts = apply && apply->op().fusion == FusionKind::Broadcast && !apply->is("Expand");
    if (!broadcasts || !is_symbol_of(dim, *apply)) {
      dims.push_back(dim);
    } else if (std::ranges::find(seen, next) == seen.end()) {
      if (seen.size() == kMostBroadcasts) return std::nullopt;
      seen.push_back(next);
      for (const Use& use : apply->operands()) pending.push_back(use.node);
    }
  }
  return dims;
}

bool is_broadcast_here(const Node& node, int from_end) {
  auto dims = broadcast_from(node, from_end);
  return !dims || dims->size() != 1 || (*dims)[0] != node.type()->dim(node.type()->rank() - from_end);
}

// Whether a dimension that broadcasting gives is not smaller than another: all that goes into that one goes into it.
bool broadcasts_at_least(const Node& made, const Node& old, int from_end) {
  auto has = broadcast_from(made, from_end), needs = broadcast_from(old, from_end);
  if (!has || !needs) return false;
  return std::ranges::all_of(*needs, [&](Dim dim) {
    return dim.as_constant() == 1 || std::ranges::any_of(*has, [&](Dim other) { return provably_equal(dim, other); });
  });
}

enum class Fit : uint8_t { Yes, NotShown, No };

// A replacement must be usable wherever the old value was: the same element type, and provably the same shape, except
// where inference knows a dimension of what was made now less precisely.
Fit fit(const Node& old, const Node& replacement, std::span<Apply* const> made) {
  const Type *old_type = old.type(), *new_type = replacement.type();
  if (old_type == new_type || !old_type || !new_type) return Fit::Yes;
  if (old_type->kind() != new_type->kind()) return Fit::No;
  if (!old_type->is_tensor()) return Fit::Yes;
  if (old_type->dtype() != new_type->dtype() && old_type->dtype() != DType::Undefined) return Fit::No;
  if (!old_type->has_rank()) return Fit::Yes;
  if (!new_type->has_rank()) return made.empty() ? Fit::NotShown : Fit::Yes;
  if (old_type->rank() != new_type->rank()) return Fit::No;
  Fit result = Fit::Yes;
  for (int i = 0; i < old_type->rank(); ++i) {
    Dim before = old_type->dim(i), after = new_type->dim(i);
    if (provably_equal(before, after)) continue;
    if (provably_different(before, after)) return Fit::No;
    int from_end = old_type->rank() - i;
    bool shown = is_own_symbol(after, made) &&
                 (!is_broadcast_here(replacement, from_end) || broadcasts_at_least(replacement, old, from_end));
    if (!shown) result = Fit::NotShown;
  }
  return result;
}

// A tensor of unknown rank, of an operator whose shape may be another than its operand's: nothing shows then that a
// replacement has its shape. Operators that keep the shape have no rules that depend on it.
bool is_open_shape(const Apply& node) {
  if (node.primitive() != Primitive::Operation || !node.type() || !node.type()->is_tensor()) return false;
  bool keeps_shape =
      node.op().fusion == FusionKind::Elementwise || node.is("Identity") || node.is("CastLike") || node.is("Dropout");
  return !node.type()->has_rank() && !keeps_shape;
}

}  // namespace

Apply* Rewriter::apply(std::string_view op, std::initializer_list<Node*> inputs, const AttributeSet& attributes) {
  return apply(context().get_operator(op), std::span<Node* const>(inputs.begin(), inputs.size()), attributes);
}

Apply* Rewriter::apply(const Operator& op, std::span<Node* const> inputs, const AttributeSet& attributes,
                       size_t num_outputs) {
  Apply* node = module_.apply(graph_, op, inputs, attributes, num_outputs, root_->location());
  made_.push_back(node);
  if (std::string why = why_not_typed(inference_, *node); !why.empty()) throw Refusal{std::move(why)};
  return node;
}

Node* Rewriter::item(Node* tuple, size_t index) {
  for (const Use& use : tuple->uses()) {
    const bool is_it = use.user->primitive() == Primitive::TupleGetItem && use.user->graph() == graph_ &&
                       use.user->attributes().require_int("index") == static_cast<int64_t>(index);
    if (is_it) return use.user;
  }
  Node* item = module_.tuple_item(graph_, tuple, index);
  if (Apply* apply = item->as_apply(); apply && !apply->type()) inference_.infer(*apply);
  return item;
}

Node* Rewriter::tuple(std::span<Node* const> items) {
  Apply* tuple = module_.make_tuple(graph_, items);
  std::vector<const Type*> types;
  for (const Node* item : items) types.push_back(item->type());
  tuple->set_type(context().tuple_type(types));
  return tuple;
}

void Rewriter::set_root(Apply& root) {
  root_ = &root;
  graph_ = root.graph();
  made_.clear();
}

void Rewriter::discard_made() {
  for (size_t i = made_.size(); i-- > 0;) {
    Apply* node = made_[i];
    while (!node->is_erased() && node->has_uses()) {  // by items that nobody uses
      Apply* item = node->uses().begin()->user;
      if (item->primitive() != Primitive::TupleGetItem || item->has_uses()) break;
      module_.erase(item);
    }
    if (!node->is_erased() && !node->has_uses()) module_.erase_with_dead_operands(node);
  }
  made_.clear();
}

Value* Rewriter::integers(std::span<const int64_t> values) { return module_.constant(Tensor::vector<int64_t>(values)); }

std::string_view to_string(Promise promise) {
  switch (promise) {
    case Promise::Exact: return "exact";
    case Promise::Finite: return "finite";
    case Promise::Real: return "real";
  }
  return "";
}

Promise promise_named(std::string_view name) {
  for (Promise promise : {Promise::Exact, Promise::Finite, Promise::Real}) {
    if (to_string(promise) == name) return promise;
  }
  throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is no promise", name)).with_hint("exact, finite or real");
}

namespace {

// Adds the time of its life to a sum; to none: takes no time.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds) {
    if (seconds_) start_ = std::chrono::steady_clock::now();
  }
  ~Stopwatch() {
    if (seconds_) *seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;

 private:
  double* seconds_;
  std::chrono::steady_clock::time_point start_;
};

// Tries the rules of a set at one node after the other.
class Engine {
 public:
  Engine(const RuleSet& rules, const RewriteOptions& options, analysis::Inference& inference, Remarks& remarks,
         std::string_view pass)
      : rules_(rules),
        options_(options),
        module_(inference.module()),
        rewriter_(module_, inference, options.assumes_finite),
        remarks_(remarks),
        pass_(pass) {}

  size_t run() {
    auto order = shared_order(module_);
    for (const GraphOrder& graph : order->graphs) {
      for (Apply* node : graph.nodes) worklist_.add(node);
    }
    ListenerScope listening(module_, worklist_);
    const size_t most = kMostFiringsPerNode * (module_.next_id() + 64);
    while (Apply* node = worklist_.next()) {
      check_cancelled();
      module_.erase_unused_constants_at_times();
      if (!node->has_uses()) {
        module_.erase_with_dead_operands(node);
        continue;
      }
      if (!is_reached(node->type()))
        continue;  // no run computes it, or it is used by dead nodes only, which have no types
      if (options_.fuel && *options_.fuel <= 0) break;
      std::string_view rule;
      Node* replacement = rewrite(*node, rule);
      if (!replacement) continue;
      last_[fired_ % last_.size()] = rule;
      if (++fired_ > most) {
        throw Error(ErrorCode::ResourceExhausted,
                    fmt::format("the rules undo each other: {} rewrites, the last ones by {}", fired_,
                                fmt::join(last_names(), ", ")))
            .with_hint("two rules, or one and its own result, lead back to what was there");
      }
      if (options_.fuel) --*options_.fuel;
      replace(*node, *replacement, rule);
    }
    return fired_;
  }

 private:
  // Counts the rule, by the address of its name. Returns where the time is to be added; null where it is not taken.
  double* tried(std::string_view rule) {
    auto [known, is_new] = counts_.try_emplace(rule.data());
    if (is_new) known->second = &remarks_.counts(rule);
    ++known->second->tried;
    return remarks_.keeps() ? &known->second->seconds : nullptr;
  }

  // What takes the node's place by the first rule that fires; null: none does.
  Node* rewrite(Apply& node, std::string_view& rule) {
    candidates_.clear();
    rules_.candidates(node, candidates_);
    for (const Equation* equation : candidates_) {
      if (std::min(equation->on_floats, equation->on_others) > options_.weakest) continue;
      const Stopwatch watch(tried(equation->name));
      rule = equation->name;
      if (Node* replacement = by_equation(*equation, node)) return replacement;
    }
    for (const Rule* function : rules_.functions_of(node.op())) {
      if (function->promise > options_.weakest) continue;
      const Stopwatch watch(tried(function->name));
      rule = function->name;
      rewriter_.set_root(node);
      also_.clear();
      std::string why;
      Node* replacement = by_function(*function, node, why);
      if (!why.empty()) {
        remarks_.guarded(pass_, rule, node, std::move(why));
        rewriter_.discard_made();
        continue;
      }
      if (!replacement || replacement == &node) continue;
      Fit fitting = fit_of(node, *replacement, rewriter_.made());
      if (fitting == Fit::NotShown && function->sharpens) fitting = Fit::Yes;
      if (fitting == Fit::No) {
        throw Error(ErrorCode::Internal, fmt::format("rule {} turns {} into {}", rule, to_string(node.type()),
                                                     to_string(replacement->type())))
            .at_node(describe(node));
      }
      if (fitting == Fit::Yes) return replacement;
      remarks_.guarded(pass_, rule, node, "its shape is not shown to stay");
      rewriter_.discard_made();
    }
    return nullptr;
  }

  Node* by_function(const Rule& function, Apply& node, std::string& why) {
    try {
      Node* replacement = function.apply(rewriter_, node);
      if (replacement) why = why_not_written(options_.has_operator, rewriter_.made());
      return replacement;
    } catch (Refusal& refusal) {
      why = std::move(refusal.why);
      return nullptr;
    }
  }

  Fit fit_of(const Apply& node, const Node& replacement, std::span<Apply* const> made) const {
    Fit fitting = fit(node, replacement, made);
    return fitting == Fit::NotShown && options_.define_roots ? Fit::Yes : fitting;
  }

  Node* by_equation(const Equation& equation, Apply& node) {
    rewriter_.set_root(node);
    also_.clear();
    Match match(equation.slots);
    Scope scope(rewriter_, match);
    Node* replacement = nullptr;
    std::string refusal;
    auto accept = [&] {
      std::string why;
      replacement = instance(equation, node, scope, match, why);
      if (!replacement && refusal.empty()) refusal = std::move(why);
      return replacement != nullptr;
    };
    auto value = [&](const Expression& e) { return evaluate(e, scope); };
    auto accept_beside = [&] {
      Node* shared = match.nodes[static_cast<size_t>(equation.beside->through)];
      return shared && for_each_reader(equation.beside->term, *shared, match, value, accept);
    };
    group_.clear();
    if (equation.beside) {
      for_each_match(equation.pattern, node, match, value, accept_beside);
    } else if (!equation.group) {
      for_each_match(equation.pattern, node, match, value, accept);
    } else if (group_ = match_group(equation, node, rewriter_, match); !group_.empty()) {
      match.group_size = group_.size();
      accept();
    }
    if (!replacement && !refusal.empty()) remarks_.guarded(pass_, equation.name, node, std::move(refusal));
    return replacement;
  }

  // Those that fired last, each once, sorted: the circle, if it is short.
  std::vector<std::string_view> last_names() const {
    std::vector<std::string_view> names(last_.begin(), last_.end());
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    return names;
  }

  // Which part of a conjunction does not hold.
  static std::string_view unmet(const Equation& equation, const Scope& scope) {
    std::string_view text = equation.guard_text;
    if (equation.guard->kind != Expression::Kind::And) return text;
    for (const Expression& part : equation.guard->operands) {
      std::string_view own = conjunct(text);
      if (!is_true(evaluate(part, scope))) return own;
      text.remove_prefix(std::min(text.size(), own.size() + kAnd.size()));
    }
    return equation.guard_text;
  }
  // Up to the first "and" that is in no brackets.
  static constexpr std::string_view kAnd = " and ";
  static std::string_view conjunct(std::string_view text) {
    int depth = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '(' || text[i] == '[') ++depth;
      if (text[i] == ')' || text[i] == ']') --depth;
      if (depth == 0 && text.substr(i).starts_with(kAnd)) return text.substr(0, i);
    }
    return text;
  }

  // The result under a match that satisfies the guard; null, with the reason: none.
  Node* instance(const Equation& equation, const Apply& node, const Scope& scope, Match& match, std::string& refusal) {
    if (is_open_shape(node) && !options_.define_roots && !equation.sharpens) {
      refusal = "the rank is not known";
      return nullptr;
    }
    if (Promise promise = promise_of(equation, scope.match.applications); promise > options_.weakest) {
      refusal = fmt::format("it promises {}, and {} is asked for", to_string(promise), to_string(options_.weakest));
      return nullptr;
    }
    if (equation.guard && !is_true(evaluate(*equation.guard, scope))) {
      refusal = fmt::format("not ({})", unmet(equation, scope));
      return nullptr;
    }
    Node* best = nullptr;
    std::vector<const Apply*> folded;  // of the best
    double least = equation.must_pay ? cost_of_matched(scope) : 0;
    for (const Term& result : equation.results) {
      size_t before = rewriter_.made().size();
      std::string failure;  // its own: one result that cannot be made says nothing about the next
      Node* made = make_result(result, scope, match, failure);
      if (made && equation.group) made = group_replaced(*made, *equation.group, node, match, failure);
      if (made && !also_replaced(equation, node, scope, match, failure)) made = nullptr;
      if (!failure.empty()) refusal = std::move(failure);
      if (!made || made == &node) continue;
      auto own = rewriter_.made().subspan(before);
      if (const Fit fitting = fit_of(node, *made, own);
          fitting == Fit::No || (fitting == Fit::NotShown && !equation.sharpens)) {
        refusal = fmt::format("{} would become {}", to_string(node.type()), to_string(made->type()));
        continue;
      }
      std::string why = why_not_written(options_.has_operator, own);
      if (why.empty() && equation.is_accurate) why = why_not_accurate(options_.is_accurate, own);
      if (!why.empty()) {
        refusal = std::move(why);
        continue;
      }
      if (overflows(own)) {
        refusal = "a constant would overflow";
        continue;
      }
      if (!stays_in_its_graph(scope.match, node, own.size())) {
        refusal = "it would be computed in an inner function, more than once";
        continue;
      }
      Cost cost = cost_of_made(own, scope.match, equation.must_pay);
      if (cost.leaves_constants && cost.us > cost_of_matched(scope)) {
        refusal = "what it makes of constants would not be folded: it is too much work, or too large";
        continue;
      }
      if (!equation.must_pay || cost.us < least) {
        best = made;
        least = cost.us;
        folded = std::move(cost.folded);
        if (!equation.must_pay) break;
      } else {
        refusal = fmt::format("it is not cheaper: {:.1f} us instead of {:.1f}", cost.us, least);
      }
    }
    if (best && options_.fold_budget) options_.fold_budget->plan(rewriter_.inference(), folded);
    if (!best) rewriter_.discard_made();
    return best;
  }

  // Makes what other applications of the pattern become with the root, into `also_`. False, with the reason: not all of it.
  bool also_replaced(const Equation& equation, const Apply& root, const Scope& scope, Match& match, std::string& why) {
    if (!equation.group) also_.clear();
    for (const auto& [slot, result] : equation.also) {
      Node* bound = match.nodes[static_cast<size_t>(slot)];
      Apply* old = bound ? bound->as_apply() : nullptr;
      const bool is_another = old && old != &root && old->graph() == root.graph() &&
                              std::ranges::find(also_, old, &std::pair<Apply*, Node*>::first) == also_.end();
      if (!is_another) {
        why = "what it replaces are not different applications of one function";
        return false;
      }
      if (result.kind == Term::Kind::Tuple && old->num_outputs() > 1) {
        if (!results_replaced(result.operands, *old, scope, match, why)) return false;
        continue;
      }
      Node* made = make_result(result.kind == Term::Kind::Tuple ? result.operands[0] : result, scope, match, why);
      if (!made) return false;
      const bool gets_results = made->type() && made->type()->is_tuple() && old->num_outputs() == 1;
      if (gets_results) made = rewriter_.item(made, 0);
      if (made == old) continue;  // it is what the rule needs
      if (!takes_place(*old, *made, why)) return false;
    }
    if (equation.also.empty() || !leads_back(root)) return true;
    why = "what it makes is computed of what it replaces";
    return false;
  }

  // The root's result of what a group becomes; those of the others go into `also_`.
  Node* group_replaced(Node& made, const Equation::Group& group, const Apply& root, const Match& match,
                       std::string& why) {
    also_.clear();
    Node* own = nullptr;
    for (size_t i = 0; i < group_.size(); ++i) {
      Node* result = rewriter_.item(&made, i);
      if (group_[i] == &root)
        own = result;
      else if (!takes_place(*group_[i], *result, why))
        return nullptr;
    }
    // What they have in common, and constants, are not computed of one of them.
    auto is_before_all = [&](const Use& use) {
      const bool is_made = std::ranges::find(rewriter_.made(), use.node) != rewriter_.made().end();
      return is_made || use.node->is_value() || use.node == match.nodes[static_cast<size_t>(group.through)];
    };
    const bool is_safe = std::ranges::all_of(
        rewriter_.made(), [&](const Apply* apply) { return std::ranges::all_of(apply->operands(), is_before_all); });
    if (is_safe || !leads_back(root)) return own;
    why = "what it makes is computed of what it replaces";
    return nullptr;
  }

  // The same of each result that is read.
  bool results_replaced(std::span<const Term> results, const Apply& old, const Scope& scope, Match& match,
                        std::string& why) {
    std::vector<Apply*> items;
    for (const Use& use : old.uses()) items.push_back(use.user);
    for (Apply* item : items) {
      const bool is_item = item->primitive() == Primitive::TupleGetItem;
      const auto index = is_item ? static_cast<size_t>(item->attributes().require_int("index")) : results.size();
      if (index >= results.size()) {
        why = "results of what it replaces are read as a whole";
        return false;
      }
      Node* made = item->has_uses() ? make_result(results[index], scope, match, why) : nullptr;
      if (!made && item->has_uses()) return false;
      if (made && !takes_place(*item, *made, why)) return false;
    }
    return true;
  }
  bool takes_place(Apply& old, Node& made, std::string& why) {
    if (fit_of(old, made, rewriter_.made()) == Fit::Yes) {
      also_.emplace_back(&old, &made);
      return true;
    }
    why = fmt::format("{} would become {}", to_string(old.type()), to_string(made.type()));
    return false;
  }

  // Whether something that was made is computed of an application that is replaced with the root, or may be.
  bool leads_back(const Apply& root) const {
    std::vector<const Apply*> pending, seen;
    for (const auto& [old, made] : also_) pending.push_back(old);
    while (!pending.empty()) {
      const Apply* node = pending.back();
      pending.pop_back();
      if (node == &root || std::ranges::find(seen, node) != seen.end()) continue;
      const bool is_made = std::ranges::find(rewriter_.made(), node) != rewriter_.made().end();
      if (is_made || node->graph() != root.graph() || seen.size() == kMostFollowed) return true;
      seen.push_back(node);
      for (const Use& use : node->uses()) pending.push_back(use.user);
    }
    return false;
  }

  // What a result takes in each run, and what folding computes of it.
  struct Cost {
    double us = 0;
    std::vector<const Apply*> folded;
    bool leaves_constants = false;  // what is made of constants, and not folded
  };
  // The time is only asked for where it is to pay, or where constants are left.
  Cost cost_of_made(std::span<Apply* const> made, const Match& match, bool must_pay) {
    Cost cost;
    for (const Apply* apply : made) {
      if (is_constant(*apply, cost.folded)) cost.folded.push_back(apply);
    }
    if (!cost.folded.empty() && !is_folded(cost.folded, made, match)) {
      cost.leaves_constants = true;
      cost.folded.clear();
    }
    if (!must_pay && !cost.leaves_constants) return cost;
    for (const Apply* apply : made) {
      if (std::ranges::find(cost.folded, apply) == cost.folded.end()) {
        cost.us += analysis::run_us(rewriter_.inference(), *apply);
      }
    }
    return cost;
  }
  static bool is_constant(const Apply& node, std::span<const Apply* const> known) {
    return node.op().effect == Effect::Pure && std::ranges::all_of(node.operands(), [&](const Use& use) {
             return use.node->is_value() || std::ranges::find(known, use.node) != known.end();
           });
  }

  // Whether folding would make infinities of finite constants.
  bool overflows(std::span<Apply* const> made) {
    std::vector<const Apply*> constants;
    return std::ranges::any_of(made, [&](const Apply* apply) {
      if (!is_constant(*apply, constants)) return false;
      constants.push_back(apply);
      auto is_finite = [&](const Use& use) { return rewriter_.range(use.node).is_finite(); };
      const bool is_told = apply->op().total && apply->op().range;
      return is_told && std::ranges::all_of(apply->operands(), is_finite) && !rewriter_.range(apply).is_finite();
    });
  }

  // Whether folding has the work, and stores the results.
  bool is_folded(std::span<const Apply* const> constants, std::span<Apply* const> made, const Match& match) {
    if (!options_.folds) return false;
    if (options_.fold_budget && !options_.fold_budget->affords(rewriter_.inference(), constants)) return false;
    double stored = 0, saved = 0;
    std::vector<const Node*> seen;
    auto goes = [&](const Use& use) {
      return std::ranges::find(match.applications, use.user) != match.applications.end() ||
             std::ranges::find(made, use.user) != made.end();
    };
    for (const Apply* node : constants) {
      const double bytes = analysis::bytes_of(node->type());
      if (bytes > analysis::FoldBudget::kLargestResult) return false;
      const bool inside = node->has_uses() && std::ranges::all_of(node->uses(), [&](const Use& use) {
                            return std::ranges::find(constants, use.user) != constants.end();
                          });
      if (!inside) stored += bytes;
      for (const Use& use : node->operands()) {
        const Tensor* constant = constant_tensor(use.node);
        if (!constant || std::ranges::find(seen, use.node) != seen.end()) continue;
        seen.push_back(use.node);
        if (std::ranges::all_of(use.node->uses(), goes)) saved += static_cast<double>(constant->bytes());
      }
    }
    return stored <= saved + static_cast<double>(options_.fold_limit);
  }

  // What goes when the root goes: the applications of the pattern that nobody else uses.
  double cost_of_matched(const Scope& scope) {
    double cost = 0;
    for (const Apply* apply : scope.match.applications) {
      bool goes = apply == &scope.root() || apply->has_one_use() || std::ranges::find(group_, apply) != group_.end();
      if (!goes) continue;
      const Apply* nodes[] = {apply};
      const bool is_free = is_constant(*apply, {}) && options_.folds &&
                           (!options_.fold_budget || options_.fold_budget->affords(rewriter_.inference(), nodes));
      if (!is_free) cost += analysis::run_us(rewriter_.inference(), *apply);
    }
    return cost;
  }

  // A match may reach into an enclosing function; the result is made in the root's. It must not be more work there.
  static bool stays_in_its_graph(const Match& match, const Apply& root, size_t made) {
    auto here = std::ranges::count_if(match.applications, [&](const Apply* a) { return a->graph() == root.graph(); });
    return static_cast<size_t>(here) == match.applications.size() || made <= static_cast<size_t>(here);
  }

  void replace(Apply& node, Node& replacement, std::string_view rule) {
    Remark* remark = remarks_.applied(pass_, rule, node, remarks_.keeps() ? become(replacement) : "");
    worklist_.measure(rewriter_.inference());
    for (const Use& use : node.operands()) worklist_.add(use.node);
    for (const auto& [old, made] : also_) {
      module_.replace(old, made);
      module_.erase_with_dead_operands(old);
    }
    also_.clear();
    module_.replace(&node, &replacement);  // which tells of the node's users
    // Those that the replacement had already find it used more often; where there are many, one more changes nothing.
    size_t users = 0;
    for (const Use& use : replacement.uses()) {
      if (++users > kMostUsersAgain) break;
      worklist_.add(use.user);
    }
    module_.erase_with_dead_operands(&node);
    const Work before = worklist_.erased();
    if (options_.folds_at_once) fold_numbers();
    Work after;
    for (const Apply* made : rewriter_.made()) {
      const bool stays = !made->is_erased() && (remark || !is_constant(*made, {}));
      if (stays) after += work_of(rewriter_.inference(), *made);
    }
    if (after.flops > before.flops) remarks_.added_flops(rule, after.flops - before.flops);
    if (!remark) return;
    remark->before = before;
    remark->after = after;
  }

  // What was made of a few numbers alone becomes numbers.
  void fold_numbers() {
    for (Apply* made : rewriter_.made()) {
      if (made->is_erased() || !made->has_uses() || made->num_outputs() != 1 || !is_arithmetic(made->op())) continue;
      auto shape = made->type() ? made->type()->static_shape() : std::nullopt;
      if (!shape || !made->type()->is_tensor() || element_count(*shape) > kMostNumbers) continue;
      boost::container::small_vector<Datum, 4> inputs;
      for (const Use& use : made->operands()) {
        if (const Tensor* constant = constant_tensor(use.node)) inputs.emplace_back(*constant);
      }
      if (inputs.size() != made->num_inputs()) continue;
      try {
        auto values = analysis::evaluate_operator(made->op(), made->attributes(), inputs, 1);
        module_.replace(made, module_.constant(values[0].tensor()));
        module_.erase(made);
      } catch (const Error&) {
        // The pass that folds says why not.
      }
    }
  }
  static bool is_arithmetic(const Operator& op) {
    const bool maps = op.fusion == FusionKind::Elementwise || op.fusion == FusionKind::Broadcast;
    return maps && op.primitive == Primitive::Operation && op.effect == Effect::Pure && op.domain.empty() &&
           ops::reference_kernel(op) && op.name != "DequantizeLinear" && op.name != "QuantizeLinear";
  }

  // What a remark says of the replacement: "becomes Relu 'act'", "becomes x".
  static std::string become(const Node& replacement) { return "becomes " + describe(replacement); }

  const RuleSet& rules_;
  const RewriteOptions& options_;
  Module& module_;
  Rewriter rewriter_;
  Remarks& remarks_;
  boost::unordered_flat_map<const char*, RuleStatistics*> counts_;
  std::string_view pass_;
  Worklist worklist_;
  std::vector<const Equation*> candidates_;
  std::vector<Apply*> group_;                   // what the rule replaces together, with the root
  std::vector<std::pair<Apply*, Node*>> also_;  // what is replaced with the root, and by what
  size_t fired_ = 0;
  std::array<std::string_view, 8> last_;  // the rules that fired last, from fired_ % size on
};

}  // namespace

bool applies(const RuleSet& rules, const Apply& root, analysis::Inference& inference) {
  auto& node = const_cast<Apply&>(root);  // results could be made of what is bound; none is
  Rewriter rewriter(inference.module(), inference);
  rewriter.set_root(node);
  std::vector<const Equation*> candidates;
  rules.candidates(root, candidates);
  return std::ranges::any_of(candidates, [&](const Equation* equation) {
    Match match(equation->slots);
    const Scope scope(rewriter, match);
    auto accept = [&] { return !equation->guard || is_true(evaluate(*equation->guard, scope)); };
    return for_each_match(equation->pattern, node, match, [&](const Expression& e) { return evaluate(e, scope); }, accept);
  });
}

size_t apply_rules(const RuleSet& rules, const RewriteOptions& options, analysis::Inference& inference,
                   Remarks& remarks, std::string_view pass) {
  return Engine(rules, options, inference, remarks, pass).run();
}

size_t apply_rules(std::span<const Rule> rules, const RewriteOptions& options, analysis::Inference& inference,
                   Remarks& remarks, std::string_view pass) {
  RuleSet set(inference.module().context());
  set.add(rules);
  return apply_rules(set, options, inference, remarks, pass);
}

}  // namespace anfora::rewrite
