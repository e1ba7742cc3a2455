#include "rules/proof.h"

#include <fmt/format.h>
#include <z3++.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "rewrite/expression.h"

namespace anfora::rules {

using rewrite::Equation;
using rewrite::Expression;
using rewrite::Promise;
using rewrite::Term;

namespace {

// Of the solver, for a rule in one domain: steps, so that the outcome does not depend on the machine, and time, for steps that
// take long.
constexpr unsigned kMostSteps = 1'000'000, kMostMilliseconds = 10'000;

// What the elements of a tensor are to the solver.
struct Domain {
  std::string_view name;
  DType dtype;  // operators that do not take it are not asked
  unsigned bits = 0;
  bool is_signed = false;
  bool is_real() const { return bits == 0 && dtype != DType::Bool; }
};
constexpr Domain kDomains[] = {
    {"i8", DType::I8, 8, true},     {"u8", DType::U8, 8, false}, {"i32", DType::I32, 32, true},
    {"u32", DType::U32, 32, false}, {"reals", DType::F32},       {"bool", DType::Bool},
};

// What cannot be said to the solver, or does not exist in the domain.
struct NotExpressible {};

class Translator {
 public:
  Translator(z3::context& z3, const Domain& domain, const Equation& equation, const ir::Operator* of_class)
      : z3_(z3), domain_(domain), of_class_(of_class), assumptions_(z3) {
    assumes_ = true;
    left_ = term(equation.pattern, is_truth(equation.pattern));
    assumes_ = false;
    if (equation.guard) {
      auto holds = condition(*equation.guard, true);
      if (holds) assumptions_.push_back(*holds);
    }
  }

  z3::expr result(const Term& t) { return term(t, left_->is_bool()); }
  z3::expr left() const { return *left_; }
  const z3::expr_vector& assumptions() const { return assumptions_; }
  // Whether a counterexample is one: all of the guard was said, and all functions are known.
  bool is_complete() const { return complete_; }

 private:
  static bool is_one_of(const ir::Operator& op, std::initializer_list<std::string_view> names) {
    return std::ranges::count(names, op.qualified) > 0;
  }
  const ir::Operator& op_of(const Term& t) const {
    if (t.kind != Term::Kind::Apply) throw NotExpressible();
    if (t.operator_slot < 0) return *t.operators[0];
    if (!of_class_) throw NotExpressible();
    return *of_class_;
  }

  bool is_truth(const Term& t) const {
    return is_one_of(op_of(t),
                     {"And", "Or", "Xor", "Not", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}) ||
           domain_.dtype == DType::Bool;
  }

  // Numbers --------------------------------------------------------------------------------------------------------
  z3::expr number(double value) {
    if (domain_.is_real()) {
      if (!std::isfinite(value)) throw NotExpressible();
      return z3_.real_val(fmt::format("{}", value).c_str());
    }
    bool fits = std::floor(value) == value && std::abs(value) < 128 && (value >= 0 || domain_.is_signed);
    if (domain_.bits == 0 || !fits) throw NotExpressible();
    return z3_.bv_val(static_cast<int64_t>(value), domain_.bits);
  }
  z3::expr truth_or_number(double value, bool truth) { return truth ? z3_.bool_val(value != 0) : number(value); }

  z3::expr variable(const std::string& name, bool truth) {
    auto known = variables_.find(name);
    if (known != variables_.end()) {
      if (known->second.is_bool() != truth) throw NotExpressible();
      return known->second;
    }
    if (!truth && domain_.dtype == DType::Bool) throw NotExpressible();
    z3::sort sort = truth ? z3_.bool_sort() : domain_.is_real() ? z3_.real_sort() : z3_.bv_sort(domain_.bits);
    z3::expr made = z3_.constant(name.c_str(), sort);
    variables_.emplace(name, made);
    return made;
  }
  static std::string name_of(int slot, bool in_list) { return fmt::format("{}{}", in_list ? "list" : "x", slot); }

  z3::expr less(const z3::expr& a, const z3::expr& b) {
    if (a.is_bool()) throw NotExpressible();
    return domain_.is_real() || domain_.is_signed ? a < b : z3::ult(a, b);
  }
  z3::expr at_most(const z3::expr& a, const z3::expr& b) { return !less(b, a); }

  // An assumption about what is on the left; on the right it has to follow.
  void assume(const z3::expr& fact) {
    if (assumes_) assumptions_.push_back(fact);
  }

  // Terms ----------------------------------------------------------------------------------------------------------
  z3::expr term(const Term& t, bool truth) {
    switch (t.kind) {
      case Term::Kind::Wildcard: return variable(fmt::format("any{}", variables_.size()), truth);
      case Term::Kind::Variable:
        if (t.optional) throw NotExpressible();
        return variable(name_of(t.slot, t.in_list), truth);
      case Term::Kind::Number:
        if (t.approximate) throw NotExpressible();
        return truth_or_number(t.number, truth);
      case Term::Kind::Apply: return application(t, truth);
      case Term::Kind::Computed: return computed(t.value, truth);
      default: throw NotExpressible();
    }
  }

