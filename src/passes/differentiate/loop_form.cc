#include "passes/differentiate/loop_form.h"

#include <algorithm>

namespace anfora::passes {

using namespace ir;

namespace {

template <class InLoop>
int64_t uses_in_loop(const Graph& function, const InLoop& in_loop) {
  return std::ranges::count_if(function.value()->uses(), [&](const Use& use) { return in_loop(use.user->graph()); });
}

}  // namespace

std::optional<LoopForm> loop_of(std::span<Graph* const> callees, const analysis::CallOrder& calls) {
  if (callees.size() != 1 || !calls.is_recursive(callees[0])) return std::nullopt;
  Graph* header = callees[0];
  const Apply* tail = header->result()->as(Primitive::Call);
  const analysis::Callees branches = tail ? analysis::known_callees(*tail) : analysis::Callees();
  if (branches.size() != 2) return std::nullopt;
  auto in_loop = [&](const Graph* g) { return calls.component(g) == calls.component(header); };
  if (in_loop(branches[0]) == in_loop(branches[1])) return std::nullopt;
  Graph* body = branches[in_loop(branches[0]) ? 0 : 1];
  const Apply* back = body->result()->as(Primitive::Call);
  if (!back || constant_function(back->input(0)) != header || uses_in_loop(*body, in_loop) != 1 || uses_in_loop(*header, in_loop) != 1) {
    return std::nullopt;
  }
  return LoopForm{header, body, branches[in_loop(branches[0]) ? 1 : 0], in_loop(branches[0])};
}

int64_t increment_of(const ir::Graph& step, const ir::Parameter& parameter) {
  const ir::Type* type = parameter.type();
  if (!type || !type->is_tensor() || type->dtype() != DType::I64 || !type->has_rank() || type->rank() != 0) return 0;
  const ir::Apply* next = step.result()->as_apply()->input(parameter.index())->as_apply();
  if (!next || !(next->is("Add") || next->is("Sub")) || next->input(0) != step.parameter(parameter.index())) return 0;
  const Tensor* by = constant_tensor(next->input(1));
  if (!by || by->dtype() != DType::I64 || by->size() != 1) return 0;
  return next->is("Add") ? by->data<int64_t>()[0] : -by->data<int64_t>()[0];
}

}  // namespace anfora::passes
