#include "rules/instance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "passes/pass.h"
#include "pipeline/pipelines.h"
#include "rewrite/expression.h"
#include "rules/operands.h"
#include "support/element_types.h"

namespace anfora::rules {

using namespace ir;
using rewrite::Equation;
using rewrite::Expression;
using rewrite::Match;
using rewrite::Quantity;
using rewrite::Term;

namespace {

// Why an attempt ends: what was drawn does not fit together.
struct NoInstance {};

// What a rule says of its variables, and the numbers that its guard has: good guesses for values.
struct Facts {
  struct OfVariable {
    bool constant = false, splat = false, vector = false;
    bool positive = false, bounded = false;
    bool around = false;  // a constant of what is around a term and folded: a value a channel
  };
  std::map<std::pair<bool, int>, OfVariable> variables;  // in a list, slot
  std::vector<double> numbers;
  std::vector<std::vector<int64_t>> lists;

  explicit Facts(const Equation& equation) {
    if (equation.guard) collect(*equation.guard);
    if (equation.group && equation.group->condition) collect(*equation.group->condition);
    for (const Term& result : equation.results) find_folded(result, equation.pattern, false);
  }

 private:
  // What results fold is constant.
  void find_folded(const Term& t, const Term& pattern, bool is_folded) {
    is_folded = is_folded || t.kind == Term::Kind::Folded;
    if (is_folded && t.kind == Term::Kind::Variable) variables[{t.in_list, t.slot}].constant = true;
    if (is_folded && t.kind == Term::Kind::Around) find_around(pattern, t.slot, t.inside, false);
    for (const Term& operand : t.operands) find_folded(operand, pattern, is_folded);
  }
  void find_around(const Term& t, int outermost, int middle, bool is_around) {
    if (t.slot == middle && t.kind != Term::Kind::Either) return;
    is_around = is_around || (t.slot == outermost && t.kind == Term::Kind::Apply);
    if (is_around && t.kind == Term::Kind::Variable) variables[{false, t.slot}] = {.constant = true, .around = true};
    for (const Term& operand : t.operands) find_around(operand, outermost, middle, is_around);
  }
  void collect(const Expression& e) {
    if (e.kind == Expression::Kind::Literal) {
      if (auto number = rewrite::as_number(e.literal)) numbers.push_back(*number);
      if (auto list = rewrite::as_integers(e.literal)) lists.push_back(*list);
    }
    if (e.kind == Expression::Kind::List) {
      std::vector<int64_t> list;
      for (const Expression& item : e.operands) {
        if (auto integer = rewrite::as_integer(item.literal)) list.push_back(*integer);
      }
      if (list.size() == e.operands.size()) lists.push_back(list);
    }
    for (const Expression& operand : e.operands) {
      bool node = operand.kind == Expression::Kind::Node, list = operand.kind == Expression::Kind::NodeList;
      if (e.kind == Expression::Kind::Call && (node || list)) add(e.function->name, variables[{list, operand.slot}]);
      collect(operand);
    }
  }
  static void add(std::string_view function, OfVariable& facts) {
    auto is = [&](std::initializer_list<std::string_view> names) { return std::ranges::count(names, function) > 0; };
    facts.constant |= is({"const", "alike"});
    facts.splat |= function == "value";
    facts.vector |= function == "elements";
    facts.positive |= is({"positive", "nonnegative", "nonzero", "lowest"});
    facts.bounded |= is({"finite", "never_nan", "highest", "lowest"});
  }
};

Tensor splat(const Tensor& scalar, const Shape& shape) {
  Tensor tensor = Tensor::allocate(scalar.dtype(), shape);
  size_t width = element_bytes(scalar.dtype());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    std::memcpy(static_cast<std::byte*>(tensor.raw()) + static_cast<size_t>(i) * width, scalar.raw(), width);
  }
  return tensor;
}

void make_positive(Tensor& tensor) {
  if (!is_float(tensor.dtype()) && !is_signed_integer(tensor.dtype()) && !is_unsigned_integer(tensor.dtype())) return;
  if (is_sub_byte(tensor.dtype()) || element_bits(tensor.dtype()) < 8) return;
  using Any = Join<Numbers, Float8s>;
  if (tensor.dtype() == DType::F8E8M0) return;
  dispatch<Any>(tensor.dtype(), [&]<class T>() {
    for (T& x : tensor.data<T>()) {
      if constexpr (std::is_integral_v<T>) {
        x = x > 0 ? x : T{1};
      } else {
        double wide = static_cast<double>(x);
        bool ordinary = std::isfinite(wide) && wide != 0;
        if constexpr (std::is_same_v<T, double>) {
          x = ordinary ? std::abs(wide) : 1.0;
        } else {
          x = static_cast<T>(ordinary ? std::abs(static_cast<float>(wide)) : 1.0f);
        }
      }
    }
  });
}

// The root is the result, or the first of them where the rule replaces several.
Apply* root_of(const Module& module) {
  Apply* result = module.main()->result()->as_apply();
  return result && result->primitive() == Primitive::MakeTuple ? result->input(0)->as_apply() : result;
}

// Where a repeated term stands: which of its repetitions is being made.
struct Operand {
  const Term* term;
  size_t repetition;
};

class Maker {
 public:
  Maker(const Equation& equation, Context& context, const Constants& constants, Draw& draw)
      : equation_(equation),
        facts_(equation),
        constants_(constants),
        draw_(draw),
        module_(std::make_unique<Module>(context)),
        inference_(*module_),
        rewriter_(*module_, inference_),
        match_(equation.slots) {}

