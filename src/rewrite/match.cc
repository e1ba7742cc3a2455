// The matcher goes through the pattern with a continuation: what is left to do once a term has matched. A term
// with several ways to match tries each with the same continuation, and undoes its bindings when that fails, so
// that a guard that does not hold for one order of operands is tried with the other. Depth and breadth are those of
// the pattern, a handful of nodes, whatever the graph has: long lists of operands are gone through by loops, trees of one
// operator are looked at up to kMostFlattenedOperands.
#include "rewrite/match.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ir/module.h"
#include "ir/queries.h"
#include "support/deferred_elements.h"
#include "support/element_types.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

// Operands of a tree of one associative operator beyond which it is not flattened: choosing subsets of them would not be linear.
constexpr size_t kMostFlattenedOperands = 24;

// A repeated term tries every way to match each of so many operands. Of a longer list each operand is matched in the first way
// that fits it: what goes back over a list would recurse by operand.
constexpr size_t kMostTriedBothWays = 64;
// Operands among which a list in front of something else may end anywhere. Rules of that form take a wide application apart piece
// by piece, each time as a whole, which is not linear either.
constexpr size_t kMostTakenApart = 512;

// Users of a value that are looked at to find what is beside an application.
constexpr size_t kMostReaders = 256;

// Constants in exported models are decimal texts of about this precision ("0.79788", "1.4142135"), or values of the
// narrow type that a model was trained in.
constexpr double kApproximation = 1e-5;

double epsilon_of(DType dtype) {
  if (dtype == DType::F16) return 0x1p-10;
  if (dtype == DType::BF16) return 0x1p-7;
  return 0;
}

// A decimal as a floating type has it: 0.1 in a rule is 0.1f where the constant is f32.
double rounded_to(DType dtype, double number) {
  if (!is_float(dtype)) return number;
  return dispatch<Floats>(dtype, [&]<class T>() {
    return static_cast<double>(static_cast<ComputeType<T>>(static_cast<T>(static_cast<ComputeType<T>>(number))));
  });
}

using Continue = FunctionRef<bool()>;

class Matcher {
 public:
  Matcher(Match& match, FunctionRef<Quantity(const Expression&)> evaluate) : match_(match), evaluate_(evaluate) {}

  // `node` is null where an operand is left out.
  bool term(const Term& t, Node* node, Continue next) {
    switch (t.kind) {
      case Term::Kind::Wildcard: return (node || t.optional) && next();
      case Term::Kind::Variable: return variable(t, node, next);
      case Term::Kind::Number: return node && is_splat(node, t.number, t.approximate) && next();
      case Term::Kind::None: return !node && next();
      case Term::Kind::Apply:
        return node && application(t, t.any_results ? source_of(node) : node->as_apply(), 1, next);
      case Term::Kind::Either:
        return std::ranges::any_of(t.operands, [&](const Term& choice) { return term(choice, node, next); });
      case Term::Kind::Item: return item(t, node, next);
      case Term::Kind::Computed:
      case Term::Kind::Around:
      case Term::Kind::Tuple:
      case Term::Kind::Folded: return false;
    }
    return false;
  }

 private:
  // The application whose first or only result a node is.
  static Apply* source_of(Node* node) {
    const Apply* get = node->as(Primitive::TupleGetItem);
    return get && get->attributes().require_int("index") == 0 ? get->input(0)->as_apply() : node->as_apply();
  }

  bool variable(const Term& t, Node* node, Continue next) {
    if (!node) return t.optional && absent(t, next);
    if (t.in_list) {
      Nodes& list = match_.lists[static_cast<size_t>(t.slot)];
      list.push_back(node);
      if (next()) return true;
      list.pop_back();
      return false;
    }
    Node*& bound = match_.nodes[static_cast<size_t>(t.slot)];
    if (bound || match_.absent[static_cast<size_t>(t.slot)]) return bound == node && next();
    bound = node;
    if (next()) return true;
    bound = nullptr;
    return false;
  }
  // An operand that is left out is left out at every place of its variable.
  bool absent(const Term& t, Continue next) {
    if (t.in_list) return next();
    const auto slot = static_cast<size_t>(t.slot);
    if (match_.nodes[slot]) return false;
    const bool before = std::exchange(match_.absent[slot], true);
    if (next()) return true;
    match_.absent[slot] = before;
    return false;
  }

  bool item(const Term& t, Node* node, Continue next) {
    Apply* get = node ? node->as(Primitive::TupleGetItem) : nullptr;
    if (!get || get->attributes().require_int("index") != t.index) return false;
    auto source = [&] { return application(t.operands[0], get->input(0)->as_apply(), 0, next); };
    return with_name(t, *get, source);
  }

