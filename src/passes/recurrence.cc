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
// A cell among others, as several layers in one loop have them, comes out of it: the loop has the row of all its states, which the
// next cell may find to be its row.
//
// What else ONNX has a word for: the sums of all gates are kept within ±clip (but not the cell of an LSTM before its function); other
// functions than these; peepholes, the cell times a row of weights, of which i and f see the old one, and o the new one; and
// input_forget, which is f = 1 − i.
#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "passes/pass.h"
#include "rewrite/match.h"
#include "support/integers.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Rewriter;

constexpr std::string_view kFound = "layer-from-loop";
constexpr std::string_view kTaken = "layer-out-of-loop";

const Apply* as_operator(const Node* node, std::string_view op) {
  const Apply* apply = node ? node->as_apply() : nullptr;
  return apply && apply->is(op) ? apply : nullptr;
}

std::optional<int64_t> known_integer(const Node* node) { return integer_of(constant_tensor(node)); }

// A number before it was cast to a type that has all numbers of steps that a run comes to.
const Node* without_casts(const Node* node) {
  constexpr std::array kWide{DType::I32, DType::I64, DType::F32, DType::F64};
  for (;;) {
    const Apply* apply = node->as_apply();
    if (!apply || !apply->type() || !apply->type()->is_tensor()) return node;
    const bool is_cast = apply->is("Cast") && std::ranges::count(kWide, apply->type()->dtype()) > 0;
    const bool is_view = apply->is("Squeeze") || apply->is("Unsqueeze") || apply->is("Reshape");
    if (!is_cast && !is_view) return node;
    node = apply->input(0);
  }
}

// A loop over the rows of a tensor.
struct RecurrentLoop {
  Graph* graph;
  Apply* entry = nullptr;        // the call from outside
  const Apply* again = nullptr;  // the call at the end of the body
  Graph *body, *done;
  const Parameter* index = nullptr;  // 0, 1, 2, …
  const Node* count = nullptr;       // of steps

  static std::optional<RecurrentLoop> of(Graph& graph) {
    const Apply* run = graph.result() ? graph.result()->as(Primitive::Call) : nullptr;
    const Apply* choice = run && run->num_inputs() == 1 ? run->input(0)->as(Primitive::Switch) : nullptr;
    if (!choice) return std::nullopt;
    RecurrentLoop loop{
        .graph = &graph, .body = constant_function(choice->input(1)), .done = constant_function(choice->input(2))};
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
    return loop.find_count(choice->input(0)) ? std::optional(loop) : std::nullopt;
  }

