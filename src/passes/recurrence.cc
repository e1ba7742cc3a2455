// Loops that are recurrent layers: a step for each row of X, which computes a cell of the row and of the state before. Import makes
// them of Scan and Loop (see loops.cc), and they become the LSTM, GRU or RNN that ONNX has for all steps at once:
//
//     %z = x·W + h·R + b                                     i, f, o, g: parts of %z, or products of their own
//     %c = Sigmoid(f) ⊙ c + Sigmoid(i) ⊙ Tanh(g)             →   LSTM(X, W', R', b', _, h₀, c₀)
//     %h = Sigmoid(o) ⊙ Tanh(%c)
//
// The rows may be taken from the last to the first (direction "reverse"), and be behind the batch, where X is transposed.
// The cell is found from the new state upwards, then the sums of products that its gates are: of the row, of the state, or of both
// side by side, by matrices from outside of the loop. Slices of the sums are slices of the matrices, which fold where they are
// constant. Each result of the loop must be the last state or the rows of all states. Linear in the size of the loops.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "passes/expand.h"
#include "passes/pass.h"
#include "rewrite/match.h"
#include "support/integers.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Rewriter;

constexpr std::string_view kFound = "layer-from-loop";

const Apply* as(const Node* node, std::string_view op) {
  const Apply* apply = node ? node->as_apply() : nullptr;
  return apply && apply->is(op) ? apply : nullptr;
}

std::optional<int64_t> constant_integer(const Node* node) { return integer_of(constant_tensor(node)); }

// A loop over the rows of a tensor.
struct Loop {
  Graph* graph;
  Apply* entry;        // the call from outside
  const Apply* again;  // the call at the end of the body
  const Graph *body, *done;
  const Node* count;  // of steps

  static std::optional<Loop> of(Graph& graph) {
    const Apply* run = graph.result() ? graph.result()->as(Primitive::Call) : nullptr;
    const Apply* choice = run && run->num_inputs() == 1 ? run->input(0)->as(Primitive::Switch) : nullptr;
    const Apply* test = choice ? as(choice->input(0), "Less") : nullptr;
    if (!test || graph.parameters().empty() || test->input(0) != graph.parameter(0)) return std::nullopt;
    Loop loop{&graph,        nullptr, nullptr, constant_function(choice->input(1)), constant_function(choice->input(2)),
              test->input(1)};
    if (!loop.body || !loop.done || !loop.body->result() || !loop.done->result()) return std::nullopt;
    loop.again = loop.body->result()->as(Primitive::Call);
    if (!loop.again || constant_function(loop.again->input(0)) != &graph) return std::nullopt;
    for (const Use& use : graph.value()->uses()) {
      if (use.user == loop.again) continue;
      if (loop.entry || use.user->primitive() != Primitive::Call || use.index() != 0) return std::nullopt;
      loop.entry = use.user;
    }
    if (!loop.entry || loop.entry->graph()->is_inside(&graph)) return std::nullopt;
    if (graph.parent() && !loop.entry->graph()->is_inside(graph.parent())) return std::nullopt;
    const Apply* next = as(loop.again->input(1), "Add");
    const bool counts = next && next->input(0) == graph.parameter(0) && constant_integer(next->input(1)) == 1;
    return counts && constant_integer(loop.entry->input(1)) == 0 ? std::optional(loop) : std::nullopt;
  }

  bool is_outside(const Node* node) const { return !node->graph() || !node->graph()->is_inside(graph); }
  // What a parameter is at first, and in the next step.
  Node* first(const Parameter* p) const { return entry->input(p->index() + 1); }
  Node* next(const Parameter* p) const { return again->input(p->index() + 1); }
};

// A sum of products: Σ source · matrix + bias, for some of the columns of the matrices.
struct Affine {
  std::array<Node*, 3> matrices{};  // [rows, columns] by source; null: none
  Node* bias = nullptr;             // [columns]; null: none
};

class Cell {
 public:
  Cell(const Loop& loop, PassContext& context, Rewriter& rewriter)
      : loop_(loop), context_(context), rewriter_(rewriter) {}

