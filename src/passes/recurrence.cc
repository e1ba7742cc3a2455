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
//
// What else ONNX has a word for: the sums of all gates are kept within ±clip (but not the cell of an LSTM before its function); other
// functions than these; peepholes, the cell times a row of weights, of which i and f see the old one, and o the new one; and
// input_forget, which is f = 1 − i.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
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

// Functions that layers know by the names of their operators, and compute as these do.
constexpr std::string_view kActivations[] = {"Sigmoid", "Tanh", "Relu", "LeakyRelu", "Elu", "HardSigmoid", "Softsign"};

struct Activation {
  std::string name;
  std::optional<float> alpha, beta;  // of those that have one
  bool operator==(const Activation&) const = default;
};

// A sum of products: Σ source · matrix + cell · peephole + bias, for some of the columns of the matrices.
struct Affine {
  const Node* cell = nullptr;       // that may be seen; null: none
  std::array<Node*, 3> matrices{};  // [rows, columns] by source; null: none
  Node* peephole = nullptr;         // [columns]; null: none
  Node* bias = nullptr;             // [columns]; null: none
  std::optional<float> clip;        // the sum is kept within ±clip
};

// A function of such a sum.
struct Gate {
  Affine sum;
  Activation activation;
};

// Columns [begin, end) of a tensor.
struct Columns {
  Node* of;
  int64_t begin, end;
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

  std::optional<Source> source_of(const Node* node) {
    if (is_row(node)) return Row;
    if (node == state_) return State;
    return node == sources_[Reset] ? std::optional(Reset) : std::nullopt;
  }

  Node* slice(Node* x, int64_t axis, int64_t begin, int64_t end) {
    return rewriter_.apply("Slice", {x, integer(begin), integer(end), integer(axis)});
  }
  Node* integer(int64_t i) { return rewriter_.integers({&i, 1}); }
  Node* sum(Node* x, Node* y) { return !x ? y : !y ? x : rewriter_.apply("Add", {x, y}); }

  // The same columns, of what the tensor is a slice of.
  Columns unsliced(Columns z) const {
    while (const Apply* node = loop_.is_outside(z.of) ? nullptr : z.of->as_apply()) {
      int64_t before = 0;
      if (const Apply* split = node->primitive() == Primitive::TupleGetItem ? as(node->input(0), "Split") : nullptr) {
        const auto axis = split->attributes().get_int("axis", 0);
        const Tensor* sizes = split->num_inputs() > 1 ? constant_tensor(split->input(1)) : nullptr;
        if ((axis != 1 && axis != -1) || !sizes) break;
        for (int64_t i = 0; i < node->attributes().require_int("index"); ++i)
          before += sizes->data<int64_t>()[static_cast<size_t>(i)];
        node = split;
      } else if (node->is("Slice")) {
        const auto start = constant_integer(node->input(1)),
                   axis = node->has_input(3) ? constant_integer(node->input(3)) : std::nullopt;
        const bool by_one = !node->has_input(4) || constant_integer(node->input(4)) == 1;
        if (!start || *start < 0 || (axis != 1 && axis != -1) || !by_one) break;
        before = *start;
      } else {
        break;
      }
      z = {node->input(0), z.begin + before, z.end + before};
    }
    return z;
  }

  // Of a row from outside, as a vector; null: it is none.
  Node* part_of_row(Columns z) {
    if (!loop_.is_outside(z.of)) return nullptr;
    if (rank_of(z.of) == 0) return rewriter_.apply("Expand", {z.of, integer(z.end - z.begin)});
    const auto width = rank_of(z.of) > 0 ? z.of->type()->dim(rank_of(z.of) - 1).as_constant() : std::nullopt;
    if (!width || *width < z.end || (rank_of(z.of) == 2 && z.of->type()->dim(0).as_constant() != 1) ||
        rank_of(z.of) > 2)
      return nullptr;
    return slice(rank_of(z.of) == 2 ? rewriter_.apply("Squeeze", {z.of, integer(0)}) : z.of, 0, z.begin, z.end);
  }