  // `outputs`: how many results the application must have; 0: several.
  bool application(const Term& t, Apply* apply, size_t outputs, Continue next) {
    if (!apply || (!t.any_results && (outputs == 1) != (apply->num_outputs() == 1))) return false;
    if (std::ranges::find(t.operators, &apply->op()) == t.operators.end()) return false;
    if (t.operator_slot >= 0) {
      const Operator*& bound = match_.operators[static_cast<size_t>(t.operator_slot)];
      if (bound && bound != &apply->op()) return false;
      if (!bound) {
        bound = &apply->op();
        if (attributes(t, *apply, next)) return true;
        bound = nullptr;
        return false;
      }
    }
    return attributes(t, *apply, next);
  }

  bool attributes(const Term& t, Apply& apply, Continue next) {
    boost::container::small_vector<int, 4> bound;
    bool same = std::ranges::all_of(t.attributes, [&](const AttributeTerm& a) { return attribute(a, apply, bound); });
    bool binds_rest = t.rest >= 0 && !match_.attribute_sets[static_cast<size_t>(t.rest)];
    if (same) same = t.rest >= 0 ? rest(t, apply) : others_are_defaults(t, apply);
    if (same && named(t, apply, next)) return true;
    if (binds_rest) match_.attribute_sets[static_cast<size_t>(t.rest)].reset();
    for (int slot : bound) match_.quantities[static_cast<size_t>(slot)] = NotKnown{};
    return false;
  }

  bool attribute(const AttributeTerm& a, const Apply& apply, boost::container::small_vector<int, 4>& bound) {
    const AttributeValue* value = attribute_or_default(apply, a.name);
    if (!value) return false;
    Quantity quantity = from_attribute(*value);
    if (!is_known(quantity)) return false;
    if (a.binds < 0) return equal(quantity, evaluate_(a.value), apply.graph()->module().context().dims()) == true;
    Quantity& slot = match_.quantities[static_cast<size_t>(a.binds)];
    if (is_known(slot)) return equal(slot, quantity, apply.graph()->module().context().dims()) == true;
    slot = std::move(quantity);
    bound.push_back(a.binds);
    return true;
  }

  static bool is_named(const Term& t, std::string_view attribute) {
    return std::ranges::find(t.attributes, attribute, &AttributeTerm::name) != t.attributes.end();
  }

  static bool others_are_defaults(const Term& t, const Apply& apply) {
    return std::ranges::all_of(apply.attributes(), [&](const AttributeSet::Entry& entry) {
      if (is_named(t, entry.first)) return true;
      const AttributeDeclaration* declared = apply.op().find_attribute(entry.first);
      return declared && declared->otherwise && identical(*declared->otherwise, entry.second);
    });
  }

  // The attributes that are not named: those of an earlier place with the same name for them, where there was one.
  bool rest(const Term& t, const Apply& apply) {
    std::vector<AttributeSet::Entry> entries;
    for (const AttributeSet::Entry& entry : apply.attributes()) {
      if (!is_named(t, entry.first)) entries.push_back(entry);
    }
    AttributeSet others(std::move(entries));
    std::optional<AttributeSet>& bound = match_.attribute_sets[static_cast<size_t>(t.rest)];
    if (bound) return *bound == others;
    bound = std::move(others);
    return true;
  }

  bool named(const Term& t, Apply& apply, Continue next) {
    auto all_operands = [&] { return operands(t, apply, next); };
    return with_name(t, apply, all_operands);
  }
  bool with_name(const Term& t, Apply& apply, Continue next) {
    if (t.slot < 0 || t.in_list) return next();
    Node*& bound = match_.nodes[static_cast<size_t>(t.slot)];
    if (bound) return bound == &apply && next();
    bound = &apply;
    if (next()) return true;
    bound = nullptr;
    return false;
  }

  bool operands(const Term& t, Apply& apply, Continue next) {
    match_.applications.push_back(&apply);
    bool found = choose_operands(t, apply, next);
    if (!found) match_.applications.pop_back();
    return found;
  }

  bool choose_operands(const Term& t, Apply& apply, Continue next) {
    if (t.flattened) return flattened(t, apply, next);
    Nodes inputs;
    for (const Use& use : apply.operands()) {
      const Value* value = use.node->as_value();
      inputs.push_back(value && value->is_none() ? nullptr : use.node);
    }
    while (!inputs.empty() && !inputs.back()) inputs.pop_back();
    if (sequence(t.operands, inputs, next)) return true;
    if (inputs.size() != 2 || inputs[0] == inputs[1] || !apply.op().commutative) return false;
    std::swap(inputs[0], inputs[1]);
    return sequence(t.operands, inputs, next);
  }