  Instance make() {
    graph_ = module_->make_graph("main");
    module_->set_main(graph_);
    Want want;
    static constexpr int kRanks[] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4};
    want.shape = random_shape(draw_, draw_.of(kRanks));
    std::vector<Node*> results{term(equation_.pattern, want)};
    if (equation_.group) add_members(results, want);
    if (equation_.beside) results.push_back(beside(*equation_.beside));
    for (const auto& replaced : equation_.also) {
      if (Node* node = match_.nodes[static_cast<size_t>(replaced.slot)]) add_results_of(node, results);
    }
    module_->set_result(graph_, results.size() == 1 ? results[0] : module_->make_tuple(graph_, results));
    canonicalize();
    Apply* root = root_of(*module_);
    if (!root) throw NoInstance();
    module_->set_name(root, "root");
    return {std::move(module_), root, std::move(bounds_), {}};
  }

 private:
  Node* term(const Term& t, const Want& want) {
    switch (t.kind) {
      case Term::Kind::Wildcard: return value(want, {});
      case Term::Kind::Variable: return variable(t, want);
      case Term::Kind::Number: return number(t, want);
      case Term::Kind::None: return module_->none();
      case Term::Kind::Apply: return application(t, want, std::nullopt);
      case Term::Kind::Either: return term(draw_.of(t.operands), want);
      case Term::Kind::Item: return item(t, want);
      case Term::Kind::Computed:
      case Term::Kind::Around:
      case Term::Kind::Tuple:
      case Term::Kind::Folded: break;
    }
    throw NoInstance();
  }

  // Other applications of the same operand and attributes.
  void add_members(std::vector<Node*>& results, const Want& want) {
    const auto through = static_cast<size_t>(equation_.group->through);
    const int others = draw_.between(1, 2);
    for (int i = 0; i < others; ++i) {
      Node* shared = match_.nodes[through];
      std::ranges::fill(match_.nodes, nullptr);
      match_.nodes[through] = shared;
      results.push_back(term(equation_.pattern, want));
    }
  }

  // A result of an application of the shared operand, as large as what the pattern makes of that.
  Node* beside(const Equation::Beside& beside) {
    const Node* shared = match_.nodes[static_cast<size_t>(beside.through)];
    if (!shared || !shared->has_uses()) throw NoInstance();
    const size_t num_outputs = operator_of(beside.term).outputs.size(), item = draw_.below(num_outputs);
    const Type* type = shared->uses().begin()->user->type();
    if (type && type->is_tuple()) type = type->element(std::min(item, type->elements().size() - 1));
    auto shape = type && type->is_tensor() ? type->static_shape() : std::nullopt;
    if (!shape) throw NoInstance();
    Want want;
    want.shape = *shape;
    if (num_outputs < 2) return application(beside.term, want, std::nullopt);
    return item_of(application(beside.term, want, item), item);
  }

