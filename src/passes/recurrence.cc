// RNN recognition: loops over the rows of X in which a cell computes its state of the row and of the state before become the LSTM, GRU or
// RNN that ONNX has for all rows at once:
//
//     %z = x·W + h·R + b                                     i, f, o, g: parts of %z, or sums of their own
//     %c = Sigmoid(f) ⊙ c + Sigmoid(i) ⊙ Tanh(g)             →   LSTM(X, W', R', B', _, h₀, c₀)
//     %h = Sigmoid(o) ⊙ Tanh(%c)
//
// Three steps:
//
//   - analysis/loops.h says what the loop scans, in which order (from the last row: direction "reverse") and along which axis.
//   - The step of the loop, from a row and the states to the next states, is copied to a module of its own. There rules/recurrence.rules
//     make layers of one step of the cells; what is no cell changes nothing of the loop.
//   - A layer of one step that hands its states on to itself is the layer of all rows, if its weights are from outside of the loop.
//
// The new state in the loop is then a row of the layer's result, and the last state is the layer's. What is left of the loop is not the
// matter of this pass: collected rows are the tensor, a loop that gives nothing of its own is not run (loops.cc), and what nobody reads
// is dead. So it does not matter either whether the cell is all that the loop does, and the next cell may find its row in the states of
// this one. Linear in the size of the loops.
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <string>
#include <utility>
#include <vector>

#include "analysis/loops.h"
#include "ir/queries.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kRecurrence;

namespace {

using namespace ir;
using analysis::Loop;
using analysis::LoopRun;
using rewrite::Rewriter;

constexpr std::string_view kFound = "layer-from-loop";

// The step of a loop as main of a module: of rows [1, batch, inputs], states [1, batch, hidden] and what else the body sees, the next states.
class LoopStep {
 public:
  struct State {
    const Parameter* in_loop;
    Node* first;  // in the step
  };
  struct Rows {
    LoopRun::Scan scan;
    Node *index, *in_step, *row;
  };

  LoopStep(const LoopRun& run, const LoopRun::Bound& bound, const GraphOrder& body, const analysis::Inference& around)
      : loop_(run.loop()), module_(body.graph->module().context()), step_(module_.make_graph("step")) {
    module_.set_main(step_);
    for (const Parameter* p : loop_.header->parameters()) {
      const Apply* next = run.next(p)->as_apply();
      if (!is_matrix(*p) || !next || next->graph() != body.graph) continue;
      states_.push_back({p, with_front(p->type()->dims())});
      images_[p] = made("Squeeze", {states_.back().first, axes()});
    }
    if (states_.empty()) return;
    for (Apply* node : body.nodes) {
      const auto scan = node->is("Gather") && is_matrix(*node) ? run.scan_of(*node, bound, &around) : std::nullopt;
      const bool is_row = scan && scan->axis <= 1 && loop_.is_outside(scan->tensor);
      if (Node* image = is_row ? row_of(*scan, *node) : copy(*node)) images_[node] = image;
    }
    std::vector<Node*> next;
    for (const State& state : states_) next.push_back(made("Unsqueeze", {image(run.next(state.in_loop)), axes()}));
    module_.set_result(step_, module_.make_tuple(step_, next));
  }

  // Makes layers of the cells. The names of the rules that fired.
  std::vector<std::string_view> find_layers() {
    static const auto gates = built_in_rules({kGates}), cells = built_in_rules({kRecurrence.name});
    if (states_.empty() || rows_.empty()) return {};
    rewrite::Remarks remarks;
    auto fire = [&](const rewrite::RuleSet& rules) {
      return rewrite::apply_rules(rules, {.define_roots = true}, inference_, remarks, kRecurrence.name);
    };
    while (fire(*gates) + fire(*cells) > 0) {
    }
    std::vector<std::string_view> fired;
    for (const auto& [rule, statistics] : remarks.statistics()) {
      if (statistics.fired > 0) fired.push_back(rule);
    }
    return fired;
  }

  const std::vector<State>& states() const { return states_; }
  const std::vector<Rows>& rows() const { return rows_; }
  const Node* next(const State& state) const {
    return step_->result()->as_apply()->input(static_cast<size_t>(&state - states_.data()));
  }
  // What a node of the step is around the loop; null: it depends on the iteration.
  Node* around(const Node* node, Rewriter& rewriter) {
    if (auto known = around_.find(node); known != around_.end()) return known->second;
    if (node->is_value()) return same_value(rewriter.module(), *node);
    const Apply* apply = node->as_apply();
    if (!apply || apply->num_outputs() != 1) return nullptr;
    std::vector<Node*> operands;
    for (const Use& use : apply->operands()) operands.push_back(around(use.node, rewriter));
    if (std::ranges::count(operands, nullptr) > 0) return nullptr;
    return around_[node] = rewriter.apply(apply->op(), operands, apply->attributes());
  }

