#include "rewrite/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/evaluate.h"
#include "anfora/error.h"
#include "kernels/reference/arguments.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/weights.h"
#include "support/deferred_elements.h"
#include "support/element_types.h"
#include "support/mapped_file.h"

namespace anfora::rewrite {

using namespace ir;

std::optional<Tensor> scalar_of(DType dtype, double number) {
  if (dtype == DType::Bool) {
    if (number != 0 && number != 1) return std::nullopt;
    return Tensor::scalar<bool>(number != 0);
  }
  bool is_wide_float = is_float(dtype) && element_bits(dtype) >= 16;
  if (!is_wide_float && (!is_integer(dtype) || element_bits(dtype) < 8)) return std::nullopt;
  return dispatch<Numbers>(dtype, [&]<class T>() -> std::optional<Tensor> {
    using Compute = ComputeType<T>;
    if constexpr (std::is_integral_v<Compute>) {
      bool fits = std::floor(number) == number && number >= static_cast<double>(std::numeric_limits<Compute>::min()) &&
                  number < std::ldexp(1.0, std::numeric_limits<Compute>::digits);
      if (!fits) return std::nullopt;
    }
    return Tensor::scalar<T>(static_cast<T>(static_cast<Compute>(number)));
  });
}

namespace {

// Elements of weights that are folded at a time.
constexpr int64_t kBlock = 1 << 13;
constexpr const char* kNotConstant = "what is to be folded is not constant";
constexpr const char* kNotFinite = "a constant would not be finite";

const TypeVariable* find_variable(const Operator& op, std::string_view name) {
  auto found = std::ranges::find(op.variables, name, &TypeVariable::name);
  return found == op.variables.end() ? nullptr : &*found;
}

const Formal* formal_of(const Operator& op, size_t input) {
  if (op.inputs.empty()) return nullptr;
  if (input < op.inputs.size()) return &op.inputs[input];
  return op.inputs.back().arity == Formal::Arity::Variadic ? &op.inputs.back() : nullptr;
}

DType dtype_of(const Node* node) {
  return node && node->type() && node->type()->is_tensor() ? node->type()->dtype() : DType::Undefined;
}

class Maker {
 public:
  Maker(const Scope& scope, Match& match, std::string& refusal) : scope_(scope), match_(match), refusal_(refusal) {}

  Node* result(const Term& t) {
    // Asked of all of it first: folding weights takes time.
    return folds_constants(t) ? term(t) : refuse(kNotConstant);
  }

  bool failed() const { return !refusal_.empty(); }

 private:
  Node* term(const Term& t) {
    switch (t.kind) {
      case Term::Kind::Variable:
        return t.in_list ? scope_.match.lists[static_cast<size_t>(t.slot)][repetition_]
                         : scope_.match.nodes[static_cast<size_t>(t.slot)];
      case Term::Kind::Number: return number(t, dtype_of(&scope_.root()));
      case Term::Kind::Apply:
        if (t.is_of_group) return application(t, match_.group_size);
        return application(t, t.num_results > 0 || t.any_results ? num_results(t) : 1);
      case Term::Kind::Around: return around(t);
      case Term::Kind::Item: return item(t);
      case Term::Kind::Computed: return computed(t);
      case Term::Kind::Folded: return folded(t);
      default: return nullptr;
    }
  }

  using Operands = boost::container::small_vector<Node*, 4>;

  Node* refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
    return nullptr;
  }

  Node* number(const Term& t, DType dtype) {
    auto scalar = scalar_of(dtype, t.number);
    if (!scalar) return refuse(fmt::format("{} has no {}", anfora::name(dtype), t.number));
    return scope_.rewriter.constant(std::move(*scalar));
  }

  Node* computed(const Term& t) {
    Quantity value = evaluate(t.value, scope_);
    if (Node* node = as_node(value)) return node;
    if (auto integers = as_integers(value)) return scope_.rewriter.integers(*integers);
    if (const Tensor* tensor = std::get_if<Tensor>(&value)) return scope_.rewriter.constant(*tensor);
    return refuse("a value that the result needs is not known");
  }

  // As those of the pattern have.
  size_t num_matched(const Operator& op) const {
    size_t most = 1;
    for (const Apply* apply : match_.applications) {
      if (&apply->op() == &op) most = std::max(most, apply->num_outputs());
    }
    return most;
  }