  // Makes the layer, and returns what takes the place of the loop's results, or nothing.
  std::vector<Node*> make() {
    for (const Parameter* p : loop_.graph->parameters()) {
      if (rank_of(p) != 2 || p->type()->dtype() != DType::F32) continue;
      const Apply* next = loop_.next(p)->as_apply();
      state_ = p, new_state_ = next;
      const auto width = p->type()->dim(1).as_constant();
      if (!next || !width || *width < 1 || loop_.is_outside(next)) continue;
      width_ = *width;
      for (Apply* (Cell::*layer)() : {&Cell::lstm, &Cell::gru, &Cell::rnn}) {
        cell_ = nullptr, rows_ = nullptr, axis_ = 0, reversed_ = false, sources_ = {};
        Apply* made = (this->*layer)();
        if (!made || (context_.options.has_operator && !context_.options.has_operator(*made))) continue;
        std::vector<Node*> results = results_of(made);
        if (!results.empty()) return results;
      }
    }
    return {};
  }

 private:
  enum Source { Row, State, Reset };

  // The rows -----------------------------------------------------------------------------------------------------------

  // Whether the node is the row of this step; the first one says of what.
  bool is_row(const Node* node) {
    const Apply* gather = as(node, "Gather");
    if (!gather || !loop_.is_outside(gather->input(0)) || rank_of(gather->input(0)) != 3) return false;
    Node* rows = gather->input(0);
    const int axis = axis_of_steps(*gather);
    if (axis < 0) return false;
    const Dim steps = rows->type()->dim(axis);
    const bool reversed = is_from_the_end(gather->input(1), steps);
    if (!reversed && gather->input(1) != loop_.graph->parameter(0)) return false;
    if (rows_) return rows_ == rows && axis_ == axis && reversed_ == reversed;
    if (!is_known(loop_.count, steps)) return false;
    rows_ = rows, axis_ = axis, reversed_ = reversed;
    return true;
  }

  // 0: rows are in front; 1: behind the batch; −1: elsewhere.
  static int axis_of_steps(const Apply& node) {
    const int64_t axis = node.attributes().get_int("axis", 0), from_front = axis < 0 ? axis + 3 : axis;
    return from_front == 0 || from_front == 1 ? static_cast<int>(from_front) : -1;
  }

  bool is_known(const Node* node, Dim value) const {
    auto elements = context_.inference.elements(node);
    return elements && elements->size() == 1 && provably_equal((*elements)[0], value);
  }

  // steps − 1 − i in step i.
  bool is_from_the_end(const Node* index, Dim steps) const {
    const Apply* difference = as(index, "Sub");
    return difference && difference->input(1) == loop_.graph->parameter(0) && is_known(difference->input(0), steps - 1);
  }

  // Sums of products ---------------------------------------------------------------------------------------------------

  std::optional<size_t> source_of(const Node* node) {
    if (is_row(node)) return Row;
    if (node == state_) return State;
    return node == sources_[Reset] ? std::optional<size_t>(Reset) : std::nullopt;
  }

  Node* slice(Node* x, int64_t axis, int64_t begin, int64_t end) {
    return rewriter_.apply("Slice", {x, integer(begin), integer(end), integer(axis)});
  }
  Node* integer(int64_t i) { return rewriter_.integers({&i, 1}); }
  Node* sum(Node* x, Node* y) { return !x ? y : !y ? x : rewriter_.apply("Add", {x, y}); }

  // Columns [begin, end) of z.
  bool add_terms(Node* z, int64_t begin, int64_t end, Affine& to) {
    if (loop_.is_outside(z)) {
      const auto width = rank_of(z) > 0 ? z->type()->dim(rank_of(z) - 1).as_constant() : std::nullopt;
      if (!width || *width < end || (rank_of(z) == 2 && z->type()->dim(0).as_constant() != 1) || rank_of(z) > 2)
        return false;
      Node* row = rank_of(z) == 2 ? rewriter_.apply("Squeeze", {z, integer(0)}) : z;
      to.bias = sum(to.bias, slice(row, 0, begin, end));
      return true;
    }
    const Apply* node = z->as_apply();
    if (!node) return false;
    if (const Apply* split = node->primitive() == Primitive::TupleGetItem ? as(node->input(0), "Split") : nullptr) {
      const auto axis = split->attributes().get_int("axis", 0);
      const Tensor* sizes = split->num_inputs() > 1 ? constant_tensor(split->input(1)) : nullptr;
      if ((axis != 1 && axis != -1) || !sizes) return false;
      int64_t before = 0;
      for (int64_t i = 0; i < node->attributes().require_int("index"); ++i)
        before += sizes->data<int64_t>()[static_cast<size_t>(i)];
      return add_terms(split->input(0), before + begin, before + end, to);
    }
    if (node->is("Slice")) {
      const auto start = constant_integer(node->input(1)),
                 axis = node->has_input(3) ? constant_integer(node->input(3)) : std::nullopt;
      const bool by_one = !node->has_input(4) || constant_integer(node->input(4)) == 1;
      const bool is_part = start && *start >= 0 && (axis == 1 || axis == -1) && by_one;
      return is_part && add_terms(node->input(0), *start + begin, *start + end, to);
    }
    if (node->is("Add")) return add_terms(node->input(0), begin, end, to) && add_terms(node->input(1), begin, end, to);
    if (node->is("MatMul")) return add_product(node->input(0), node->input(1), false, begin, end, to);
    if (!node->is("Gemm") || node->attributes().get_int("transA", 0) != 0) return false;
    for (const char* factor : {"alpha", "beta"}) {
      if (node->attributes().get_float(factor, 1) != 1) return false;
    }
    if (node->has_input(2) && !add_terms(node->input(2), begin, end, to)) return false;
    return add_product(node->input(0), node->input(1), node->attributes().get_int("transB", 0) != 0, begin, end, to);
  }