  // like(2, x), and variables.
  z3::expr computed(const Expression& e, bool truth) {
    bool like = e.kind == Expression::Kind::Call && e.function->name == "like";
    if (truth || !like) throw NotExpressible();
    auto value = quantity(e.operands[0]);
    if (!value) throw NotExpressible();
    return *value;
  }

  z3::expr application(const Term& t, bool truth) {
    const ir::Operator& op = op_of(t);
    if (!t.attributes.empty() || t.rest >= 0 || (!op.attributes.empty() && !t.attributes.empty()))
      throw NotExpressible();
    if (op.fusion != ir::FusionKind::Elementwise && op.fusion != ir::FusionKind::Broadcast) throw NotExpressible();
    bool named = t.slot >= 0;
    z3::expr value = compute(t, op, truth);
    if (named) variables_.insert_or_assign(name_of(t.slot, false), value);
    return value;
  }

  std::vector<z3::expr> operands(const Term& t, bool truth) {
    std::vector<z3::expr> values;
    for (const Term& operand : t.operands) {
      // "rest..." of a flattened sum stands for the sum of it.
      if (operand.repeated && !(t.flattened && operand.kind == Term::Kind::Variable)) throw NotExpressible();
      values.push_back(term(operand, truth));
    }
    return values;
  }

