#include "passes/pass.h"

#include <algorithm>

#include "passes/origins.h"
#include "rewrite/admission.h"

namespace anfora::passes {

using namespace ir;

Apply* PassContext::apply(std::string_view pass, std::string_view rule, const Apply& old, std::string_view op,
                          std::span<Node* const> inputs, const AttributeSet& attributes) {
  Apply* made = module.apply(old.graph(), module.context().get_operator(op), inputs, attributes, 1, old.location());
  std::string why = rewrite::why_not_typed(inference, *made);
  if (why.empty()) why = rewrite::why_not_written(options.has_operator, {&made, 1});
  if (why.empty()) return made;
  module.erase(made);
  remarks.refused(pass, rule, old, std::move(why));
  return nullptr;
}

Apply* PassContext::make(Graph* graph, const Operator& op, std::span<Node* const> inputs, const AttributeSet& attributes, const Location* location,
                         std::string_view name, size_t num_outputs) {
  Apply* made = module.apply(graph, op, inputs, attributes, num_outputs, location, name);
  inference.infer(*made);
  return made;
}

bool PassContext::is_only_in_main(const Value& constant) const {
  return std::ranges::all_of(constant.uses(), [&](const Use& use) { return use.user->graph()->is_inside(module.main()); });
}

bool PassContext::compute(std::string_view pass, std::string_view rule, Value& constant, std::string_view op,
                          std::span<Node* const> inputs, const AttributeSet& attributes) {
  Apply* made = module.apply(module.main(), module.context().get_operator(op), inputs, attributes);
  made->set_type(constant.type());
  if (!is_writable(*made)) return module.erase(made), false;
  module.replace(&constant, made);
  applied(pass, rule, *made);
  return true;
}

rewrite::Remark* PassContext::applied(std::string_view pass, std::string_view rule, const Node& node,
                                      std::string message) {
  if (options.fuel) --*options.fuel;
  return remarks.applied(pass, rule, node, std::move(message));
}

const Origins& PassContext::origins() const {
  static const Origins kNone;
  return options.origins ? *options.origins : kNone;
}

rewrite::RewriteOptions PassContext::rewriting() const {
  rewrite::RewriteOptions rewriting{.weakest = options.math,
                                    .fuel = options.fuel,
                                    .assumes_finite = options.assumes_finite,
                                    .has_operator = options.has_operator,
                                    .is_accurate = options.is_accurate};
  rewriting.folds = options.folds;
  rewriting.folds_at_once = options.folds && options.fold_budget;  // one pass by itself shows what the rules made
  rewriting.fold_budget = fold_budget.get();
  rewriting.fold_limit = options.fold_limit.value_or(analysis::FoldBudget::kSureLimit);
  return rewriting;
}

}  // namespace anfora::passes
