// The rules of rules/*.rules, and those that a line cannot say, to a fixpoint together.
#include <algorithm>
#include <vector>

#include "ir/queries.h"
#include "ops/registry.h"
#include "passes/contraction.h"
#include "passes/pass.h"
#include "passes/simplify/engines.h"
#include "rewrite/compiled_rules.h"
#include "support/repetition.h"

namespace anfora::passes {

extern const Pass kSimplify;

namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

Node* item_of_tuple(Rewriter&, Apply& item) {
  Apply* tuple = item.input(0)->as(Primitive::MakeTuple);
  return tuple ? tuple->input(static_cast<size_t>(item.attributes().require_int("index"))) : nullptr;
}

// Rows of a constant by constant indices that repeat themselves: the few rows that there are, expanded. What is larger than its
// sources is not folded; this is, and who adds it needs no Expand.
//
//     Gather(types, i64[1, 128] 0)   =   Expand(Gather(types, i64[1, 1] 0), [1, 128, 768])
Node* gather_once(Rewriter& rewriter, Apply& root) {
  const Tensor* indices = constant_tensor(root.input(1));
  auto shape = root.type() ? root.type()->static_shape() : std::nullopt;
  auto part = indices && constant_tensor(root.input(0)) && shape ? without_repetition(*indices) : std::nullopt;
  if (!part) return nullptr;
  Node* rows = rewriter.apply("Gather", {root.input(0), rewriter.constant(std::move(*part))}, root.attributes());
  return rewriter.apply("Expand", {rows, rewriter.integers(*shape)});
}

// Items of a list that are copied into a longer one: who reads a sequence each time that it grows would copy as many as there are squared.
constexpr size_t kMostItemsCopied = 256;

bool appends(const Apply& apply) { return apply.is("SequenceInsert") && !apply.has_input(2); }

// The items of a sequence that was made of them, or grew by one after the other. Empty: it is not known, or others read it in between.
std::vector<Node*> items_of(const Node* node) {
  std::vector<Node*> items;  // the last first
  const Apply* sequence = node->as_apply();
  for (; sequence && appends(*sequence) && (sequence == node || sequence->has_one_use()); sequence = sequence->input(0)->as_apply())
    items.push_back(sequence->input(1));
  if (!sequence) return {};
  if (sequence->is("SequenceConstruct") && (sequence == node || (sequence->has_one_use() && sequence->num_inputs() <= kMostItemsCopied))) {
    for (size_t i = sequence->num_inputs(); i-- > 0;) items.push_back(sequence->input(i));
  } else if (!sequence->is("SequenceEmpty")) {
    return {};
  }
  std::ranges::reverse(items);
  return items;
}

// At the last of those that are inserted one after the other:
//
//     SequenceInsert(SequenceInsert(SequenceEmpty(), x), y)   =   SequenceConstruct(x, y)
Node* sequence_of_items(Rewriter& rewriter, Apply& root) {
  if (root.has_one_use() && root.uses().begin()->index() == 0 && appends(*root.uses().begin()->user)) return nullptr;
  const std::vector<Node*> items = items_of(&root);
  return items.empty() ? nullptr : rewriter.apply(rewriter.context().get_operator("SequenceConstruct"), items, {});
}

// What a loop has collected. No SequenceConstruct comes in between, which older operator sets lack.
Node* stack_items(Rewriter& rewriter, Apply& root) {
  std::vector<Node*> items = items_of(root.input(0));
  if (items.empty()) return nullptr;
  const int64_t axis = root.attributes().get_int("axis", 0);
  for (const Node* item : items) {  // what is declared may be wrong, which inference then says
    if (root.type()->has_rank() && item->type()->has_rank() && root.type()->rank() != item->type()->rank() + 1) return nullptr;
  }
  for (Node*& item : items) item = rewriter.apply("Unsqueeze", {item, rewriter.integers({&axis, 1})});
  if (root.attributes().get_int("reverse", 0) != 0) std::ranges::reverse(items);
  return items.size() == 1 ? items[0] : rewriter.apply(rewriter.context().get_operator("Concat"), items, {{"axis", axis}});
}

// Of what a call returns: a function that ends so ends in the call. Main keeps a tuple, which names its outputs.
Node* tuple_of_items(Rewriter& rewriter, Apply& root) {
  const Apply* first = root.num_inputs() > 0 ? root.input(0)->as(Primitive::TupleGetItem) : nullptr;
  Apply* whole = first ? first->input(0)->as(Primitive::Call) : nullptr;
  if (!whole || root.graph() == rewriter.module().main()) return nullptr;
  if (!whole->type() || !whole->type()->is_tuple() || whole->type()->elements().size() != root.num_inputs()) return nullptr;
  for (size_t i = 0; i < root.num_inputs(); ++i) {
    const Apply* item = root.input(i)->as(Primitive::TupleGetItem);
    if (!item || item->input(0) != whole || item->attributes().require_int("index") != static_cast<int64_t>(i)) return nullptr;
  }
  return whole;
}

Node* call_of_function(Rewriter& rewriter, Apply& root) {
  Node* function = root.input(0);
  boost::container::small_vector<Node*, 8> arguments;
  for (const Use& use : root.operands().subspan(2)) arguments.push_back(use.node);
  Apply* call = rewriter.module().call(root.graph(), function, arguments);
  call->set_location(root.location());
  const Type* result = constant_function(function)->result()->type();
  call->set_type(result->is_tuple() ? result : root.type());
  if (!result->is_tuple()) return call;
  boost::container::small_vector<Node*, 4> results;
  for (size_t i = 0; i < root.num_outputs(); ++i) results.push_back(rewriter.item(call, i));
  return results.size() == 1 ? results[0] : rewriter.tuple(results);
}

constexpr Rule kSimplifyRules[] = {
    {"einsum-in-product", "Einsum", "Einsum(x, y) = a product of both, and views", Promise::Real, plain_contraction},
    {"tuple-item", "TupleGetItem", "item i of (x₀, x₁, …) = xᵢ", Promise::Exact, item_of_tuple},
    {"items-of-call", "MakeTuple", "(t₀, t₁, …) of all items of a call's result t = t", Promise::Exact, tuple_of_items},
    {"gather-of-repetition", "Gather",
     "rows of a constant by indices that repeat themselves = those by a part, expanded", Promise::Exact, gather_once},
    {"sequence-of-items", "SequenceInsert", "items inserted one after the other = the sequence of them", Promise::Exact, sequence_of_items, true},
    {"stack-items", "StackSequence", "items stacked = Concat of them along a new axis", Promise::Exact, stack_items, true},
};

// What only differentiation reads, once nothing is differentiated any more.
constexpr Rule kForgetGradients[] = {
    {"stop-gradient", "StopGradient", "StopGradient(x) = x", Promise::Exact,
     [](Rewriter&, Apply& root) { return root.input(0); }},
    {"custom-gradient", "CustomGradient", "a function with a gradient of its own = a call of it", Promise::Exact,
     call_of_function, true},
};

size_t run_simplify(PassContext& context) {
  const PassOptions& options = context.options;
  auto rules = options.rules ? options.rules : standard_rules();
  return rewrite::apply_rules(*rules, context.rewriting(), context.inference, context.remarks, kSimplify.name);
}

using Functions = std::vector<std::span<const Rule>>;
using Entry = rewrite::CompiledRules::Entry;

// The set lives for ever: at exit, other threads may still compile.
std::shared_ptr<const rewrite::RuleSet> rules_where(FunctionRef<bool(const Entry&)> is_chosen, const Functions& functions) {
  static Context& context = *ops::make_context().release();
  static const auto& compiled = *new const rewrite::CompiledRules(ops::operators(), compiled_rule_data());
  auto* const made = new rewrite::RuleSet(context);
  std::vector<uint32_t> chosen;
  for (size_t i = 0; i < compiled.entries().size(); ++i) {
    if (is_chosen(compiled.entries()[i])) chosen.push_back(static_cast<uint32_t>(i));
  }
  made->add(compiled, chosen);
  for (std::span<const Rule> rules : functions) made->add(rules);
  return {std::shared_ptr<void>(), made};
}

constexpr auto is_simplification = [](const Entry& rule) { return std::ranges::count(kRulesOfPasses, rule.theme) == 0; };

}  // namespace