  // Others may read what is replaced together with the root.
  void add_results_of(Node* node, std::vector<Node*>& results) {
    const size_t count = node->type() && node->type()->is_tuple() ? node->type()->elements().size() : 1;
    for (size_t i = 0; i < count; ++i) {
      if (draw_.percent(40)) results.push_back(node->type()->is_tuple() ? item_of(node, i) : node);
    }
  }

  // Rules see modules in canonical form.
  void canonicalize() {
    rewrite::Remarks remarks;
    passes::PassOptions options;
    passes::PassContext pass(*module_, remarks, options);
    pass.inference.run();
    if (pipeline::get_pass("canonicalize").run(pass) > 0) analysis::infer_types(*module_);
  }

  // Leaves -------------------------------------------------------------------------------------------------------
  const Facts::OfVariable& facts_of(const Term& t) const {
    static const Facts::OfVariable kNone;
    auto found = facts_.variables.find({t.in_list, t.slot});
    return found == facts_.variables.end() ? kNone : found->second;
  }

  Node* variable(const Term& t, const Want& want) {
    if (t.in_list) {
      rewrite::Nodes& list = match_.lists[static_cast<size_t>(t.slot)];
      if (!full_lists_.contains(t.slot)) list.push_back(value(want, facts_of(t)));
      if (repetition_ >= list.size()) throw NoInstance();
      return list[repetition_];
    }
    Node*& node = match_.nodes[static_cast<size_t>(t.slot)];
    if (!node) node = value(want, facts_of(t));
    return node;
  }

  static bool is_common(DType dtype) {
    return dtype == DType::Bool || (is_integer(dtype) && !is_sub_byte(dtype)) ||
           (is_float(dtype) && element_bits(dtype) >= 16);
  }

  DType draw_dtype(const std::vector<DType>* allowed) {
    static const std::vector<DType> kAny = {DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8,
                                            DType::U8,  DType::I32, DType::I64, DType::U32, DType::U64,  DType::Bool};
    if (!allowed || allowed->empty()) return draw_.of(kAny);
    bool has_f32 = std::ranges::count(*allowed, DType::F32) > 0;
    if (has_f32 && draw_.percent(35)) return DType::F32;
    std::vector<DType> common;
    std::ranges::copy_if(*allowed, std::back_inserter(common), is_common);
    return common.empty() || draw_.percent(5) ? draw_.of(*allowed) : draw_.of(common);
  }

  Node* value(Want want, const Facts::OfVariable& facts) {
    if (want.dtype == DType::Undefined) want.dtype = draw_dtype(want.allowed);
    if (want.values) return integers(want);
    bool heeds = draw_.percent(85);
    if (heeds && facts.vector && is_integer(want.dtype)) return small_integers(want);
    if (heeds && facts.splat) return guessed_number(want);
    if (want.broadcasts && facts.around && draw_.percent(80)) {
      for (size_t i = 0; i < want.shape.size(); ++i) want.shape[i] = i == 1 ? want.shape[i] : 1;
    } else if (want.broadcasts) {
      want.shape = draw_.percent(50) ? want.shape : narrower_shape(draw_, want.shape);
    }
    bool ranged = facts.positive || facts.bounded;
    bool constant = heeds ? facts.constant || (ranged && draw_.percent(50)) : draw_.percent(30);
    if (constant) {
      Values values = is_float(want.dtype) ? constants_.floats : constants_.others;
      Tensor tensor = random_tensor(want.dtype, want.shape, facts.bounded ? Values::Normal : values, draw_,
                                    want.bounds ? &*want.bounds : nullptr);
      const bool is_zero = facts.positive && facts.bounded && draw_.percent(50);
      if (is_zero) tensor = Tensor::zeros(want.dtype, want.shape);
      if (!is_zero && (facts.positive || (facts.around && draw_.percent(50)))) make_positive(tensor);
      return module_->constant(std::move(tensor));
    }
    Parameter* parameter = module_->add_parameter(graph_, module_->context().tensor_type(want.dtype, want.shape));
    if (want.bounds) bounds_[parameter->index()] = *want.bounds;
    return ranged && heeds ? in_range(parameter) : parameter;
  }