  bool add_product(Node* source, Node* matrix, bool transposed, int64_t begin, int64_t end, Affine& to) {
    if (!loop_.is_outside(matrix) || rank_of(matrix) != 2) return false;
    if (transposed) matrix = rewriter_.apply("Transpose", {matrix}, {{"perm", std::vector<int64_t>{1, 0}}});
    Node* columns = slice(matrix, 1, begin, end);
    if (auto known = source_of(source)) {
      to.matrices[*known] = sum(to.matrices[*known], columns);
      return true;
    }
    const Apply* concat = as(source, "Concat");
    if (!concat || (concat->attributes().require_int("axis") != 1 && concat->attributes().require_int("axis") != -1))
      return false;
    int64_t row = 0;
    for (const Use& use : concat->operands()) {
      auto part = source_of(use.node);
      const auto height = rank_of(use.node) == 2 ? use.node->type()->dim(1).as_constant() : std::nullopt;
      if (!part || !height) return false;
      to.matrices[*part] = sum(to.matrices[*part], slice(columns, 0, row, row + *height));
      row += *height;
    }
    return true;
  }

  std::optional<Affine> affine(Node* z) {
    Affine sum;
    const bool is_gate = rank_of(z) == 2 && z->type()->dim(1).as_constant() == width_;
    return is_gate && add_terms(z, 0, width_, sum) ? std::optional(sum) : std::nullopt;
  }
  std::optional<Affine> gate(const Node* node, std::string_view activation) {
    const Apply* applied = as(node, activation);
    return applied ? affine(applied->input(0)) : std::nullopt;
  }

  // What layers take ----------------------------------------------------------------------------------------------------

  // The matrices of gates one below the other, [1, gates · width, rows]; null: one has none.
  Node* stacked(const std::vector<Affine>& gates, const std::vector<size_t>& sources) {
    boost::container::small_vector<Node*, 4> matrices;
    for (size_t i = 0; i < gates.size(); ++i) {
      Node* matrix = gates[i].matrices[sources[i]];
      if (!matrix) return nullptr;
      matrices.push_back(rewriter_.apply("Transpose", {matrix}, {{"perm", std::vector<int64_t>{1, 0}}}));
    }
    return with_direction(concatenated({matrices.data(), matrices.size()}));
  }
  Node* concatenated(std::span<Node* const> parts) {
    return parts.size() == 1
               ? parts[0]
               : rewriter_.apply(rewriter_.context().get_operator("Concat"), parts, {{"axis", int64_t{0}}});
  }
  Node* with_direction(Node* x) { return rewriter_.apply("Unsqueeze", {x, integer(0)}); }

  // Of the rows and of the state; what only one of them has is 0 in the other.
  Node* biases(const std::vector<Node*>& of_rows, const std::vector<Node*>& of_states) {
    boost::container::small_vector<Node*, 8> parts;
    for (const auto* list : {&of_rows, &of_states}) {
      for (Node* bias : *list)
        parts.push_back(bias ? bias : rewriter_.constant(Tensor::zeros(DType::F32, {&width_, 1})));
    }
    return with_direction(concatenated({parts.data(), parts.size()}));
  }

  Apply* layer(std::string_view op, Node* weights, Node* recurrent, Node* bias, const AttributeSet& attributes) {
    if (!weights || !recurrent || !rows_) return nullptr;
    Node* none = rewriter_.module().none();
    boost::container::small_vector<Node*, 7> operands{
        in_order(rows_, axis_), weights, recurrent, bias, none, with_direction(loop_.first(state_))};
    if (cell_) operands.push_back(with_direction(loop_.first(cell_)));
    AttributeSet all = attributes.with("hidden_size", width_);
    if (reversed_) all = all.with("direction", std::string("reverse"));
    return rewriter_.apply(rewriter_.context().get_operator(op), {operands.data(), operands.size()}, all,
                           cell_ ? 3 : 2);
  }