  // Terms against operands, in order.
  bool sequence(std::span<const Term> terms, std::span<Node* const> inputs, Continue next) {
    if (terms.empty()) return inputs.empty() && next();
    const Term& t = terms.front();
    if (t.repeated) return repeated(terms, inputs, next);
    Node* first = inputs.empty() ? nullptr : inputs.front();
    auto rest = inputs.empty() ? inputs : inputs.subspan(1);
    auto others = [&] { return sequence(terms.subspan(1), rest, next); };
    return term(t, first, others);
  }

  // The fewest operands first; a repeated application at least one, or the rule would fire without it.
  bool repeated(std::span<const Term> terms, std::span<Node* const> inputs, Continue next) {
    const Term& t = terms.front();
    if (terms.size() > 1 && inputs.size() > kMostTakenApart) return false;
    if (t.kind == Term::Kind::Variable && t.in_list) return list(terms, inputs, next);
    if (inputs.size() > kMostTriedBothWays) return long_repetition(terms, inputs, next);
    auto others = [&] { return sequence(terms.subspan(1), inputs, next); };
    if (t.kind == Term::Kind::Variable && others()) return true;
    auto more = [&] { return after_one(terms, inputs.subspan(1), next); };
    return !inputs.empty() && inputs.front() && term(t, inputs.front(), more);
  }
  bool after_one(std::span<const Term> terms, std::span<Node* const> inputs, Continue next) {
    if (sequence(terms.subspan(1), inputs, next)) return true;
    auto more = [&] { return after_one(terms, inputs.subspan(1), next); };
    return !inputs.empty() && inputs.front() && term(terms.front(), inputs.front(), more);
  }

  // xs...: any operands, of which each fits in one way.
  bool list(std::span<const Term> terms, std::span<Node* const> inputs, Continue next) {
    Nodes& taken = match_.lists[static_cast<size_t>(terms.front().slot)];
    const size_t before = taken.size();
    const bool takes_all = terms.size() == 1;
    for (size_t i = 0;; ++i) {
      if ((!takes_all || i == inputs.size()) && sequence(terms.subspan(1), inputs.subspan(i), next)) return true;
      if (i == inputs.size() || (!inputs[i] && !terms.front().optional)) break;
      taken.push_back(inputs[i]);
    }
    taken.resize(before);
    return false;
  }

  bool long_repetition(std::span<const Term> terms, std::span<Node* const> inputs, Continue next) {
    const Bindings before(match_);
    for (size_t i = 0; i < inputs.size() && inputs[i]; ++i) {
      if (!term(terms.front(), inputs[i], [] { return true; })) break;
      if (sequence(terms.subspan(1), inputs.subspan(i + 1), next)) return true;
    }
    before.restore(match_);
    return false;
  }

  // Add*(x, Neg(x), rest...): each term that is not repeated takes one of the tree's operands, in any way; the repeated one at
  // the end takes what is left.
  bool flattened(const Term& t, Apply& apply, Continue next) {
    Nodes leaves;
    size_t inner = match_.applications.size();
    if (!flatten(apply, leaves, inner)) {
      match_.applications.resize(inner);
      return false;
    }
    std::span<const Term> terms = t.operands;
    bool with_rest = !terms.empty() && terms.back().repeated;
    size_t fixed = terms.size() - (with_rest ? 1 : 0);
    bool enough = with_rest ? leaves.size() >= fixed : leaves.size() == fixed;
    if (enough && choose(terms, fixed, leaves, next)) return true;
    match_.applications.resize(inner);
    return false;
  }

  // The operands of the tree, from left to right. False: there are too many, or the tree is too deep. `inner`: how many
  // applications there were before its root's operands.
  bool flatten(Apply& apply, Nodes& leaves, size_t inner) {
    for (const Use& use : apply.operands()) {
      Apply* operand = use.node->as_apply();
      bool same = operand && &operand->op() == &apply.op() && operand->has_one_use() &&
                  operand->graph() == apply.graph() && operand->attributes() == apply.attributes();
      const size_t size = same ? match_.applications.size() - inner : leaves.size();
      if (size == kMostFlattenedOperands) return false;
      if (!same) {
        leaves.push_back(use.node);
        continue;
      }
      match_.applications.push_back(operand);
      if (!flatten(*operand, leaves, inner)) return false;
    }
    return true;
  }