  z3::expr compute(const Term& t, const ir::Operator& op, bool truth) {
    if (op.qualified == "Where") {
      z3::expr condition = term(t.operands[0], true);
      return z3::ite(condition, term(t.operands[1], truth), term(t.operands[2], truth));
    }
    if (is_one_of(op, {"And", "Or", "Xor", "Not"})) {
      if (!truth) throw NotExpressible();
      return fold(t, op, operands(t, true));
    }
    if (is_one_of(op, {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"})) {
      if (!truth) throw NotExpressible();
      bool of_truths = domain_.dtype == DType::Bool;
      if (!of_truths) check_takes(op);
      return compare(op, operands(t, of_truths));
    }
    if (truth && op.qualified != "Identity") throw NotExpressible();
    check_takes(op);
    return fold(t, op, operands(t, truth));
  }

  void check_takes(const ir::Operator& op) const {
    for (const ir::TypeVariable& variable : op.variables) {
      if (op.inputs.empty() || variable.name != op.inputs[0].type) continue;
      if (!std::ranges::count(variable.dtypes, domain_.dtype)) throw NotExpressible();
    }
  }

  z3::expr compare(const ir::Operator& op, const std::vector<z3::expr>& x) {
    if (x.size() != 2) throw NotExpressible();
    if (op.qualified == "Equal") return x[0] == x[1];
    if (op.qualified == "Less") return less(x[0], x[1]);
    if (op.qualified == "Greater") return less(x[1], x[0]);
    if (op.qualified == "LessOrEqual") return at_most(x[0], x[1]);
    return at_most(x[1], x[0]);
  }

  // Operators of two operands are applied from the left, as often as there are operands.
  z3::expr fold(const Term& t, const ir::Operator& op, const std::vector<z3::expr>& x) {
    if (x.empty()) throw NotExpressible();
    bool variadic = t.flattened || is_one_of(op, {"Min", "Max", "Sum", "Mean"});
    if (op.qualified == "Mean" && x.size() > 1) throw NotExpressible();
    if (x.size() == 1 && !variadic) return unary(op, x[0]);
    if (x.size() > 2 && !variadic) throw NotExpressible();
    z3::expr result = x[0];
    for (size_t i = 1; i < x.size(); ++i) result = binary(op, result, x[i]);
    return result;
  }

  z3::expr unary(const ir::Operator& op, const z3::expr& x) {
    if (op.qualified == "Identity") return x;
    if (op.qualified == "Not") return !x;
    if (op.qualified == "Neg") return -x;
    if (op.qualified == "BitwiseNot") return ~x;
    z3::expr zero = number(0);
    if (op.qualified == "Abs") return z3::ite(less(x, zero), -x, x);
    if (op.qualified == "Relu") return z3::ite(less(x, zero), zero, x);
    if (op.qualified == "Sign")
      return z3::ite(less(x, zero), domain_.is_real() || domain_.is_signed ? -number(1) : zero,
                     z3::ite(x == zero, zero, number(1)));
    if (!domain_.is_real()) throw NotExpressible();
    if (op.qualified == "Reciprocal") return divided(number(1), x);
    if (op.qualified == "Sqrt") return square_root(x);
    return function(op, {x});
  }

  z3::expr square_root(const z3::expr& x) {
    z3::expr root = z3::function("sqrt", z3_.real_sort(), z3_.real_sort())(x);
    assume(x >= 0);
    assumptions_.push_back(z3::implies(x >= 0, root >= 0 && root * root == x));
    return root;
  }

  z3::expr divided(const z3::expr& x, const z3::expr& y) {
    assume(y != number(0));
    if (domain_.is_real()) return x / y;
    return domain_.is_signed ? x / y : z3::udiv(x, y);
  }

  z3::expr binary(const ir::Operator& op, const z3::expr& x, const z3::expr& y) {
    std::string_view name = op.qualified;
    if (name == "Add" || name == "Sum") return x + y;
    if (name == "Sub") return x - y;
    if (name == "Mul") return x * y;
    if (name == "Div") return divided(x, y);
    if (name == "Min") return z3::ite(less(y, x), y, x);
    if (name == "Max") return z3::ite(less(x, y), y, x);
    if (name == "And") return x && y;
    if (name == "Or") return x || y;
    if (name == "Xor") return x != y;
    if (name == "BitwiseAnd") return x & y;
    if (name == "BitwiseOr") return x | y;
    if (name == "BitwiseXor") return x ^ y;
    if (!domain_.is_real()) throw NotExpressible();
    if (name == "Pow") {
      double exponent;
      if (y.is_numeral(exponent) && exponent == std::floor(exponent) && exponent >= 1 && exponent <= 4) {
        z3::expr power = x;
        for (int i = 1; i < static_cast<int>(exponent); ++i) power = power * x;
        return power;
      }
    }
    return function(op, {x, y});
  }

  // A function of which the solver only knows that it is one.
  z3::expr function(const ir::Operator& op, const std::vector<z3::expr>& x) {
    bool uniform = std::ranges::all_of(op.inputs, [&](const ir::Formal& f) { return f.type == op.outputs[0].type; });
    if (!uniform && op.qualified != "Pow") throw NotExpressible();
    complete_ = false;
    z3::sort_vector sorts(z3_);
    z3::expr_vector arguments(z3_);
    for (const z3::expr& e : x) {
      sorts.push_back(e.get_sort());
      arguments.push_back(e);
    }
    return z3::function(op.qualified.c_str(), sorts, z3_.real_sort())(arguments);
  }

  // Guards -------------------------------------------------------------------------------------------------------
  // What cannot be said is left out of a conjunction: less is assumed then, and a counterexample is none. Empty: all of it.
  std::optional<z3::expr> condition(const Expression& e, bool positive) {
    if (e.kind == Expression::Kind::And || e.kind == Expression::Kind::Or) {
      bool all = e.kind == Expression::Kind::And;
      std::optional<z3::expr> whole;
      for (const Expression& operand : e.operands) {
        auto part = condition(operand, positive);
        if (!part && (!all || !positive)) return unsaid();
        if (part) whole = !whole ? *part : all ? *whole && *part : *whole || *part;
      }
      return whole;
    }
    if (e.kind == Expression::Kind::Not) {
      auto part = condition(e.operands[0], !positive);
      return part ? std::optional(!*part) : unsaid();
    }
    if (e.kind != Expression::Kind::Call) return unsaid();
    return predicate(e);
  }
  std::optional<z3::expr> unsaid() {
    complete_ = false;
    return std::nullopt;
  }

  std::optional<z3::expr> predicate(const Expression& e) {
    std::string_view name = e.function->name;
    auto is = [&](std::initializer_list<std::string_view> names) { return std::ranges::count(names, name) > 0; };
    if (is({"const", "single_use", "same_shape", "same_type", "broadcasts_to", "finite", "never_nan", "number", "ordinary"}))
      return z3_.bool_val(true);
    if (name == "is_float") return z3_.bool_val(domain_.is_real());
    if (name == "is_integer") return z3_.bool_val(domain_.bits > 0);
    if (name == "is_signed") return z3_.bool_val(domain_.is_signed);
    if (name == "is_bool") return z3_.bool_val(domain_.dtype == DType::Bool);
    if (is({"positive", "nonnegative", "nonzero"})) {
      auto x = quantity(e.operands[0]);
      if (!x || x->is_bool()) return unsaid();
      z3::expr zero = number(0);
      return name == "positive" ? less(zero, *x) : name == "nonnegative" ? at_most(zero, *x) : *x != zero;
    }
    if (!is({"==", "!=", "<", "<=", ">", ">="})) return unsaid();
    auto x = quantity(e.operands[0]), y = quantity(e.operands[1]);
    if (!x || !y || x->is_bool() != y->is_bool()) return unsaid();
    if (name == "==") return *x == *y;
    if (name == "!=") return *x != *y;
    if (name == "<") return less(*x, *y);
    if (name == "<=") return at_most(*x, *y);
    return name == ">" ? less(*y, *x) : at_most(*y, *x);
  }

  // value(c), x, 2, value(c) + 1 (of reals: guards do not wrap around).
  std::optional<z3::expr> quantity(const Expression& e) {
    try {
      if (e.kind == Expression::Kind::Node) {
        auto known = variables_.find(name_of(e.slot, false));
        return known == variables_.end() ? std::nullopt : std::optional(known->second);
      }
      if (const bool* truth = std::get_if<bool>(&e.literal); truth && e.kind == Expression::Kind::Literal)
        return z3_.bool_val(*truth);
      if (auto value = rewrite::as_number(e.literal); value && e.kind == Expression::Kind::Literal)
        return number(*value);
      if (e.kind != Expression::Kind::Call) return std::nullopt;
      if (e.function->name == "value") return quantity(e.operands[0]);
      if (!domain_.is_real()) return std::nullopt;
      auto x = e.operands.empty() ? std::nullopt : quantity(e.operands[0]);
      if (x && e.function->name == "negative") return -*x;
      auto y = e.operands.size() < 2 ? std::nullopt : quantity(e.operands[1]);
      if (!x || !y) return std::nullopt;
      if (e.function->name == "+") return *x + *y;
      if (e.function->name == "-") return *x - *y;
      if (e.function->name == "*") return *x * *y;
      if (e.function->name == "/") return *x / *y;
    } catch (NotExpressible) {
    }
    return std::nullopt;
  }

  z3::context& z3_;
  const Domain& domain_;
  const ir::Operator* of_class_;
  std::map<std::string, z3::expr> variables_;
  z3::expr_vector assumptions_;
  std::optional<z3::expr> left_;
  bool assumes_ = false, complete_ = true;
};

// Empty: the rule has no instance in the domain.
std::optional<Proof> prove_in(const Equation& equation, const Domain& domain, const ir::Operator* of_class) {
  z3::context z3;
  std::optional<Translator> translator;
  std::optional<z3::expr> equal;
  try {
    translator.emplace(z3, domain, equation, of_class);
    for (const Term& result : equation.results) {
      z3::expr same = translator->left() == translator->result(result);
      equal = equal ? *equal && same : same;
    }
  } catch (NotExpressible) {
    return std::nullopt;
  }
  z3::solver solver(z3);
  z3::params limits(z3);
  limits.set("rlimit", kMostSteps);
  limits.set("timeout", kMostMilliseconds);
  solver.set(limits);
  for (const z3::expr& assumption : translator->assumptions()) solver.add(assumption);
  if (solver.check() == z3::unsat) return std::nullopt;
  solver.add(!*equal);
  switch (solver.check()) {
    case z3::unsat: return Proof{Proof::Verdict::Proved, std::string(domain.name), ""};
    case z3::unknown: return Proof{Proof::Verdict::Undecided, "", ""};
    case z3::sat: break;
  }
  // Integers wrap around, which [real] allows for.
  bool must_hold = domain.is_real() || domain.dtype == DType::Bool || equation.on_others != Promise::Real;
  if (!must_hold || !translator->is_complete()) return Proof{Proof::Verdict::Undecided, "", ""};
  std::string model;
  for (char c : solver.get_model().to_string()) model += c == '\n' ? ' ' : c;
  return Proof{Proof::Verdict::Refuted, "", fmt::format("{}: {}", domain.name, model)};
}

const Term* find_class(const Term& t) {
  if (t.operator_slot >= 0 && !t.operators.empty()) return &t;
  for (const Term& operand : t.operands) {
    if (const Term* found = find_class(operand)) return found;
  }
  return nullptr;
}

}  // namespace

Proof prove(const Equation& equation) {
  Proof whole;
  if (!equation.also.empty() || equation.beside || equation.group) return whole;  // says of the root only
  const Term* with_class = equation.slots.operators == 1 ? find_class(equation.pattern) : nullptr;
  std::vector<const ir::Operator*> members =
      with_class ? with_class->operators : std::vector<const ir::Operator*>{nullptr};
  for (const Domain& domain : kDomains) {
    bool proved = true, tried = false;
    for (const ir::Operator* member : members) {
      auto proof = prove_in(equation, domain, member);
      if (!proof) continue;
      if (proof->verdict == Proof::Verdict::Refuted) return *proof;
      tried = true;
      proved = proved && proof->verdict == Proof::Verdict::Proved;
    }
    if (!tried) continue;
    if (proved) whole.domains += fmt::format("{}{}", whole.domains.empty() ? "" : " ", domain.name);
    bool first = whole.verdict == Proof::Verdict::NotTried;
    if (first || !proved) whole.verdict = proved ? Proof::Verdict::Proved : Proof::Verdict::Undecided;
  }
  return whole;
}

}  // namespace anfora::rules