  // A value of which range analysis knows something.
  Node* in_range(Parameter* parameter) {
    auto one = rewrite::scalar_of(parameter->type()->dtype(), 1);
    if (one && draw_.percent(40)) {
      return applied(module_->context().get_operator("Max"), {parameter, module_->constant(*one)}, {}, 1);
    }
    static const std::vector<const char*> kPositive = {"Exp", "Abs", "Sigmoid", "Relu", "Softplus"};
    return applied(module_->context().get_operator(draw_.of(kPositive)), {parameter}, {}, 1);
  }

  Node* integers(const Want& want) {
    Tensor tensor = Tensor::allocate(want.dtype, want.shape);
    if (static_cast<size_t>(tensor.size()) != want.values->size()) throw NoInstance();
    using Any = Join<Numbers, TypeList<bool>>;
    if (!is_common(want.dtype)) throw NoInstance();
    dispatch<Any>(want.dtype, [&]<class T>() {
      std::ranges::transform(*want.values, tensor.data<T>().begin(),
                             [](int64_t i) { return static_cast<T>(static_cast<ComputeType<T>>(i)); });
    });
    return module_->constant(std::move(tensor));
  }

  Node* small_integers(Want want) {
    std::vector<int64_t> list;
    if (!facts_.lists.empty() && draw_.percent(40)) {
      list = draw_.of(facts_.lists);
      want.shape = {static_cast<int64_t>(list.size())};
    } else {
      for (int64_t i = 0; i < element_count(want.shape); ++i) list.push_back(draw_.between(-1, 3));
    }
    want.values = std::move(list);
    return integers(want);
  }

  Shape shape_of_number(const Want& want) {
    bool full = want.values || (!want.broadcasts && !want.is_small);
    if (full || draw_.percent(20)) return want.shape;  // a list of sizes or axes is nothing else
    return draw_.percent(70) ? Shape{} : narrower_shape(draw_, want.shape);
  }

  Node* guessed_number(const Want& want) {
    static constexpr double kGuesses[] = {0, 1, 2, -1, 0.5, 3, -2, 1.5, 0.044715};
    bool from_guard = !facts_.numbers.empty() && draw_.percent(50);
    auto scalar = rewrite::scalar_of(want.dtype, from_guard ? draw_.of(facts_.numbers) : draw_.of(kGuesses));
    if (!scalar) throw NoInstance();
    return module_->constant(splat(*scalar, shape_of_number(want)));
  }

  Node* number(const Term& t, Want want) {
    if (want.dtype == DType::Undefined) want.dtype = draw_dtype(want.allowed);
    double value = t.number;
    if (t.approximate) value *= 1 + 4e-6 * static_cast<double>(draw_.between(-1, 1));
    auto scalar = rewrite::scalar_of(want.dtype, value);
    if (!scalar) throw NoInstance();
    want.is_small = true;
    return module_->constant(splat(*scalar, shape_of_number(want)));
  }

  // Applications -------------------------------------------------------------------------------------------------
  Node* item(const Term& t, const Want& want) {
    Node* tuple = application(t.operands[0], want, static_cast<size_t>(t.index));
    Node* result = item_of(tuple, static_cast<size_t>(t.index));
    if (t.slot >= 0) match_.nodes[static_cast<size_t>(t.slot)] = result;
    return result;
  }

  Node* item_of(Node* tuple, size_t index) {
    Node* item = module_->tuple_item(graph_, tuple, index);
    if (Apply* apply = item->as_apply(); apply && !apply->type()) inference_.infer(*apply);
    return item;
  }

  const Operator& operator_of(const Term& t) {
    if (t.operator_slot < 0) return *t.operators[0];
    const Operator*& bound = match_.operators[static_cast<size_t>(t.operator_slot)];
    if (!bound) bound = draw_.of(t.operators);
    return *bound;
  }

  static const TypeVariable* find_variable(const Operator& op, std::string_view name) {
    auto found = std::ranges::find(op.variables, name, &TypeVariable::name);
    return found == op.variables.end() ? nullptr : &*found;
  }
  template <class Formals>
  static const Formal& formal_of(const Formals& formals, size_t index) {
    if (formals.empty()) throw NoInstance();
    if (index >= formals.size() && formals.back().arity != Formal::Arity::Variadic) throw NoInstance();
    return formals[std::min(index, formals.size() - 1)];
  }