std::shared_ptr<const rewrite::RuleSet> built_in_rules(const std::vector<std::string_view>& files, const Functions& functions) {
  return rules_where([&](const Entry& rule) { return std::ranges::count(files, rule.theme) > 0; }, functions);
}

std::shared_ptr<const rewrite::RuleSet> standard_rules() {
  static const auto rules =
      rules_where(is_simplification, {kSimplifyRules, kForgetGradients, shape_rules(), normal_form_rules(), factor_rules(),
                                      piecewise_rules(), index_map_rules()});
  return rules;
}

std::shared_ptr<const rewrite::RuleSet> standard_rules(Context& context, std::span<const RuleText> own) {
  if (own.empty()) return standard_rules();
  auto all = std::make_shared<rewrite::RuleSet>(context);
  all->add(*standard_rules());
  for (const RuleText& file : own) all->read(file.text, file.file);
  return all;
}

std::shared_ptr<const rewrite::RuleSet> differentiable_rules() {
  static const auto rules =
      rules_where([](const Entry& rule) { return is_simplification(rule) && !rule.moves_kinks; },
                  {kSimplifyRules, shape_rules(), normal_form_rules(), factor_rules(), index_map_rules()});
  return rules;
}

std::shared_ptr<const rewrite::RuleSet> rules_after_differentiation() {
  static const auto rules = built_in_rules({}, {kSimplifyRules, kForgetGradients});
  return rules;
}

std::shared_ptr<const rewrite::RuleSet> lowering_rules() {
  static const auto rules = built_in_rules({"no-ops", "views", "layout"}, {kSimplifyRules, kForgetGradients});
  return rules;
}

const Pass kSimplify{"simplify", "algebraic rules", "remove no-ops, cancel pairs, fuse composites", run_simplify};

}  // namespace anfora::passes