  // Steps in front, which are at the axis; and back.
  Node* in_order(Node* x, int axis) {
    if (axis == 0) return x;
    return rewriter_.apply("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  }

  Apply* lstm() {
    // h = o · tanh(c)
    const Apply* h = as(new_state_, "Mul");
    if (!h) return nullptr;
    for (size_t side : {0u, 1u}) {
      const Apply *bounded = as(h->input(side), "Tanh"), *c = bounded ? as(bounded->input(0), "Add") : nullptr;
      if (!c) continue;
      for (size_t kept_side : {0u, 1u}) {
        const Apply *kept = as(c->input(kept_side), "Mul"), *added = as(c->input(1 - kept_side), "Mul");
        for (size_t k : {0u, 1u}) {
          const Parameter* old = kept ? kept->input(k)->as_parameter() : nullptr;
          if (!added || !old || old->graph() != loop_.graph || old == state_ || loop_.next(old) != c) continue;
          cell_ = old, new_cell_ = c;
          for (size_t i : {0u, 1u}) {
            auto input = gate(added->input(i), "Sigmoid"), output = gate(h->input(1 - side), "Sigmoid"),
                 forget = gate(kept->input(1 - k), "Sigmoid"), value = gate(added->input(1 - i), "Tanh");
            if (!input || !output || !forget || !value) continue;
            const std::vector<Affine> gates{*input, *output, *forget, *value};
            return layer("LSTM", stacked(gates, {Row, Row, Row, Row}), stacked(gates, {State, State, State, State}),
                         biases({gates[0].bias, gates[1].bias, gates[2].bias, gates[3].bias},
                                {nullptr, nullptr, nullptr, nullptr}),
                         {});
          }
        }
      }
    }
    return nullptr;
  }

  // h' = (1 − z) · n + z · h, or n + z · (h − n).
  struct Update {
    const Node *gate, *candidate;
  };
  std::optional<Update> update() const {
    const Apply* h = as(new_state_, "Add");
    for (size_t side : {0u, 1u}) {
      const Apply* carried = h ? as(h->input(side), "Mul") : nullptr;
      for (size_t k : {0u, 1u}) {
        if (!carried) break;
        const Node *z = carried->input(1 - k), *rest = h->input(1 - side);
        if (const Apply* change = as(carried->input(k), "Sub");
            change && change->input(0) == state_ && change->input(1) == rest)
          return Update{z, rest};
        const Apply* fresh = as(rest, "Mul");
        for (size_t i : {0u, 1u}) {
          const Apply* other = fresh ? as(fresh->input(i), "Sub") : nullptr;
          if (carried->input(k) == state_ && other && rewrite::is_splat(other->input(0), 1) && other->input(1) == z)
            return Update{z, fresh->input(1 - i)};
        }
      }
    }
    return std::nullopt;
  }

  Apply* gru() {
    auto parts = update();
    const Apply* candidate = parts ? as(parts->candidate, "Tanh") : nullptr;
    auto z = candidate ? gate(parts->gate, "Sigmoid") : std::nullopt;
    if (!z) return nullptr;
    std::vector<const Apply*> pending{candidate->input(0)->as_apply()};
    for (size_t at = 0; at < pending.size(); ++at) {  // the sum's term that is reset
      const Apply* term = pending[at];
      if (!term || loop_.is_outside(term)) continue;
      if (term->is("Add") || term->is("MatMul") || term->is("Gemm")) {
        for (const Use& use : term->operands()) pending.push_back(use.node->as_apply());
      }
      for (size_t k : {0u, 1u}) {
        auto r = term->is("Mul") ? gate(term->input(k), "Sigmoid") : std::nullopt;
        if (!r) continue;
        Node* reset = term->input(1 - k);
        if (reset == state_) {
          sources_[Reset] = term;
          auto n = affine(candidate->input(0));
          if (!n || n->matrices[State]) continue;
          return layer("GRU", stacked({*z, *r, *n}, {Row, Row, Row}), stacked({*z, *r, *n}, {State, State, Reset}),
                       biases({z->bias, r->bias, n->bias}, {nullptr, nullptr, nullptr}), {});
        }
        const Apply* total = as(candidate->input(0), "Add");
        for (size_t side : {0u, 1u}) {
          if (!total || total->input(side) != term) continue;
          auto n = affine(total->input(1 - side)), of_state = affine(reset);
          if (!n || !of_state || n->matrices[State] || of_state->matrices[Row]) continue;
          n->matrices[State] = of_state->matrices[State];
          return layer("GRU", stacked({*z, *r, *n}, {Row, Row, Row}), stacked({*z, *r, *n}, {State, State, State}),
                       biases({z->bias, r->bias, n->bias}, {nullptr, nullptr, of_state->bias}),
                       {{"linear_before_reset", int64_t{1}}});
        }
      }
    }
    return nullptr;
  }

  Apply* rnn() {
    for (const char* activation : {"Tanh", "Relu"}) {
      auto h = gate(new_state_, activation);
      if (!h) continue;
      return layer("RNN", stacked({*h}, {Row}), stacked({*h}, {State}), biases({h->bias}, {nullptr}),
                   {{"activations", std::vector<std::string>{activation}}});
    }
    return nullptr;
  }

  // Results -------------------------------------------------------------------------------------------------------------

  // Empty: one is something else.
  std::vector<Node*> results_of(Apply* made) {
    const Apply* tuple = loop_.done->result()->as(Primitive::MakeTuple);
    std::vector<const Node*> wanted;
    if (tuple) {
      for (const Use& use : tuple->operands()) wanted.push_back(use.node);
    } else {
      wanted.push_back(loop_.done->result());
    }
    std::vector<Node*> results;
    for (const Node* node : wanted) {
      Node* result = nullptr;
      if (node == state_) result = rewriter_.apply("Squeeze", {rewriter_.item(made, 1), integer(0)});
      if (cell_ && node == cell_) result = rewriter_.apply("Squeeze", {rewriter_.item(made, 2), integer(0)});
      if (const Apply* stack = as(node, "StackSequence"); stack && is_all_states(*stack)) {
        Node* states = rewriter_.apply("Squeeze", {rewriter_.item(made, 0), integer(1)});
        result = in_order(states, axis_of_steps(*stack));
      }
      if (!result) return {};
      results.push_back(result);
    }
    return results;
  }

  bool is_all_states(const Apply& stack) const {
    const Parameter* all = stack.input(0)->as_parameter();
    if (!all || all->graph() != loop_.graph || axis_of_steps(stack) < 0) return false;
    const bool reversed = stack.attributes().get_int("reverse", 0) != 0;
    if (reversed != reversed_ || !as(loop_.first(all), "SequenceEmpty")) return false;
    const Apply* insert = as(loop_.next(all), "SequenceInsert");
    return insert && insert->num_inputs() == 2 && insert->input(0) == all && insert->input(1) == new_state_;
  }

  const Loop& loop_;
  PassContext& context_;
  Rewriter& rewriter_;
  const Parameter *state_ = nullptr, *cell_ = nullptr;  // of an LSTM, also the cell
  const Apply *new_state_ = nullptr, *new_cell_ = nullptr;
  std::array<const Node*, 3> sources_{};
  Node* rows_ = nullptr;   // [steps, batch, size], or the batch in front
  int axis_ = 0;           // of the steps in it
  bool reversed_ = false;  // the last row first
  int64_t width_ = 0;
};

size_t run(PassContext& context) {
  if (context.options.math != rewrite::Promise::Real) return 0;
  Module& module = context.module;
  size_t found = 0;
  for (Graph* graph : std::vector<Graph*>(module.graphs().begin(), module.graphs().end())) {
    auto loop = Loop::of(*graph);
    if (!loop || !context.may_change(loop->entry->graph())) continue;
    Rewriter rewriter(module, context.inference);
    rewriter.set_root(*loop->entry);
    std::vector<Node*> results;
    try {
      results = Cell(*loop, context, rewriter).make();
    } catch (const rewrite::Refusal& refusal) {
      context.remarks.refused(kRecurrence.name, kFound, *loop->entry, refusal.why);
    }
    if (!results.empty()) {
      context.remarks.applied(kRecurrence.name, kFound, *loop->entry);
      Node* all = results[0];
      if (loop->entry->type()->is_tuple()) {
        Apply* tuple = module.make_tuple(loop->entry->graph(), results);
        tuple->set_type(loop->entry->type());
        all = tuple;
      }
      module.replace(loop->entry, all);
      ++found;
    }
    rewriter.discard_made();
  }
  return found;
}

}  // namespace

const Pass kRecurrence{"recurrence", "recurrent layers", "loops that are an LSTM, a GRU or an RNN", run};

}  // namespace anfora::passes