  // Element types of an operator's type variables, as far as they are decided.
  using TypeValues = std::map<std::string, DType, std::less<>>;

  // The application's own element type, drawn where nobody asks for one.
  DType result_dtype(const Operator& op, const Want& want, size_t item, TypeValues& types) {
    const Formal& formal = formal_of(op.outputs, item);
    const TypeVariable* variable = find_variable(op, formal.type);
    if (!variable) {
      auto fixed = dtype_from_name(formal.type);
      bool fits = fixed && (want.dtype == DType::Undefined || want.dtype == *fixed);
      if (!fits) throw NoInstance();
      return *fixed;
    }
    DType dtype = want.dtype != DType::Undefined ? want.dtype : draw_dtype(&variable->dtypes);
    bool takes = variable->dtypes.empty() || std::ranges::count(variable->dtypes, dtype) > 0;
    if (!takes) throw NoInstance();
    types[formal.type] = dtype;
    return dtype;
  }

  std::optional<AttributeValue> attribute(const Application& a, const rewrite::AttributeTerm& term) {
    const AttributeDeclaration* declared = a.op.find_attribute(term.name);
    if (!declared) throw NoInstance();
    rewrite::Scope scope(rewriter_, match_);
    if (term.binds < 0) return rewrite::to_attribute(evaluate(term.value, scope), declared->kind);
    Quantity& slot = match_.quantities[static_cast<size_t>(term.binds)];
    if (!rewrite::is_known(slot)) {
      bool from_guard =
          declared->kind == AttributeDeclaration::Kind::Int && !facts_.numbers.empty() && draw_.percent(20);
      auto value =
          from_guard ? rewrite::to_attribute(draw_.of(facts_.numbers), declared->kind) : choose_attribute(a, *declared);
      if (value) slot = rewrite::from_attribute(*value);
    }
    return rewrite::to_attribute(slot, declared->kind);
  }

  void choose_attributes(Application& a, const Term& t) {
    for (const rewrite::AttributeTerm& term : t.attributes) {
      auto value = attribute(a, term);
      if (!value) throw NoInstance();
      a.attributes[term.name] = std::move(*value);
    }
    if (t.rest < 0) return;
    auto [rest, is_new] = rests_.try_emplace(t.rest);
    for (const AttributeDeclaration& declared : a.op.attributes) {
      bool given = a.attributes.contains(declared.name);
      if (!is_new || given || (!declared.required && draw_.percent(65))) continue;
      if (auto value = choose_attribute(a, declared)) rest->second[declared.name] = std::move(*value);
    }
    a.attributes.insert(rest->second.begin(), rest->second.end());
  }

  static AttributeSet attributes_of(const Application& a) {
    std::vector<AttributeSet::Entry> entries;
    for (const auto& [name, value] : a.attributes) {
      const AttributeDeclaration* declared = a.op.find_attribute(name);
      bool is_default = declared && declared->otherwise && identical(*declared->otherwise, value);
      if (!is_default) entries.emplace_back(name, value);
    }
    return AttributeSet(std::move(entries));
  }

  void lists_in(const Term& t, std::set<int>& slots) const {
    if (t.kind == Term::Kind::Variable && t.in_list) slots.insert(t.slot);
    for (const Term& operand : t.operands) lists_in(operand, slots);
  }

  // The operands as they are written out: repeated terms a random number of times, optional ones present or not.
  std::vector<Operand> written_out(const Term& t) {
    std::vector<Operand> operands;
    for (const Term& operand : t.operands) {
      size_t times = 1;
      if (operand.repeated) {
        bool can_be_none = operand.kind == Term::Kind::Variable;
        times = (is_bare_ ? 0 : draw_.below(3)) + (can_be_none ? 0 : 1);
        std::set<int> slots;
        lists_in(operand, slots);
        for (int slot : slots) {
          if (full_lists_.contains(slot)) times = match_.lists[static_cast<size_t>(slot)].size();
        }
      }
      bool bound =
          operand.kind == Term::Kind::Variable && !operand.in_list && match_.nodes[static_cast<size_t>(operand.slot)];
      bool absent = operand.optional && !bound && (is_bare_ || absent_.contains(operand.slot) || draw_.percent(40));
      if (absent) absent_.insert(operand.slot);
      for (size_t i = 0; i < times; ++i) operands.push_back({absent ? nullptr : &operand, i});
    }
    auto is_left_out = [](const Operand& o) { return !o.term || o.term->kind == Term::Kind::None; };
    while (!operands.empty() && is_left_out(operands.back())) operands.pop_back();
    return operands;
  }