  // How many results an application has of which one is wanted: as many as that of the root, or as are declared.
  size_t num_outputs(const Term& t) const {
    if (t.operators.size() != 1) return 1;
    const Operator& op = *t.operators[0];
    const Apply* get = scope_.root().primitive() == Primitive::TupleGetItem ? &scope_.root() : nullptr;
    const Apply* whole = get ? get->input(0)->as_apply() : nullptr;
    return whole && &whole->op() == &op ? whole->num_outputs() : op.outputs.size();
  }

  // Of an application with a name: those that the rule asks for, and those that there always are.
  size_t num_results(const Term& t) const {
    if (t.any_results) return std::max(t.num_results, num_matched(operator_of(t)));
    if (t.operators.size() != 1) return t.num_results;
    const auto required = std::ranges::count(t.operators[0]->outputs, Formal::Arity::Required, &Formal::arity);
    return std::max(t.num_results, static_cast<size_t>(required));
  }

  Node* item(const Term& t) {
    const Term& of = t.operands[0];
    const bool is_counted = of.kind == Term::Kind::Apply && of.num_results == 0 && !of.any_results;
    Node* tuple = is_counted ? application(of, num_outputs(of)) : term(of);
    if (!tuple || failed()) return nullptr;
    if (tuple->type() && tuple->type()->is_tensor()) return tuple;  // the only one
    return scope_.rewriter.item(tuple, static_cast<size_t>(t.index));
  }

  // What the pattern has around a node, with another one in its place.
  Node* around(const Term& t) {
    Node* middle = term(t.operands[0]);
    Node* outermost = outermost_of(t);
    if (!outermost || !middle || failed()) return middle;
    return rebuilt(outermost, middle_of(t), middle);
  }
  // Null where there is nothing around it.
  Node* outermost_of(const Term& t) const { return match_.nodes[static_cast<size_t>(t.slot)]; }
  Node* middle_of(const Term& t) const { return match_.nodes[static_cast<size_t>(t.inside)]; }
  bool is_matched(const Apply& apply) const {
    return std::ranges::find(match_.applications, &apply) != match_.applications.end();
  }
  Node* rebuilt(Node* node, const Node* middle, Node* replacement) {
    if (node == middle) return replacement;
    Apply* apply = node->as_apply();
    if (!apply || !is_matched(*apply)) return node;
    Operands operands;
    bool same = true;
    for (const Use& use : apply->operands()) {
      operands.push_back(rebuilt(use.node, middle, replacement));
      if (failed()) return nullptr;
      same = same && operands.back() == use.node;
    }
    return same ? node : make(apply->op(), operands, apply->attributes(), apply->num_outputs());
  }

  // Constants ---------------------------------------------------------------------------------------------------------

  // folded(t, dtype): floats are f64 on the way, and rounded once. Nothing where t is absent.
  Node* folded(const Term& t) {
    const auto dtype = as_integer(evaluate(t.value, scope_));
    if (!dtype) return refuse("the element type of a constant is not known");
    if (!is_of_constants(t.operands[0])) return refuse(kNotConstant);  // of what the result names, which was not there before
    try {
      if (std::optional<Tensor> moved = moved_weights(t.operands[0], static_cast<DType>(*dtype))) {
        return scope_.rewriter.constant(*std::move(moved));
      }
      std::optional<Tensor> by_blocks = value_by_blocks(t.operands[0], static_cast<DType>(*dtype));
      const Datum value = by_blocks ? *std::move(by_blocks) : value_of(t.operands[0]);
      if (value.is_none()) return nullptr;
      Tensor rounded = kernels::cast_tensor(value.tensor(), static_cast<DType>(*dtype));
      if (!by_blocks && !kernels::is_finite(rounded)) return refuse(kNotFinite);
      return scope_.rewriter.constant(std::move(rounded));
    } catch (const Error& error) {
      return refuse(error.message());
    }
  }

