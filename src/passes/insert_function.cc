#include "passes/insert_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "anfora/error.h"
#include "ir/order.h"
#include "ir/verify.h"
#include "rewrite/instantiate.h"

namespace anfora::passes {

using namespace ir;
using rewrite::Rewriter;

namespace {

class FunctionInserter {
 public:
  FunctionInserter(PassContext& context, const FunctionInsertion& insertion)
      : context_(context),
        insertion_(insertion),
        library_(context.module.context(), insertion.files),
        rewriter_(context.module, context.inference) {}

  bool has_function(const Operator& op) const { return library_.find(op); }
  bool insert(Apply& node, const AttributeSet& attributes);

 private:
  void replace(Apply& node, std::span<Node* const> results);

  PassContext& context_;
  const FunctionInsertion& insertion_;
  const Library library_;
  Rewriter rewriter_;
};

void require_agreement(const Apply& node, const Type* declared, const Type* found) {
  if (may_agree(declared, found)) return;
  throw Error(ErrorCode::Internal,
              fmt::format("what it means is {}, and not {}", to_string(found), to_string(declared)))
      .at_node(describe(node));
}

bool FunctionInserter::insert(Apply& node, const AttributeSet& attributes) {
  const std::string_view pass = insertion_.pass, rule = insertion_.rule.empty() ? node.op().qualified : insertion_.rule;
  context_.remarks.tried(rule);
  rewriter_.set_root(node);
  std::vector<Node*> results(node.num_outputs());
  try {
    if (!is_typed(node)) throw rewrite::Refusal{"the element types of its operands are not known"};
    rewrite::Instance instance(library_, rewriter_, *library_.find(node.op()), attributes);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_result_used(node, i)) continue;
      results[i] = instance.result(i);
      require_agreement(node, results.size() == 1 ? node.type() : node.type()->element(i), results[i]->type());
    }
    if (std::string why = rewrite::why_not_written(insertion_.has_operator, rewriter_.made()); !why.empty()) {
      throw rewrite::Refusal{std::move(why)};
    }
  } catch (const rewrite::Refusal& refusal) {
    rewriter_.discard_made();
    context_.remarks.refused(pass, rule, node, refusal.why);
    return false;
  }
  if (rewrite::Remark* remark = context_.applied(pass, rule, node)) {
    remark->before = rewrite::work_of(context_.inference, node);
    for (const Apply* made : rewriter_.made()) remark->after += rewrite::work_of(context_.inference, *made);
  }
  replace(node, results);
  rewriter_.discard_made();
  return true;
}

// Items of several results are replaced one by one; a tuple is made where somebody takes it as a whole.
void FunctionInserter::replace(Apply& node, std::span<Node* const> results) {
  Module& module = context_.module;
  if (results.size() == 1) {
    module.replace(&node, results[0]);
  } else {
    std::vector<Apply*> items;
    for (const Use& use : node.uses()) {
      if (use.user->primitive() == Primitive::TupleGetItem) items.push_back(use.user);
    }
    for (Apply* item : items) {
      if (Node* result = results[static_cast<size_t>(item->attributes().require_int("index"))]) {
        module.replace(item, result);
      }
      module.erase(item);
    }
    if (node.has_uses()) module.replace(&node, rewriter_.tuple(results));
  }
  module.erase_with_dead_operands(&node);
}

}  // namespace

bool is_typed(const Apply& node) {
  return std::ranges::all_of(node.operands(), [](const Use& use) {
    const Type* type = use.node->type();
    return type && (type->is_none() || (type->is_tensor() && type->dtype() != DType::Undefined));
  });
}

bool is_result_used(const Apply& node, size_t i) {
  if (node.num_outputs() == 1) return i == 0;
  return std::ranges::any_of(node.uses(), [&](const Use& use) {
    const Apply* item = use.user->as(Primitive::TupleGetItem);
    return !item || item->attributes().get_int("index", 0) == static_cast<int64_t>(i);
  });
}

size_t insert_functions(PassContext& context, const FunctionInsertion& insertion) {
  std::optional<FunctionInserter> functions;  // once they are needed
  size_t inserted = 0;
  const auto order = shared_order(context.module);
  for (const GraphOrder& graph : order->graphs) {
    for (Apply* node : graph.nodes) {
      if (node->primitive() != Primitive::Operation || !node->has_uses() || !is_reached(node->type())) continue;
      if (!context.has_fuel()) return inserted;
      const auto attributes = insertion.attributes(*node);
      if (!attributes) continue;
      if (!functions) functions.emplace(context, insertion);
      if (functions->has_function(node->op())) inserted += functions->insert(*node, *attributes);
    }
  }
  return inserted;
}

}  // namespace anfora::passes