  // Draws everything but the operands themselves.
  Application draft(const Term& t, const Operator& op, const Want& want, std::optional<size_t> item,
                    std::span<const Operand> operands, TypeValues& types) {
    Application a{op, want.shape, DType::Undefined, item.value_or(0), {}, {}, draw_};
    Want typed = want;
    if (want.dtype == DType::Undefined) typed.dtype = stated_dtype(t);
    a.dtype = result_dtype(op, typed, a.item, types);
    a.operands.resize(operands.size());
    choose_attributes(a, t);
    for (size_t i = 0; i < operands.size(); ++i) {
      const Term* term = operands[i].term;
      const std::string& type = formal_of(op.inputs, i).type;
      Want& operand = a.operands[i];
      if (const TypeVariable* variable = find_variable(op, type)) {
        operand.allowed = &variable->dtypes;
        bool is_bound = term && term->kind == Term::Kind::Variable && !term->in_list &&
                        match_.nodes[static_cast<size_t>(term->slot)];
        if (is_bound) {
          const Type* bound = match_.nodes[static_cast<size_t>(term->slot)]->type();
          types.emplace(type, bound->dtype());
          operand.bound = bound->static_shape();
        }
      } else if (auto fixed = dtype_from_name(type)) {
        operand.dtype = *fixed;
      }
      bool literal = term && term->kind == Term::Kind::Number;
      operand.is_small = literal || (term && term->kind == Term::Kind::Variable && facts_of(*term).splat);
    }
    if (!choose_operands(a)) throw NoInstance();
    return a;
  }

  // {to=f32}: the element type that the pattern itself states.
  static DType stated_dtype(const Term& t) {
    for (const rewrite::AttributeTerm& a : t.attributes) {
      bool states = a.binds < 0 && (a.name == "to" || a.name == "dtype") && a.value.kind == Expression::Kind::Literal;
      if (auto number = states ? rewrite::as_integer(a.value.literal) : std::nullopt)
        return static_cast<DType>(*number);
    }
    return DType::Undefined;
  }

  Node* application(const Term& t, const Want& want, std::optional<size_t> item) {
    const Operator& op = operator_of(t);
    std::vector<Operand> operands = written_out(t);
    if (t.flattened) return tree(t, op, want, operands);
    TypeValues types;
    Application a = draft(t, op, want, item, operands, types);
    std::vector<Node*> nodes;
    for (size_t i = 0; i < operands.size(); ++i) {
      Want& wanted = a.operands[i];
      const std::string& type = formal_of(op.inputs, i).type;
      if (auto known = types.find(type); known != types.end() && wanted.dtype == DType::Undefined)
        wanted.dtype = known->second;
      nodes.push_back(operand(operands[i], wanted));
      const Type* made = nodes.back()->type();
      if (made && made->is_tensor() && find_variable(op, type)) types.emplace(type, made->dtype());
    }
    mark_full(t);
    if (nodes.size() == 2 && op.commutative && draw_.percent(50)) std::swap(nodes[0], nodes[1]);
    const bool is_first = !item && t.any_results && op.outputs.size() > 1 && draw_.percent(50);
    Apply* apply = applied(op, nodes, attributes_of(a), item || is_first ? num_outputs(a) : 1);
    if (t.slot >= 0) match_.nodes[static_cast<size_t>(t.slot)] = apply;
    return is_first ? item_of(apply, 0) : apply;
  }

  Node* operand(const Operand& o, const Want& want) {
    if (!o.term) return module_->none();
    size_t outer = std::exchange(repetition_, o.term->repeated ? o.repetition : repetition_);
    Node* node = term(*o.term, want);
    repetition_ = outer;
    return node;
  }

  void mark_full(const Term& t) {
    for (const Term& operand : t.operands) {
      if (operand.repeated) lists_in(operand, full_lists_);
    }
  }