  bool add_terms(Columns columns, Affine& to) {
    const auto [z, begin, end] = unsliced(columns);
    if (loop_.is_outside(z)) {
      Node* bias = part_of_row({z, begin, end});
      to.bias = bias ? sum(to.bias, bias) : to.bias;
      return bias != nullptr;
    }
    const Apply* node = z->as_apply();
    if (!node) return false;
    if (node->is("Add"))
      return add_terms({node->input(0), begin, end}, to) && add_terms({node->input(1), begin, end}, to);
    if (node->is("MatMul")) return add_product(node->input(0), node->input(1), false, begin, end, to);
    if (node->is("Mul")) return add_peephole(*node, begin, end, to);
    if (!node->is("Gemm") || node->attributes().get_int("transA", 0) != 0) return false;
    for (const char* factor : {"alpha", "beta"}) {
      if (node->attributes().get_float(factor, 1) != 1) return false;
    }
    if (node->has_input(2) && !add_terms({node->input(2), begin, end}, to)) return false;
    return add_product(node->input(0), node->input(1), node->attributes().get_int("transB", 0) != 0, begin, end, to);
  }

  bool add_peephole(const Apply& product, int64_t begin, int64_t end, Affine& to) {
    const size_t side = product.input(0) == to.cell ? 0 : 1;
    if (product.input(side) != to.cell || begin != 0 || end != width_) return false;
    Node* weights = part_of_row({product.input(1 - side), begin, end});
    to.peephole = weights ? sum(to.peephole, weights) : to.peephole;
    return weights != nullptr;
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

  // c of Clip(z, −c, c).
  static std::optional<float> bound_of(const Node* z) {
    const Apply* clip = as(z, "Clip");
    if (!clip || !clip->has_input(1) || !clip->has_input(2)) return std::nullopt;
    const auto least = rewrite::splat_value(clip->input(1)), most = rewrite::splat_value(clip->input(2));
    const bool is_symmetric = least && most && *most > 0 && *least == -*most;
    return is_symmetric ? std::optional(static_cast<float>(*most)) : std::nullopt;
  }

  std::optional<Affine> affine(Node* z, const Node* cell = nullptr) {
    if (rank_of(z) != 2 || z->type()->dim(1).as_constant() != width_) return std::nullopt;
    Columns columns = unsliced({z, 0, width_});
    Affine sum{cell};
    sum.clip = bound_of(columns.of);
    if (sum.clip) columns.of = columns.of->as_apply()->input(0);
    return add_terms(columns, sum) ? std::optional(sum) : std::nullopt;
  }

  struct Activated {
    Activation activation;
    Node* argument;
  };
  static std::optional<Activated> activated(const Node* node) {
    const Apply* apply = node ? node->as_apply() : nullptr;
    if (!apply || std::ranges::none_of(kActivations, [&](std::string_view name) { return apply->is(name); }))
      return std::nullopt;
    auto number = [&](std::string_view name) {
      const AttributeValue* value = rewrite::attribute_or_default(*apply, name);
      return value ? std::optional(std::get<float>(*value)) : std::nullopt;
    };
    return Activated{{apply->op().name, number("alpha"), number("beta")}, apply->input(0)};
  }

  std::optional<Gate> gate(const Node* node, const Node* cell = nullptr) {
    const auto function = activated(node);
    const auto sum = function ? affine(function->argument, cell) : std::nullopt;
    return sum ? std::optional(Gate{*sum, function->activation}) : std::nullopt;
  }

  // Makes 1 − f(z) of f(z), which is f(−z).
  bool complement(Gate& gate) {
    const bool is_odd_about_half =
        gate.activation.name == "Sigmoid" || (gate.activation.name == "HardSigmoid" && gate.activation.beta == 0.5F);
    if (!is_odd_about_half) return false;
    for (Node** part : {&gate.sum.matrices[Row], &gate.sum.matrices[State], &gate.sum.peephole, &gate.sum.bias})
      *part = *part ? rewriter_.apply("Neg", {*part}) : nullptr;
    return true;
  }

  // What layers take ----------------------------------------------------------------------------------------------------

  // The matrices of gates one below the other, [1, gates · width, rows]; null: one has none.
  Node* stacked(std::span<const Gate> gates, std::span<const Source> sources) {
    boost::container::small_vector<Node*, 4> matrices;
    for (size_t i = 0; i < gates.size(); ++i) {
      Node* matrix = gates[i].sum.matrices[sources[i]];
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

  // Vectors of a gate each, null ones being 0, one after the other.
  Node* joined(const std::vector<Node*>& rows) {
    boost::container::small_vector<Node*, 8> parts;
    for (Node* row : rows) parts.push_back(row ? row : rewriter_.constant(Tensor::zeros(DType::F32, {&width_, 1})));
    return with_direction(concatenated({parts.data(), parts.size()}));
  }

  // What there is of a layer, besides its rows and first states.
  struct Parts {
    std::vector<Gate> gates;
    std::vector<Source> of_state;  // what the second matrix of each gate takes
    std::vector<Node*> biases;     // of the rows, then of the states
    std::vector<Activation> activations;
    AttributeSet attributes;
    std::vector<Node*> peepholes;  // empty: none
  };

  Apply* layer(std::string_view op, const Parts& parts) {
    const std::vector<Source> of_row(parts.gates.size(), Row);
    Node *weights = stacked(parts.gates, of_row), *recurrent = stacked(parts.gates, parts.of_state);
    if (!weights || !recurrent || !rows_) return nullptr;
    const std::optional<float> clip = parts.gates[0].sum.clip;
    if (std::ranges::any_of(parts.gates, [&](const Gate& gate) { return gate.sum.clip != clip; })) return nullptr;
    Node* none = rewriter_.module().none();
    boost::container::small_vector<Node*, 8> operands{
        in_order(rows_, axis_), weights, recurrent, joined(parts.biases), none, with_direction(loop_.first(state_))};
    if (cell_) operands.push_back(with_direction(loop_.first(cell_)));
    if (!parts.peepholes.empty()) operands.push_back(joined(parts.peepholes));
    AttributeSet all = with_activations(op, parts).with("hidden_size", width_);
    if (clip) all = all.with("clip", *clip);
    if (reversed_) all = all.with("direction", std::string("reverse"));
    return rewriter_.apply(rewriter_.context().get_operator(op), {operands.data(), operands.size()}, all,
                           cell_ ? 3 : 2);
  }

  static AttributeSet with_activations(std::string_view op, const Parts& parts) {
    const std::vector<std::string_view> usual =
        op == "RNN" ? std::vector<std::string_view>{"Tanh"} : std::vector<std::string_view>{"Sigmoid", "Tanh", "Tanh"};
    const std::span expected = std::span(usual).first(parts.activations.size());
    if (std::ranges::equal(parts.activations, expected, {}, &Activation::name)) return parts.attributes;
    std::vector<std::string> names;
    std::vector<float> alphas, betas;  // of those that have one, in this order
    for (const Activation& activation : parts.activations) {
      names.push_back(activation.name);
      if (activation.alpha) alphas.push_back(*activation.alpha);
      if (activation.beta) betas.push_back(*activation.beta);
    }
    AttributeSet all = parts.attributes.with("activations", names);
    if (!alphas.empty()) all = all.with("activation_alpha", alphas);
    if (!betas.empty()) all = all.with("activation_beta", betas);
    return all;
  }

  // Steps in front, which are at the axis; and back.
  Node* in_order(Node* x, int axis) {
    if (axis == 0) return x;
    return rewriter_.apply("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  }

  // new = (1 − g) · fresh + g · old, or fresh + g · (old − fresh); or the same with the gate of the fresh one.
  struct Interpolation {
    Node *gate, *fresh;
    bool is_of_old;
  };
  static std::optional<Interpolation> interpolation(const Node* result, const Node* old) {
    const Apply* total = as(result, "Add");
    for (size_t side : {0u, 1u}) {
      const Apply* scaled = total ? as(total->input(side), "Mul") : nullptr;
      for (size_t k : {0u, 1u}) {
        if (!scaled) break;
        Node *gate = scaled->input(1 - k), *x = scaled->input(k), *rest = total->input(1 - side);
        if (const Apply* change = as(x, "Sub"); change && change->input(1) == rest) {
          if (change->input(0) == old) return Interpolation{gate, rest, true};
          if (rest == old) return Interpolation{gate, change->input(0), false};
        }
        const Apply* scaled_rest = as(rest, "Mul");
        for (size_t i : {0u, 1u}) {
          const Apply* other = scaled_rest ? as(scaled_rest->input(i), "Sub") : nullptr;
          if (!other || !rewrite::is_splat(other->input(0), 1) || other->input(1) != gate) continue;
          Node* y = scaled_rest->input(1 - i);
          if (x == old) return Interpolation{gate, y, true};
          if (y == old) return Interpolation{gate, x, false};
        }
      }
    }
    return std::nullopt;
  }

  // new cell = forget · old cell + input · value
  struct Memory {
    Gate input, forget, value;
    bool is_coupled;  // forget is 1 − input
  };
  std::optional<Memory> memory(const Apply& new_cell) {
    if (const auto parts = interpolation(&new_cell, cell_)) {
      auto input = gate(parts->gate, cell_), value = gate(parts->fresh);
      const bool is_known = input && value && (!parts->is_of_old || complement(*input));
      return is_known ? std::optional(Memory{*input, *input, *value, true}) : std::nullopt;
    }
    for (size_t side : {0u, 1u}) {
      const Apply *kept = as(new_cell.input(side), "Mul"), *added = as(new_cell.input(1 - side), "Mul");
      for (size_t k : {0u, 1u}) {
        if (!kept || !added || kept->input(k) != cell_) continue;
        for (size_t i : {0u, 1u}) {
          auto input = gate(added->input(i), cell_), forget = gate(kept->input(1 - k), cell_),
               value = gate(added->input(1 - i));
          if (input && forget && value && input->activation == forget->activation)
            return Memory{*input, *forget, *value, false};
        }
      }
    }
    return std::nullopt;
  }

  Apply* lstm() {
    // h = o · f(c)
    const Apply* h = as(new_state_, "Mul");
    for (size_t side : {0u, 1u}) {
      const auto bounded = h ? activated(h->input(side)) : std::nullopt;
      const Apply* c = bounded ? as(bounded->argument, "Add") : nullptr;
      auto parameters = loop_.graph->parameters();
      const auto old =
          std::ranges::find_if(parameters, [&](const Parameter* p) { return c && p != state_ && loop_.next(p) == c; });
      if (old == parameters.end()) continue;
      cell_ = *old;
      const auto output = gate(h->input(1 - side), c);
      const auto update = output ? memory(*c) : std::nullopt;
      if (!update || update->input.activation != output->activation) continue;
      const auto& [i, f, g, is_coupled] = *update;
      Parts parts{{i, *output, f, g}, {State, State, State, State}};
      for (const Gate& gate : parts.gates) parts.biases.push_back(gate.sum.bias);
      parts.biases.resize(8);
      parts.activations = {i.activation, g.activation, bounded->activation};
      if (is_coupled) parts.attributes = {{"input_forget", int64_t{1}}};
      if (i.sum.peephole || output->sum.peephole || f.sum.peephole)
        parts.peepholes = {i.sum.peephole, output->sum.peephole, f.sum.peephole};
      return layer("LSTM", parts);
    }
    return nullptr;
  }

  Apply* gru() {
    const auto update = interpolation(new_state_, state_);
    const auto candidate = update ? activated(update->fresh) : std::nullopt;
    auto z = candidate ? gate(update->gate) : std::nullopt;
    if (!z || (!update->is_of_old && !complement(*z))) return nullptr;
    const auto clip = bound_of(candidate->argument);
    Node* argument = clip ? candidate->argument->as_apply()->input(0) : candidate->argument;
    std::vector<const Apply*> pending{argument->as_apply()};
    for (size_t at = 0; at < pending.size(); ++at) {  // the sum's term that is reset
      const Apply* term = pending[at];
      if (!term || loop_.is_outside(term)) continue;
      if (term->is("Add") || term->is("MatMul") || term->is("Gemm")) {
        for (const Use& use : term->operands()) pending.push_back(use.node->as_apply());
      }
      for (size_t k : {0u, 1u}) {
        auto r = term->is("Mul") ? gate(term->input(k)) : std::nullopt;
        if (!r || r->activation != z->activation) continue;
        Node* reset = term->input(1 - k);
        if (reset == state_) {
          sources_[Reset] = term;
          auto n = affine(candidate->argument);
          if (!n || n->matrices[State]) continue;
          return layer("GRU", {{*z, *r, {*n, candidate->activation}},
                               {State, State, Reset},
                               {z->sum.bias, r->sum.bias, n->bias, nullptr, nullptr, nullptr},
                               {z->activation, candidate->activation}});
        }
        const Apply* total = as(argument, "Add");
        for (size_t side : {0u, 1u}) {
          if (!total || total->input(side) != term) continue;
          auto n = affine(total->input(1 - side)), of_state = affine(reset);
          if (!n || !of_state || n->matrices[State] || of_state->matrices[Row] || n->clip || of_state->clip) continue;
          n->matrices[State] = of_state->matrices[State], n->clip = clip;
          return layer("GRU", {{*z, *r, {*n, candidate->activation}},
                               {State, State, State},
                               {z->sum.bias, r->sum.bias, n->bias, nullptr, nullptr, of_state->bias},
                               {z->activation, candidate->activation},
                               {{"linear_before_reset", int64_t{1}}}});
        }
      }
    }
    return nullptr;
  }

  Apply* rnn() {
    const auto h = gate(new_state_);
    return h ? layer("RNN", {{*h}, {State}, {h->sum.bias, nullptr}, {h->activation}}) : nullptr;
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
  const Apply* new_state_ = nullptr;
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