 private:
  static bool is_matrix(const Node& node) { return rank_of(&node) == 2 && node.type()->dtype() == DType::F32; }
  Node* axes() { return module_.constant(Tensor::vector<int64_t>(std::vector<int64_t>{0})); }
  Parameter* with_front(std::span<const Dim> dims) {
    std::vector<Dim> all{module_.context().dims().constant(1)};
    all.insert(all.end(), dims.begin(), dims.end());
    return module_.add_parameter(step_, module_.context().tensor_type(DType::F32, all));
  }
  Node* made(std::string_view op, std::initializer_list<Node*> operands) {
    Apply* apply = module_.apply(step_, module_.context().get_operator(op), operands);
    inference_.infer(*apply);
    return apply;
  }

  // Null: it is no data.
  static Node* same_value(Module& module, const Node& node) {
    const Value* value = node.as_value();
    if (value && value->is_tensor()) return module.constant(value->tensor());
    return value && value->is_none() ? module.none() : nullptr;
  }
  // What no application of the step computes is a parameter.
  Node* image(Node* node) {
    if (auto known = images_.find(node); known != images_.end()) return known->second;
    if (Node* same = same_value(module_, *node)) return same;
    Parameter* parameter = module_.add_parameter(step_, node->type());
    if (loop_.is_outside(node)) around_[parameter] = node;
    return images_[node] = parameter;
  }
  // Null: it is left to be a parameter.
  Node* copy(const Apply& node) {
    Node* made = nullptr;
    if (node.primitive() == Primitive::TupleGetItem && images_.contains(node.input(0))) {
      const auto index = static_cast<size_t>(node.attributes().require_int("index"));
      made = module_.tuple_item(step_, images_[node.input(0)], index);
    } else if (node.primitive() == Primitive::Operation && node.op().effect == Effect::Pure) {
      std::vector<Node*> operands;
      for (const Use& use : node.operands()) operands.push_back(image(use.node));
      made = module_.apply(step_, node.op(), operands, node.attributes(), node.num_outputs());
    }
    if (made) made->set_type(node.type());
    return made;
  }
  Node* row_of(const LoopRun::Scan& scan, const Apply& gather) {
    if (const auto known = std::ranges::find(rows_, scan, &Rows::scan); known != rows_.end()) return known->row;
    Node* rows = with_front(gather.type()->dims());
    Node* row = made("Gather", {rows, module_.constant(Tensor::scalar<int64_t>(0))});
    rows_.push_back({scan, gather.input(1), rows, row});
    return row;
  }

  const Loop& loop_;
  Module module_;
  analysis::Inference inference_{module_};
  Graph* step_;
  std::vector<State> states_;
  std::vector<Rows> rows_;
  boost::unordered_flat_map<const Node*, Node*> images_, around_;  // of nodes of the loop, and the other way round
};

// Takes a cell out of a loop.
class Cell {
 public:
  Cell(const LoopRun& run, LoopStep& step, PassContext& context, Rewriter& rewriter)
      : run_(run), loop_(run.loop()), step_(step), context_(context), rewriter_(rewriter) {}

  // Whether there was one.
  bool take_out() {
    const std::vector<std::string_view> rules = step_.find_layers();
    for (const LoopStep::State& state : step_.states()) {
      const Apply* layer = layer_of(state);
      Apply* made = layer ? around(*layer) : nullptr;
      if (!made || !context_.is_writable(*made) || !is_apart()) continue;
      for (std::string_view rule : rules) context_.remarks.applied(kRecurrence.name, rule, *new_state_);
      replace(*made);
      return true;
    }
    return false;
  }

 private:
  // A layer of one of the rows that hands on this state, and the cell of an LSTM.
  const Apply* layer_of(const LoopStep::State& state) {
    const Apply* layer = item_of(step_.next(state), 1);
    const auto rows = std::ranges::find(step_.rows(), layer ? layer->input(0) : nullptr, &LoopStep::Rows::in_step);
    if (rows == step_.rows().end() || layer->input(5) != state.first) return nullptr;
    rows_ = &*rows, state_ = state.in_loop, new_state_ = run_.next(state_)->as_apply(), cell_ = nullptr;
    if (layer->num_outputs() < 3) return layer;
    const auto cell = std::ranges::find(step_.states(), layer->input(6), &LoopStep::State::first);
    if (cell == step_.states().end() || item_of(step_.next(*cell), 2) != layer) return nullptr;
    cell_ = cell->in_loop;
    return layer;
  }
  static const Apply* item_of(const Node* node, int64_t index) {
    const Apply* item = node->as(Primitive::TupleGetItem);
    return item && item->attributes().require_int("index") == index ? item->input(0)->as_apply() : nullptr;
  }