  static size_t num_outputs(const Application& a) {
    size_t count = std::max<size_t>(a.item + 1, 2);
    if (auto outputs = a.get_int("num_outputs", 0); outputs > 0) count = static_cast<size_t>(outputs);
    if (a.op.qualified == "Split" && a.has(1) && a.operands[1].values) count = a.operands[1].values->size();
    bool variadic = !a.op.outputs.empty() && a.op.outputs.back().arity == Formal::Arity::Variadic;
    return variadic ? count : std::max(count, a.op.outputs.size());
  }

  // Add*(…): a tree of some form, its leaves in some order.
  Node* tree(const Term& t, const Operator& op, const Want& want, std::vector<Operand>& operands) {
    TypeValues types;
    Term plain = t;
    plain.attributes.clear();
    Application a = draft(plain, op, want, std::nullopt, {}, types);
    std::vector<Node*> nodes;
    for (const Operand& o : operands) {
      Want wanted;
      wanted.dtype = a.dtype;
      wanted.shape = want.shape;
      wanted.broadcasts = draw_.percent(50);
      nodes.push_back(operand(o, wanted));
    }
    mark_full(t);
    for (size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[draw_.below(i)]);
    if (nodes.size() < 2) throw NoInstance();
    while (nodes.size() > 1) {
      size_t at = draw_.below(nodes.size() - 1);
      nodes[at] = applied(op, std::vector<Node*>{nodes[at], nodes[at + 1]}, {}, 1);
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return nodes[0];
  }

  Apply* applied(const Operator& op, std::span<Node* const> nodes, const AttributeSet& attributes, size_t outputs) {
    Apply* apply = module_->apply(graph_, op, nodes, attributes, outputs);
    inference_.infer(*apply);
    return apply;
  }
  Apply* applied(const Operator& op, std::initializer_list<Node*> nodes, const AttributeSet& attributes,
                 size_t outputs) {
    return applied(op, std::span<Node* const>(nodes.begin(), nodes.size()), attributes, outputs);
  }

  const Equation& equation_;
  Facts facts_;
  Constants constants_;
  Draw& draw_;
  std::unique_ptr<Module> module_;
  analysis::Inference inference_;
  rewrite::Rewriter rewriter_;
  Match match_;
  Graph* graph_ = nullptr;
  std::map<size_t, Bounds> bounds_;
  std::set<int> full_lists_, absent_;
  std::map<int, std::map<std::string, AttributeValue>> rests_;  // what ..a stands for, by its slot
  size_t repetition_ = 0;
  // No optional operands, so that several applications that become one are alike.
  const bool is_bare_ = (equation_.beside || !equation_.also.empty()) && draw_.percent(25);
};

}  // namespace

std::optional<Instance> make_instance(const Equation& equation, Context& context, const Constants& constants,
                                      Draw& draw) {
  try {
    return Maker(equation, context, constants, draw).make();
  } catch (NoInstance) {
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Internal) throw;
    return std::nullopt;
  }
}

std::optional<Instance> with_symbols(const Instance& instance, Draw& draw) {
  std::unique_ptr<Module> module = clone(*instance.module);
  std::map<std::string, int64_t> sizes;
  Context& context = module->context();
  std::set<int64_t> symbolic;
  for (int64_t extent = 0; extent <= 4; ++extent) {
    if (draw.percent(35)) symbolic.insert(extent);
  }
  for (Parameter* parameter : module->main()->parameters()) {
    std::vector<Dim> dims;
    for (Dim dim : parameter->type()->dims()) {
      bool is_symbol = symbolic.contains(dim.constant());
      std::string name = is_symbol ? "N" + std::to_string(dim.constant()) : "";
      if (is_symbol) sizes[name] = dim.constant();
      dims.push_back(is_symbol ? context.dims().symbol(name) : dim);
    }
    parameter->set_type(context.tensor_type(parameter->type()->dtype(), dims));
  }
  if (sizes.empty()) return std::nullopt;
  try {
    analysis::infer_types(*module);
  } catch (const Error&) {
    return std::nullopt;
  }
  Apply* root = root_of(*module);
  return Instance{std::move(module), root, instance.bounds, std::move(sizes)};
}

}  // namespace anfora::rules