  bool folds_constants(const Term& t) const {
    if (t.kind == Term::Kind::Folded) return is_of_constants(t.operands[0]);
    return std::ranges::all_of(t.operands, [&](const Term& operand) { return folds_constants(operand); });
  }
  // Asked of the whole term before anything is computed.
  bool is_of_constants(const Term& t) const {
    if (t.kind == Term::Kind::Variable) return is_constant(scope_.match.nodes[static_cast<size_t>(t.slot)], nullptr);
    // x · x has x in the middle, too, but is no map s·x + t.
    if (t.kind == Term::Kind::Around && outermost_of(t) &&
        (!is_constant(outermost_of(t), middle_of(t)) || occurrences(outermost_of(t), middle_of(t)) != 1)) {
      return false;
    }
    return std::ranges::all_of(t.operands, [&](const Term& operand) { return is_of_constants(operand); });
  }
  static bool is_none(const Node& node) { return node.as_value() && node.as_value()->is_none(); }
  size_t occurrences(const Node* node, const Node* middle) const {
    if (node == middle) return 1;
    const Apply* apply = node ? node->as_apply() : nullptr;
    if (!apply || !is_matched(*apply)) return 0;
    size_t count = 0;
    for (const Use& use : apply->operands()) count += occurrences(use.node, middle);
    return count;
  }
  // … but for what is in the middle.
  bool is_constant(const Node* node, const Node* middle) const {
    if (!node || node == middle || constant_tensor(node) || is_none(*node)) return true;
    const Apply* apply = node->as_apply();
    return middle && apply && is_matched(*apply) &&
           std::ranges::all_of(apply->operands(), [&](const Use& use) { return is_constant(use.node, middle); });
  }

  // What Reshape, Transpose and Slice make of large weights, without another copy of them. Empty: it is something else.
  std::optional<Tensor> moved_weights(const Term& t, DType dtype) {
    const std::optional<MovedWeights> result = t.kind == Term::Kind::Apply ? movement_of(t) : std::nullopt;
    if (!result || result->shape.empty() || result->weights->dtype() != dtype) return std::nullopt;
    if (!kernels::is_finite(*result->weights)) return finite(std::nullopt);
    return kernels::moved_elements(*result->weights, result->view, result->shape);
  }
  struct MovedWeights {
    const Tensor* weights;
    kernels::StridedView view;
    Shape shape;  // another one than the view's: a Reshape was last that no strides can say
  };
  std::optional<MovedWeights> movement_of(const Term& t) {
    if (t.kind == Term::Kind::Variable && !t.in_list) {
      const Tensor* weights = constant_tensor(scope_.match.nodes[static_cast<size_t>(t.slot)]);
      if (!weights || weights->size() <= kBlock || !is_float(weights->dtype()) || is_sub_byte(weights->dtype())) return std::nullopt;
      return MovedWeights{weights, kernels::StridedView::dense(weights->shape()), weights->shape()};
    }
    if (t.kind != Term::Kind::Apply || t.flattened) return std::nullopt;
    const Operator& op = operator_of(t);
    const bool is_reshape = op.name == "Reshape";
    if (!is_reshape && op.movement != Movement::Permutation && op.movement != Movement::Slice) return std::nullopt;
    std::optional<MovedWeights> moved = movement_of(t.operands[0]);
    if (!moved || (!is_reshape && moved->view.shape != moved->shape)) return std::nullopt;
    boost::container::small_vector<Tensor, 4> arguments;
    for (size_t i = 1; i < t.operands.size(); ++i) {
      const Datum value = value_of(t.operands[i]);
      arguments.push_back(value.is_none() ? Tensor() : value.tensor());
    }
    const auto argument = [&](size_t i) { return i < arguments.size() && arguments[i].defined() ? &arguments[i] : nullptr; };
    const AttributeSet attributes = attributes_of(t, op).value_or(AttributeSet());
    if (is_reshape) {
      moved->shape = kernels::reshaped_to(moved->shape, kernels::integers(*argument(0)), attributes.get_int("allowzero", 0) != 0);
      if (auto view = moved->view.reshaped(moved->shape)) moved->view = *std::move(view);
      return moved;
    }
    if (op.movement == Movement::Slice) {
      moved->view = moved->view.sliced(*argument(0), *argument(1), argument(2), argument(3));
    } else {
      const std::span<const int64_t> perm = attributes.ints("perm");
      moved->view = moved->view.permuted(perm.empty() ? std::nullopt : std::optional(perm));
    }
    moved->shape = moved->view.shape;
    return moved;
  }