  // Whether the test is that the index is below the count: in this step, or, of a truth value that is carried along, in the step
  // before for this one.
  bool find_count(const Node* test) {
    const Parameter* carried = test->as_parameter();
    if (carried && carried->graph() != graph) return false;
    const Apply* less = as_operator(carried ? next(carried) : test, "Less");
    const Node* tested = less ? without_casts(less->input(0)) : nullptr;
    for (const Parameter* p : graph->parameters()) {
      const Apply* following = as_operator(next(p), "Add");
      const bool counts = following && following->input(0) == p && known_integer(following->input(1)) == 1 &&
                          known_integer(first(p)) == 0;
      if (!counts || tested != (carried ? static_cast<const Node*>(following) : p)) continue;
      index = p, count = without_casts(less->input(1));
      return !carried || holds_at_first(first(carried));
    }
    return false;
  }
  // Where it is not asked whether there is a first row, reading it fails where there is none.
  bool holds_at_first(const Node* test) const {
    const Apply* greater = as_operator(test, "Greater");
    return rewrite::is_splat(test, 1) ||
           (greater && without_casts(greater->input(0)) == count && rewrite::is_splat(greater->input(1), 0));
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
struct AffineSum {
  const Node* cell = nullptr;       // that may be seen; null: none
  std::array<Node*, 3> matrices{};  // [rows, columns] by source; null: none
  Node* peephole = nullptr;         // [columns]; null: none
  Node* bias = nullptr;             // [columns]; null: none
  std::optional<float> clip;        // the sum is kept within ±clip
};

// A function of such a sum.
struct Gate {
  AffineSum sum;
  Activation activation;
};

// Columns [begin, end) of a tensor.
struct Columns {
  Node* of;
  int64_t begin, end;
};

class Cell {
 public:
  Cell(const RecurrentLoop& loop, PassContext& context, Rewriter& rewriter)
      : loop_(loop), context_(context), rewriter_(rewriter) {}

  // Whether there was one. It takes the place of the loop, or of what the loop has of it.
  bool make() {
    for (Parameter* p : loop_.graph->parameters()) {
      if (rank_of(p) != 2 || p->type()->dtype() != DType::F32) continue;
      Apply* next = loop_.next(p)->as_apply();
      state_ = p, new_state_ = next;
      const auto width = p->type()->dim(1).as_constant();
      if (!next || !width || *width < 1 || loop_.is_outside(next)) continue;
      width_ = *width;
      for (Apply* (Cell::*layer)() : {&Cell::lstm, &Cell::gru, &Cell::rnn}) {
        cell_ = nullptr, rows_ = nullptr, axis_ = 0, reversed_ = false, sources_ = {};
        Apply* made = (this->*layer)();
        if (!made || (context_.options.has_operator && !context_.options.has_operator(*made))) continue;
        if (replace_loop(made) || take_out(made)) return true;
      }
    }
    return false;
  }

 private:
  enum Source { Row, State, Reset };

  // The rows -----------------------------------------------------------------------------------------------------------

  // Whether the node is the row of this step; the first one says of what.
  bool is_row(const Node* node) {
    const Apply* gather = as_operator(node, "Gather");
    if (!gather || !loop_.is_outside(gather->input(0)) || rank_of(gather->input(0)) != 3) return false;
    Node* rows = gather->input(0);
    const int axis = axis_of_steps(*gather);
    if (axis < 0) return false;
    const Dim steps = rows->type()->dim(axis);
    const bool reversed = is_from_the_end(gather->input(1), steps);
    if (!reversed && gather->input(1) != loop_.index) return false;
    if (rows_) return rows_ == rows && axis_ == axis && reversed_ == reversed;
    if (!is_known(loop_.count, steps)) return false;
    rows_ = rows, index_ = gather->input(1), axis_ = axis, reversed_ = reversed;
    return true;
  }

  // 0: rows are in front; 1: behind the batch; −1: elsewhere.
  static int axis_of_steps(const Apply& node) {
    const int64_t axis = axis_of(node, 3).value_or(-1);
    return axis == 0 || axis == 1 ? static_cast<int>(axis) : -1;
  }

  bool is_known(const Node* node, Dim value) const {
    auto elements = context_.inference.elements(node);
    return elements && elements->size() == 1 && provably_equal((*elements)[0], value);
  }

  // steps − 1 − i in step i.
  bool is_from_the_end(const Node* index, Dim steps) const {
    const Apply* difference = as_operator(index, "Sub");
    return difference && difference->input(1) == loop_.index && is_known(difference->input(0), steps - 1);
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

  // How wide the parts of a Split before one are.
  static std::optional<int64_t> start_of_part(const Apply& part) {
    int64_t start = 0;
    const Type* parts = part.input(0)->type();
    for (size_t i = 0; i < static_cast<size_t>(part.attributes().require_int("index")); ++i) {
      const auto width = parts->element(i)->dim(1).as_constant();
      if (!width) return std::nullopt;
      start += *width;
    }
    return start;
  }

  // The same columns, of what the tensor is a slice of.
  Columns unsliced(Columns z) const {
    while (const Apply* node = loop_.is_outside(z.of) ? nullptr : z.of->as_apply()) {
      int64_t before = 0;
      if (const Apply* split =
              node->primitive() == Primitive::TupleGetItem ? as_operator(node->input(0), "Split") : nullptr) {
        if (axis_of(*split, 2) != 1) break;
        const auto start = start_of_part(*node);
        if (!start) break;
        before = *start;
        node = split;
      } else if (node->is("Slice")) {
        const auto start = known_integer(node->input(1)),
                   axis = node->has_input(3) ? known_integer(node->input(3)) : std::nullopt;
        const bool by_one = !node->has_input(4) || known_integer(node->input(4)) == 1;
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

  bool add_terms(Columns columns, AffineSum& to) {
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

  bool add_peephole(const Apply& product, int64_t begin, int64_t end, AffineSum& to) {
    const size_t side = product.input(0) == to.cell ? 0 : 1;
    if (product.input(side) != to.cell || begin != 0 || end != width_) return false;
    Node* weights = part_of_row({product.input(1 - side), begin, end});
    to.peephole = weights ? sum(to.peephole, weights) : to.peephole;
    return weights != nullptr;
  }

  bool add_product(Node* source, Node* matrix, bool transposed, int64_t begin, int64_t end, AffineSum& to) {
    if (!loop_.is_outside(matrix) || rank_of(matrix) != 2) return false;
    if (transposed) matrix = rewriter_.apply("Transpose", {matrix}, {{"perm", std::vector<int64_t>{1, 0}}});
    Node* columns = slice(matrix, 1, begin, end);
    if (auto known = source_of(source)) {
      to.matrices[*known] = sum(to.matrices[*known], columns);
      return true;
    }
    const Apply* concat = as_operator(source, "Concat");
    if (!concat || axis_of(*concat, 2) != 1) return false;
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
    const Apply* clip = as_operator(z, "Clip");
    if (!clip || !clip->has_input(1) || !clip->has_input(2)) return std::nullopt;
    const auto least = rewrite::splat_value(clip->input(1)), most = rewrite::splat_value(clip->input(2));
    const bool is_symmetric = least && most && *most > 0 && *least == -*most;
    return is_symmetric ? std::optional(static_cast<float>(*most)) : std::nullopt;
  }

  std::optional<AffineSum> affine(Node* z, const Node* cell = nullptr) {
    if (rank_of(z) != 2 || z->type()->dim(1).as_constant() != width_) return std::nullopt;
    Columns columns = unsliced({z, 0, width_});
    AffineSum sum{cell};
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
      const AttributeValue* value = attribute_or_default(*apply, name);
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
    const Apply* total = as_operator(result, "Add");
    for (size_t side : {0u, 1u}) {
      const Apply* scaled = total ? as_operator(total->input(side), "Mul") : nullptr;
      for (size_t k : {0u, 1u}) {
        if (!scaled) break;
        Node *gate = scaled->input(1 - k), *x = scaled->input(k), *rest = total->input(1 - side);
        if (const Apply* change = as_operator(x, "Sub"); change && change->input(1) == rest) {
          if (change->input(0) == old) return Interpolation{gate, rest, true};
          if (rest == old) return Interpolation{gate, change->input(0), false};
        }
        const Apply* scaled_rest = as_operator(rest, "Mul");
        for (size_t i : {0u, 1u}) {
          const Apply* other = scaled_rest ? as_operator(scaled_rest->input(i), "Sub") : nullptr;
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
      const Apply *kept = as_operator(new_cell.input(side), "Mul"),
                  *added = as_operator(new_cell.input(1 - side), "Mul");
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
    const Apply* h = as_operator(new_state_, "Mul");
    for (size_t side : {0u, 1u}) {
      const auto bounded = h ? activated(h->input(side)) : std::nullopt;
      const Apply* c = bounded ? as_operator(bounded->argument, "Add") : nullptr;
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
          if (!n || n->matrices[State]) {
            sources_[Reset] = nullptr;
            continue;
          }
          return layer("GRU", {{*z, *r, {*n, candidate->activation}},
                               {State, State, Reset},
                               {z->sum.bias, r->sum.bias, n->bias, nullptr, nullptr, nullptr},
                               {z->activation, candidate->activation}});
        }
        const Apply* total = as_operator(argument, "Add");
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

  Node* last_of(Apply* made, const Node* state) {
    return rewriter_.apply("Squeeze", {rewriter_.item(made, state == state_ ? 1 : 2), integer(0)});
  }
  // In the order of the rows.
  Node* all_states(Apply* made) { return rewriter_.apply("Squeeze", {rewriter_.item(made, 0), integer(1)}); }

  Node* turned_over(Node* x) {
    Node* back = integer(-1);
    return rewriter_.apply("Slice", {x, back, integer(-std::numeric_limits<int64_t>::max()), integer(0), back});
  }

  // Where each result is one of the layer, or of something outside.
  bool replace_loop(Apply* made) {
    const Apply* tuple = loop_.done->result()->as(Primitive::MakeTuple);
    std::vector<Node*> wanted;
    if (tuple) {
      for (const Use& use : tuple->operands()) wanted.push_back(use.node);
    } else {
      wanted.push_back(loop_.done->result());
    }
    std::vector<Node*> results;
    for (Node* node : wanted) {
      const Apply* stack = as_operator(node, "StackSequence");
      if (loop_.is_outside(node)) {
        results.push_back(node);
      } else if (node == state_ || (cell_ && node == cell_)) {
        results.push_back(last_of(made, node));
      } else if (stack && is_all_states(*stack)) {
        Node* states = all_states(made);
        if ((stack->attributes().get_int("reverse", 0) != 0) != reversed_) states = turned_over(states);
        results.push_back(in_order(states, axis_of_steps(*stack)));
      } else {
        return false;
      }
    }
    Module& module = rewriter_.module();
    context_.remarks.applied(kRecurrence.name, kFound, *loop_.entry);
    Node* all = results[0];
    if (tuple) {
      Apply* made_tuple = module.make_tuple(loop_.entry->graph(), results);
      made_tuple->set_type(loop_.entry->type());
      all = made_tuple;
    }
    module.replace(loop_.entry, all);
    return true;
  }

  // Where the loop may have rows of the layer, and does not need the states before a step for anything else.
  bool take_out(Apply* made) {
    if (!loop_.graph->is_inside(loop_.entry->graph()) || !is_apart()) return false;
    Module& module = rewriter_.module();
    context_.remarks.applied(kRecurrence.name, kTaken, *new_state_);
    Node* operands[] = {all_states(made), index_};
    Apply* row = module.apply(new_state_->graph(), module.context().get_operator("Gather"), operands, {}, 1,
                              new_state_->location());
    context_.inference.infer(*row);
    module.replace(new_state_, row);
    for (Parameter* state : {state_, cell_}) {
      const auto uses = state ? uses_when_done(*state) : Uses{};
      Node* last = uses.empty() ? nullptr : last_of(made, state);
      for (const auto& [user, index] : uses) module.set_operand(user, index, last);
    }
    return true;
  }

  // All that comes of the states before the step is their next values, and of their last values what is done in the end.
  bool is_apart() const {
    if (new_state_->graph() != loop_.body) return false;
    std::vector<const Node*> pending{state_};
    if (cell_) pending.push_back(cell_);
    boost::unordered_flat_set<const Node*> seen{new_state_};
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      if (!seen.insert(node).second) continue;
      for (const Use& use : node->uses()) {
        if (node->as_parameter() && use.user->graph()->is_inside(loop_.done)) continue;
        if (use.user == loop_.again) {
          if (!cell_ || use.index() != cell_->index() + 1) return false;
          continue;
        }
        if (use.user->graph() != loop_.body) return false;
        pending.push_back(use.user);
      }
    }
    return true;
  }
  using Uses = std::vector<std::pair<Apply*, size_t>>;
  Uses uses_when_done(const Parameter& state) const {
    Uses uses;
    for (const Use& use : state.uses()) {
      if (use.user->graph()->is_inside(loop_.done)) uses.emplace_back(use.user, use.index());
    }
    return uses;
  }

  bool is_all_states(const Apply& stack) const {
    const Parameter* all = stack.input(0)->as_parameter();
    if (!all || all->graph() != loop_.graph || axis_of_steps(stack) < 0) return false;
    if (!as_operator(loop_.first(all), "SequenceEmpty")) return false;
    const Apply* insert = as_operator(loop_.next(all), "SequenceInsert");
    if (!insert || insert->num_inputs() != 2 || insert->input(0) != all) return false;
    const Node* collected = insert->input(1);  // an Identity, where the body has one result twice
    while (const Apply* identity = as_operator(collected, "Identity")) collected = identity->input(0);
    return collected == new_state_;
  }

  const RecurrentLoop& loop_;
  PassContext& context_;
  Rewriter& rewriter_;
  Parameter *state_ = nullptr, *cell_ = nullptr;  // of an LSTM, also the cell
  Apply* new_state_ = nullptr;
  std::array<const Node*, 3> sources_{};
  Node* rows_ = nullptr;   // [steps, batch, size], or the batch in front
  Node* index_ = nullptr;  // of the row
  int axis_ = 0;           // of the steps in it
  bool reversed_ = false;  // the last row first
  int64_t width_ = 0;
};

size_t run_recurrence(PassContext& context) {
  if (context.options.math != rewrite::Promise::Real) return 0;
  Module& module = context.module;
  size_t found = 0;
  for (Graph* graph : std::vector<Graph*>(module.graphs().begin(), module.graphs().end())) {
    auto loop = RecurrentLoop::of(*graph);
    if (!loop) continue;
    Rewriter rewriter(module, context.inference);
    rewriter.set_root(*loop->entry);
    try {
      found += Cell(*loop, context, rewriter).make();
    } catch (const rewrite::Refusal& refusal) {
      context.remarks.refused(kRecurrence.name, kFound, *loop->entry, refusal.why);
    }
    rewriter.discard_made();
  }
  return found;
}

}  // namespace

const Pass kRecurrence{"recurrence", "recurrent layers", "recognize loops that are an LSTM, a GRU or an RNN",
                       run_recurrence};

}  // namespace anfora::passes