  // The layer of all rows; null: its weights are computed in the loop.
  Apply* around(const Apply& layer) {
    std::vector<Node*> operands;
    for (const Use& use : layer.operands()) {
      const size_t i = use.index();
      const Parameter* state = i == 5 ? state_ : i == 6 ? cell_ : nullptr;
      operands.push_back(i == 0 ? all_rows() : state ? first(*state) : step_.around(use.node, rewriter_));
    }
    if (std::ranges::count(operands, nullptr) > 0) return nullptr;
    AttributeSet attributes = layer.attributes();
    if (rows_->scan.reversed) attributes = attributes.with("direction", std::string("reverse"));
    return rewriter_.apply(layer.op(), operands, attributes, layer.num_outputs());
  }
  Node* integer(int64_t i) { return rewriter_.integers({&i, 1}); }
  Node* first(const Parameter& state) {
    return rewriter_.apply("Unsqueeze", {loop_.entries[0]->input(state.index() + 1), integer(0)});
  }
  // Steps in front.
  Node* all_rows() {
    const auto& [tensor, axis, reversed] = rows_->scan;
    return axis == 0 ? tensor : rewriter_.apply("Transpose", {tensor}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  }

  // Whether all that comes of the states before the step is their next values, and of their last values what is done in the end.
  bool is_apart() const {
    std::vector<const Node*> pending{state_, cell_};
    boost::unordered_flat_set<const Node*> seen{new_state_};
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      if (!node || !seen.insert(node).second) continue;
      for (const Use& use : node->uses()) {
        if (node->as_parameter() && use.user->graph()->is_inside(loop_.exit())) continue;
        if (use.user == loop_.back_edges[0]) {
          if (!cell_ || use.index() != cell_->index() + 1) return false;
          continue;
        }
        if (use.user->graph() != loop_.body()) return false;
        pending.push_back(use.user);
      }
    }
    return true;
  }

  // Rows of the layer take the place of new states, and its last states that of the loop's.
  void replace(Apply& made) {
    Module& module = rewriter_.module();
    context_.remarks.applied(kRecurrence.name, kFound, *new_state_);
    Graph* around = loop_.entries[0]->graph();  // the layer is there
    if (!loop_.header->is_inside(around)) module.set_parent(loop_.header->value()->function(), around);
    Node* operands[] = {rewriter_.apply("Squeeze", {rewriter_.item(&made, 0), integer(1)}), rows_->index};
    const Operator& gather = module.context().get_operator("Gather");
    Apply* row = module.apply(loop_.body(), gather, operands, {}, 1, new_state_->location());
    context_.inference.infer(*row);
    module.replace(new_state_, row);
    for (const Parameter* state : {state_, cell_}) {
      std::vector<std::pair<Apply*, size_t>> uses;
      if (!state) continue;
      for (const Use& use : state->uses()) {
        if (use.user->graph()->is_inside(loop_.exit())) uses.emplace_back(use.user, use.index());
      }
      if (uses.empty()) continue;
      Node* last = rewriter_.apply("Squeeze", {rewriter_.item(&made, state == state_ ? 1 : 2), integer(0)});
      for (const auto& [user, index] : uses) module.set_operand(user, index, last);
    }
  }

  const LoopRun& run_;
  const Loop& loop_;
  LoopStep& step_;
  PassContext& context_;
  Rewriter& rewriter_;
  const LoopStep::Rows* rows_ = nullptr;
  const Parameter *state_ = nullptr, *cell_ = nullptr;  // of an LSTM, also the cell
  Apply* new_state_ = nullptr;
};

size_t run_recurrence(PassContext& context) {
  Module& module = context.module;
  if (context.options.math != rewrite::Promise::Real || module.graphs().size() == 1) return 0;
  const ModuleOrder order = topological_order(module);
  const analysis::CallOrder calls(order);
  size_t found = 0;
  for (const GraphOrder& graph : order.graphs) {
    const auto loop = Loop::of(*graph.graph, order, calls);
    if (!loop || !loop->body() || loop->entries.size() != 1) continue;
    const LoopRun run(*loop, *loop->entries[0]);
    const auto bound = run.bound();
    if (!bound) continue;
    LoopStep step(run, *bound, *std::ranges::find(order.graphs, loop->body(), &GraphOrder::graph), context.inference);
    Rewriter rewriter(module, context.inference);
    rewriter.set_root(*loop->entries[0]);
    try {
      found += Cell(run, step, context, rewriter).take_out();
    } catch (const rewrite::Refusal& refusal) {
      context.remarks.refused(kRecurrence.name, kFound, *loop->entries[0], refusal.why);
    }
    rewriter.discard_made();
  }
  return found;
}

}  // namespace

const Pass kRecurrence{"recurrence", "recurrent layers", "recognize loops that are an LSTM, a GRU or an RNN",
                       run_recurrence};

}  // namespace anfora::passes