  // What an operator that works element by element makes of large weights, some rows at a time: what is f64 on the way then stays in the
  // cache. Empty: it is none such, or has another shape than the weights.
  std::optional<Tensor> value_by_blocks(const Term& t, DType dtype) {
    if (t.kind != Term::Kind::Apply || t.flattened || operator_of(t).fusion != FusionKind::Broadcast) return std::nullopt;
    const Tensor* large = nullptr;
    boost::container::small_vector<const Tensor*, 2> leaves;
    for (const Term& operand : t.operands) {
      const bool is_leaf = operand.kind == Term::Kind::Variable && !operand.in_list;
      leaves.push_back(is_leaf ? constant_tensor(scope_.match.nodes[static_cast<size_t>(operand.slot)]) : nullptr);
      if (leaves.back() && leaves.back()->size() > (large ? large->size() : kBlock)) large = leaves.back();
    }
    if (!large || large->rank() == 0 || !is_float(large->dtype())) return std::nullopt;
    boost::container::small_vector<Tensor, 2> operands;
    for (size_t i = 0; i < leaves.size(); ++i) {
      const bool is_by_rows = leaves[i] && std::ranges::equal(leaves[i]->shape(), large->shape());
      const Datum value = is_by_rows ? Datum(*leaves[i]) : value_of(t.operands[i]);
      if (value.is_none()) return std::nullopt;
      operands.push_back(value.tensor());
    }
    const Operator& op = operator_of(t);
    // What most large weights are multiplied by needs no pass over them in f64.
    if (op.name == "Mul" && operands.size() == 2 && large->dtype() == DType::F32 && dtype == DType::F32) {
      const Tensor& factors = operands[leaves[0] == large ? 1 : 0];
      if (is_one_a_row(factors, *large)) return finite(kernels::scaled_rows(*large, factors));
    }
    const auto attributes = attributes_of(t, op).value_or(AttributeSet());
    const int64_t rows = large->dim(0), block = std::max<int64_t>(1, kBlock * rows / large->size());
    Tensor result = Tensor::allocate(dtype, large->shape());
    for (int64_t row = 0; row < rows; row += block) {
      const int64_t count = std::min(block, rows - row);
      Tensor place = rows_of(result, row, count);
      boost::container::small_vector<Datum, 2> inputs;
      for (const Tensor& operand : operands) {
        const bool has_rows = operand.rank() == large->rank() && operand.dim(0) == rows;
        inputs.push_back(has_rows ? as_f64(rows_of(operand, row, count)) : operand);
      }
      const Datum value = evaluated(op, attributes, inputs);
      if (!std::ranges::equal(value.tensor().shape(), place.shape())) return std::nullopt;
      kernels::cast_into(value.tensor(), place);
      if (!kernels::is_finite(place)) return finite(std::nullopt);
    }
    for (const Tensor* leaf : leaves) {
      if (leaf && !DeferredElements::are_missing(*leaf)) drop_mapped_pages(leaf->raw(), leaf->bytes());
    }
    return result;
  }
  static Tensor finite(std::optional<Tensor> tensor) {
    if (!tensor) throw Error(ErrorCode::InvalidArgument, kNotFinite);
    return *std::move(tensor);
  }
  static bool is_one_a_row(const Tensor& factors, const Tensor& large) {
    return factors.dtype() == DType::F64 && factors.rank() == large.rank() && factors.dim(0) == large.dim(0) && factors.size() == large.dim(0);
  }
  static Tensor rows_of(const Tensor& t, int64_t from, int64_t count) {
    Shape shape = t.shape();
    const auto row = t.bytes() / static_cast<size_t>(shape[0]);
    const size_t begin = static_cast<size_t>(from) * row;
    shape[0] = count;
    if (DeferredElements::are_missing(t)) {
      Tensor rows = Tensor::allocate(t.dtype(), shape);
      DeferredElements::copy_bytes(t, begin, rows.bytes(), static_cast<std::byte*>(rows.raw()));
      return rows;
    }
    return Tensor::view(t.dtype(), shape, static_cast<std::byte*>(const_cast<void*>(t.raw())) + begin, t.owner());
  }