  bool choose(std::span<const Term> terms, size_t fixed, Nodes& leaves, Continue next) {
    if (fixed == 0) return sequence(terms, leaves, next);
    for (size_t i = 0; i < leaves.size(); ++i) {
      Node* taken = leaves[i];
      leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(i));
      auto others = [&] { return choose(terms.subspan(1), fixed - 1, leaves, next); };
      if (term(terms.front(), taken, others)) return true;
      leaves.insert(leaves.begin() + static_cast<std::ptrdiff_t>(i), taken);
    }
    return false;
  }

  // What is bound, to go back to.
  class Bindings {
   public:
    explicit Bindings(const Match& match)
        : nodes_(match.nodes),
          quantities_(match.quantities),
          operators_(match.operators),
          attribute_sets_(match.attribute_sets),
          applications_(match.applications.size()) {
      for (const Nodes& list : match.lists) lists_.push_back(list.size());
    }
    void restore(Match& match) const {
      match.nodes = nodes_;
      match.quantities = quantities_;
      match.operators = operators_;
      match.attribute_sets = attribute_sets_;
      match.applications.resize(applications_);
      for (size_t i = 0; i < lists_.size(); ++i) match.lists[i].resize(lists_[i]);
    }

   private:
    decltype(Match::nodes) nodes_;
    decltype(Match::quantities) quantities_;
    decltype(Match::operators) operators_;
    decltype(Match::attribute_sets) attribute_sets_;
    size_t applications_;
    boost::container::small_vector<size_t, 4> lists_;
  };

  Match& match_;
  FunctionRef<Quantity(const Expression&)> evaluate_;
};

}  // namespace

bool for_each_match(const Term& pattern, Apply& root, Match& match, FunctionRef<Quantity(const Expression&)> evaluate,
                    FunctionRef<bool()> accept) {
  return Matcher(match, evaluate).term(pattern, &root, accept);
}

bool for_each_reader(const Term& pattern, Node& operand, Match& match, FunctionRef<Quantity(const Expression&)> evaluate,
                     FunctionRef<bool()> accept) {
  boost::container::small_vector<Apply*, 8> readers;  // `accept` may add some
  for (const Use& use : operand.uses()) {
    if (readers.size() == kMostReaders) return false;
    const bool is_new = !std::ranges::count(readers, use.user) && !std::ranges::count(match.applications, use.user);
    if (is_new && use.user->graph() == match.applications.front()->graph()) readers.push_back(use.user);
  }
  Matcher matcher(match, evaluate);
  return std::ranges::any_of(readers, [&](Apply* reader) { return matcher.term(pattern, reader, accept); });
}

// What all elements are; nothing where they differ, or are no numbers of 8 bits or more.
static std::optional<double> common_value(const Tensor& t) {
  if (t.dtype() == DType::Bool) {
    auto values = t.data<bool>();
    if (std::ranges::any_of(values, [&](bool b) { return b != values[0]; })) return std::nullopt;
    return values[0];
  }
  if (!is_integer(t.dtype()) && !(is_float(t.dtype()) && element_bits(t.dtype()) >= 16)) return std::nullopt;
  if (element_bits(t.dtype()) < 8) return std::nullopt;
  return dispatch<Numbers>(t.dtype(), [&]<class T>() -> std::optional<double> {
    auto values = t.data<T>();
    double first = static_cast<double>(static_cast<ComputeType<T>>(values[0]));
    if (is_integer(t.dtype()) && std::abs(first) > 0x1p53) return std::nullopt;  // not exact
    bool same = std::ranges::all_of(values, [&](T x) {
      double wide = static_cast<double>(static_cast<ComputeType<T>>(x));
      return wide == first && std::signbit(wide) == std::signbit(first);
    });
    return same ? std::optional(first) : std::nullopt;
  });
}

std::optional<double> splat_value(const Node* node) {
  const Tensor* t = constant_tensor(node);
  if (!t || t->size() == 0) return std::nullopt;
  if (DeferredElements::are_missing(*t)) {  // few of them tell of most weights that they differ
    constexpr int64_t kFew = 16;
    Tensor few = Tensor::allocate(t->dtype(), std::array{std::min(t->size(), kFew)});
    DeferredElements::copy_bytes(*t, 0, few.bytes(), static_cast<std::byte*>(few.raw()));
    if (!common_value(few)) return std::nullopt;
  }
  return common_value(*t);
}

bool is_splat(const Node* node, double number, bool approximate) {
  auto value = splat_value(node);
  if (!value) return false;
  double rounded = rounded_to(constant_tensor(node)->dtype(), number);
  if (*value == rounded) return std::signbit(*value) == std::signbit(rounded);
  if (!approximate) return false;
  double tolerance = std::max(kApproximation, epsilon_of(constant_tensor(node)->dtype()));
  return std::abs(*value - number) <= tolerance * std::abs(number);
}

}  // namespace anfora::rewrite