  Datum value_of(const Term& t) {
    switch (t.kind) {
      case Term::Kind::Number: return Tensor::scalar(t.number);
      case Term::Kind::Computed: return value_of(evaluate(t.value, scope_));
      case Term::Kind::Variable: return value_of(scope_.match.nodes[static_cast<size_t>(t.slot)], nullptr, {});
      case Term::Kind::Around: {
        const Datum middle = value_of(t.operands[0]);
        return outermost_of(t) ? value_of(outermost_of(t), middle_of(t), middle) : middle;
      }
      case Term::Kind::Apply: break;
      default: return {};
    }
    const Operator& op = operator_of(t);
    boost::container::small_vector<Datum, 4> operands;
    for (const Term& operand : t.operands) {
      Datum value = value_of(operand);
      if (value.is_none() && t.flattened) continue;  // the others are the tree
      if (value.is_none() && operands.empty() && is_required(op)) return {};
      operands.push_back(std::move(value));
    }
    if (!t.flattened) return evaluated(op, attributes_of(t, op).value_or(AttributeSet()), operands);
    if (operands.empty()) return {};
    for (size_t i = 1; i < operands.size(); ++i) {
      const Datum both[] = {operands[0], operands[i]};
      operands[0] = evaluated(op, {}, both);
    }
    return operands[0];
  }
  static Datum value_of(const Quantity& quantity) {
    if (const Node* node = as_node(quantity)) return value_of(node, nullptr, {});
    if (auto integers = as_integers(quantity)) return Tensor::vector<int64_t>(*integers);
    if (const Tensor* tensor = std::get_if<Tensor>(&quantity)) return widened(*tensor);
    if (auto number = as_number(quantity)) return Tensor::scalar(*number);
    throw Error(ErrorCode::InvalidArgument, "a value that a constant needs is not known");
  }
  // Of a node whose operands are constant, with a value for what is in the middle.
  static Datum value_of(const Node* node, const Node* middle, const Datum& value) {
    if (node == middle) return value;
    if (!node || is_none(*node)) return {};
    if (const Tensor* tensor = constant_tensor(node)) return widened(*tensor);
    const Apply& apply = *node->as_apply();
    boost::container::small_vector<Datum, 4> operands;
    for (const Use& use : apply.operands()) operands.push_back(value_of(use.node, middle, value));
    return evaluated(apply.op(), apply.attributes(), operands);
  }
  static Datum evaluated(const Operator& op, const AttributeSet& attributes, std::span<const Datum> operands) {
    return analysis::evaluate_operator(op, attributes, operands, 1)[0];
  }

  // What was read of a constant does not stay in memory: weights are most of a model.
  static Tensor widened(const Tensor& tensor) {
    if (!is_float(tensor.dtype())) return tensor;
    Tensor wide = as_f64(tensor);
    drop_mapped_pages(tensor.raw(), tensor.bytes());
    return wide;
  }
  static Tensor as_f64(const Tensor& tensor) {
    return is_float(tensor.dtype()) ? kernels::cast_tensor(tensor, DType::F64) : tensor;
  }
  // Applications ------------------------------------------------------------------------------------------------------

  const Operator& operator_of(const Term& t) const {
    return t.operator_slot >= 0 ? *scope_.match.operators[static_cast<size_t>(t.operator_slot)] : *t.operators[0];
  }

  Node* application(const Term& t, size_t num_outputs) {
    const Operator& op = operator_of(t);
    Operands operands;
    boost::container::small_vector<const Term*, 4> numbers;  // parallel to operands; null: made already
    bool is_any_absent = false;
    for (const Term& operand : t.operands) {
      size_t times = operand.repeated ? repetitions(operand) : 1;
      for (size_t i = 0; i < times; ++i) {
        size_t outer = std::exchange(repetition_, operand.repeated ? i : repetition_);
        bool is_number = operand.kind == Term::Kind::Number;
        operands.push_back(is_number ? nullptr : term(operand));
        numbers.push_back(is_number ? &operand : nullptr);
        repetition_ = outer;
        if (failed()) return nullptr;
        if (is_number || operands.back()) continue;
        if (t.flattened) {  // the others are the tree
          is_any_absent = true;
          operands.pop_back();
          numbers.pop_back();
        } else if (operands.size() == 1 && is_required(op)) {
          return nullptr;
        }
      }
    }
    if (is_any_absent && operands.empty()) return nullptr;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (numbers[i]) operands[i] = number(*numbers[i], operand_dtype(op, operands, i));
    }
    if (failed()) return nullptr;
    while (!operands.empty() && !operands.back()) operands.pop_back();
    for (Node*& operand : operands) {
      if (!operand) operand = scope_.rewriter.module().none();
    }
    if (t.flattened) return tree(op, operands);
    auto attributes = attributes_of(t, op);
    Apply* same = attributes && t.any_results ? matched_as(op, operands, *attributes, num_outputs) : nullptr;
    Node* made = same ? same : attributes ? make(op, operands, *attributes, num_outputs) : nullptr;
    if (t.slot >= 0) match_.nodes[static_cast<size_t>(t.slot)] = made;
    return made;
  }

  // What the pattern has already: it only has more results than are asked for.
  Apply* matched_as(const Operator& op, const Operands& operands, const AttributeSet& attributes,
                    size_t num_outputs) const {
    for (Apply* apply : match_.applications) {
      const bool is_same = &apply->op() == &op && apply->num_outputs() == num_outputs &&
                           apply->attributes() == attributes &&
                           std::ranges::equal(apply->operands(), operands, {}, &Use::node);
      if (is_same) return apply;
    }
    return nullptr;
  }

  // Whether there is no application without the first operand: what is made of an absent one is absent, too.
  static bool is_required(const Operator& op) {
    const Formal* first = formal_of(op, 0);
    return first && first->arity != Formal::Arity::Optional;
  }

  // The element type of a number that is operand i: that of another operand of the same type variable.
  DType operand_dtype(const Operator& op, const Operands& operands, size_t i) const {
    const Formal* formal = formal_of(op, i);
    if (!formal) return dtype_of(&scope_.root());
    for (size_t j = 0; j < operands.size(); ++j) {
      const Formal* other = formal_of(op, j);
      if (other && other->type == formal->type && dtype_of(operands[j]) != DType::Undefined)
        return dtype_of(operands[j]);
    }
    const TypeVariable* variable = find_variable(op, formal->type);
    if (variable && variable->dtypes.size() == 1) return variable->dtypes[0];
    if (!variable) {
      if (auto fixed = dtype_from_name(formal->type)) return *fixed;
    }
    return dtype_of(&scope_.root());
  }

  // How often a repeated term is written out: as often as its variables have values.
  size_t repetitions(const Term& t) const {
    if (t.kind == Term::Kind::Variable && t.in_list) return scope_.match.lists[static_cast<size_t>(t.slot)].size();
    size_t most = 0;
    for (const Term& operand : t.operands) most = std::max(most, repetitions(operand));
    return most;
  }

  // op(op(a, b), c) …
  Node* tree(const Operator& op, const Operands& operands) {
    if (operands.empty()) return refuse("no operand is left");
    Node* result = operands[0];
    for (size_t i = 1; i < operands.size() && result; ++i) result = make(op, {result, operands[i]}, {});
    return result;
  }

  std::optional<AttributeSet> attributes_of(const Term& t, const Operator& op) {
    std::vector<AttributeSet::Entry> entries;
    if (t.rest >= 0) {
      for (const AttributeSet::Entry& entry : *scope_.match.attribute_sets[static_cast<size_t>(t.rest)]) {
        bool given = std::ranges::find(t.attributes, entry.first, &AttributeTerm::name) != t.attributes.end();
        if (!given) entries.push_back(entry);
      }
    }
    for (const AttributeTerm& a : t.attributes) {
      const AttributeDeclaration* declared = op.find_attribute(a.name);
      auto value = declared ? to_attribute(evaluate(a.value, scope_), declared->kind) : std::nullopt;
      if (!value && a.optional) continue;
      if (!value) {
        refuse(fmt::format("attribute {} of {} is not known", a.name, op.name));
        return std::nullopt;
      }
      // An attribute that is the default is left out, so that equal applications look equal.
      if (!declared->otherwise || !identical(*declared->otherwise, *value))
        entries.emplace_back(a.name, std::move(*value));
    }
    return AttributeSet(std::move(entries));
  }

  Node* make(const Operator& op, const Operands& operands, const AttributeSet& attributes, size_t num_outputs = 1) {
    try {
      return scope_.rewriter.apply(op, operands, attributes, num_outputs);
    } catch (Refusal& refusal) {
      return refuse(std::move(refusal.why));
    }
  }

  const Scope& scope_;
  Match& match_;
  std::string& refusal_;
  size_t repetition_ = 0;
};

}  // namespace

Node* make_result(const Term& result, const Scope& scope, Match& match, std::string& refusal) {
  Maker maker(scope, match, refusal);
  Node* node = maker.result(result);
  return maker.failed() ? nullptr : node;
}

}  // namespace anfora::rewrite
