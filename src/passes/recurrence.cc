// RNN recognition: loops over the rows of X in which a cell computes its state of the row and of the state before become the LSTM, GRU or
// RNN that ONNX has for all rows at once:
//
//     %z = x·W + h·R + b                                     i, f, o, g: parts of %z, or sums of their own
//     %c = Sigmoid(f) ⊙ c + Sigmoid(i) ⊙ Tanh(g)             →   LSTM(X, W', R', b', _, h₀, c₀)
//     %h = Sigmoid(o) ⊙ Tanh(%c)
//
// Three steps, each with a language of its own:
//
//   - analysis/loops.h says what the loop scans, in which order (from the last row: direction "reverse") and along which axis.
//   - kCells are the patterns of the cells. Their variables are the gates.
//   - A gate is a function of a sum of products by matrices from outside of the loop: of the row, of the state, or of both side by side.
//     Slices of sums are slices of the matrices, which fold where they are constant.
//
// The new state in the loop is then a row of the layer's result, and the last state is the layer's. What is left of the loop is not the
// matter of this pass: collected rows are the tensor, a loop that gives nothing of its own is not run (loops.cc), and what nobody reads
// is dead. So it does not matter either whether the cell is all that the loop does, and the next cell may find its row in the states of
// this one. Linear in the size of the loops.
//
// What else ONNX has a word for: the sums of all gates are kept within ±clip (but not the cell of an LSTM before its function); other
// functions than these; peepholes, the cell times a row of weights, of which i and f see the old one, and o the new one; and
// input_forget, which is f = 1 − i.
#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/loops.h"
#include "ir/queries.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "rewrite/patterns.h"
#include "support/integers.h"

namespace anfora::passes {

extern const Pass kRecurrence;

namespace {

using namespace ir;
using analysis::Loop;
using analysis::LoopRun;
using rewrite::Rewriter;
using Found = rewrite::Patterns::Found;

constexpr std::string_view kFound = "layer-from-loop";

constexpr std::string_view kCells = R"(
class function = Sigmoid, Tanh, Relu, LeakyRelu, Elu, HardSigmoid, Softsign

# a function that layers know by the name of its operator, and compute as it does
activation: F:function{..a}(z)

# (1 − w) ⊙ x + w ⊙ y
interpolation: (Add(Mul(Sub(1, w), x), Mul(w, y)) | Add(x, Mul(w, Sub(y, x))))

# LSTM: h' = o ⊙ φ(c')
lstm: Mul(output, bounded:F:function{..a}(cell))

# where c' = f ⊙ c + i ⊙ g, or an interpolation of c and g
lstm-cell: Add(Mul(forget, cell), Mul(input, value))

# GRU: h' interpolates h and φ(n), where n is a sum of products of the row and of r ⊙ h,
gru-reset-state: Mul(reset, state)

# or n = x·W + r ⊙ (h·R + b)
gru-reset-product: Add(of_row, Mul(reset, of_state))
)";

struct Activation {
  std::string name;
  std::optional<float> alpha, beta;  // of those that have one
  bool operator==(const Activation&) const = default;
};

// A sum of products: Σ source · matrix + cell · peephole + bias. What is null is not there.
struct AffineSum {
  std::array<Node*, 3> matrices{};  // [rows, columns], by what they are multiplied to
  Node* peephole = nullptr;         // [columns]
  Node* bias = nullptr;             // [columns]
  std::optional<float> clip;        // the sum is kept within ±clip
};

// A function of such a sum.
struct Gate {
  AffineSum sum;
  Activation activation;
};

class Cell {
 public:
  Cell(const LoopRun& run, const LoopRun::Bound& bound, const rewrite::Patterns& cells, PassContext& context,
       Rewriter& rewriter)
      : run_(run), loop_(run.loop()), bound_(bound), cells_(cells), context_(context), rewriter_(rewriter) {}

  // Whether there was one.
  bool make() {
    for (const Parameter* p : loop_.header->parameters()) {
      if (rank_of(p) != 2 || p->type()->dtype() != DType::F32) continue;
      state_ = p, new_state_ = run_.next(p)->as_apply(), width_ = extent_of(p, 1);
      if (!new_state_ || width_ < 1 || new_state_->graph() != loop_.body()) continue;
      for (Apply* (Cell::*layer)() : {&Cell::lstm, &Cell::gru, &Cell::rnn}) {
        cell_ = nullptr, rows_ = std::nullopt, reset_state_ = reset_ = nullptr;
        Apply* made = (this->*layer)();
        if (!made || (context_.options.has_operator && !context_.options.has_operator(*made)) || !is_apart()) continue;
        take_out(*made);
        return true;
      }
    }
    return false;
  }

 private:
  enum Source { Row, State, ResetState };

  // Sums of products ---------------------------------------------------------------------------------------------------

  // The first row that is seen says of what.
  bool is_row(const Node* node) {
    const Apply* gather = node->as_apply();
    const auto scan = gather ? run_.scan_of(*gather, bound_, &context_.inference) : std::nullopt;
    if (!scan || rank_of(scan->tensor) != 3 || scan->axis > 1 || !loop_.is_outside(scan->tensor)) return false;
    if (rows_ && *rows_ != *scan) return false;
    rows_ = scan, index_ = gather->input(1);
    return true;
  }

  std::optional<Source> source_of(Node* node) {
    if (is_row(node)) return Row;
    if (node == state_) return State;
    auto is_reset = [&](const Found& found) {
      if (found["state"] != state_ || (reset_state_ && reset_state_ != node)) return false;
      reset_state_ = node, reset_ = found["reset"];
      return true;
    };
    const bool is_found = sees_reset_state_ && cells_.match("gru-reset-state", node, is_reset);
    return is_found ? std::optional(ResetState) : std::nullopt;
  }

  Node* integer(int64_t i) { return rewriter_.integers({&i, 1}); }
  Node* slice(Node* x, int64_t axis, int64_t begin, int64_t end) {
    if (!x || (begin == 0 && end == extent_of(x, static_cast<int>(axis)))) return x;
    return rewriter_.apply("Slice", {x, integer(begin), integer(end), integer(axis)});
  }
  Node* sum(Node* x, Node* y) { return !x ? y : !y ? x : rewriter_.apply("Add", {x, y}); }
  Node* transposed(Node* x) { return rewriter_.apply("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}}); }

  std::optional<AffineSum> affine(Node* z, const Node* cell = nullptr) {
    return rank_of(z) == 2 && extent_of(z, 1) == width_ ? terms(z, width_, cell) : std::nullopt;
  }

  // `cell`: the one that may be seen.
  std::optional<AffineSum> terms(Node* z, int64_t width, const Node* cell) {
    if (loop_.is_outside(z)) return bias(z, width);
    const Apply* node = z->as_apply();
    if (!node) return std::nullopt;
    if (node->is("Add")) return total(terms(node->input(0), width, cell), terms(node->input(1), width, cell));
    if (node->is("MatMul")) return product(node->input(0), node->input(1), width);
    if (node->is("Gemm")) return affine_product(*node, width, cell);
    if (node->is("Mul")) return peephole(*node, width, cell);
    if (node->is("Clip")) return clipped(*node, width, cell);
    const auto part = part_of(*node);
    auto whole = part ? terms(part->of, part->width, cell) : std::nullopt;
    if (!whole || whole->peephole) return std::nullopt;
    for (Node*& matrix : whole->matrices) matrix = slice(matrix, 1, part->begin, part->begin + width);
    whole->bias = slice(whole->bias, 0, part->begin, part->begin + width);
    return whole;
  }

  std::optional<AffineSum> total(std::optional<AffineSum> a, const std::optional<AffineSum>& b) {
    if (!a || !b || a->clip || b->clip) return std::nullopt;
    for (size_t i = 0; i < a->matrices.size(); ++i) a->matrices[i] = sum(a->matrices[i], b->matrices[i]);
    a->peephole = sum(a->peephole, b->peephole);
    a->bias = sum(a->bias, b->bias);
    return a;
  }

  // One row from outside.
  std::optional<AffineSum> bias(Node* x, int64_t width) {
    if (rank_of(x) == 0) return AffineSum{.bias = rewriter_.apply("Expand", {x, integer(width)})};
    if (extent_of(x, -1) != width || rank_of(x) > 2 || (rank_of(x) == 2 && extent_of(x, 0) != 1)) return std::nullopt;
    return AffineSum{.bias = rank_of(x) == 2 ? rewriter_.apply("Squeeze", {x, integer(0)}) : x};
  }

  std::optional<AffineSum> peephole(const Apply& product, int64_t width, const Node* cell) {
    const size_t side = product.input(0) == cell ? 0 : 1;
    Node* weights = product.input(1 - side);
    if (product.input(side) != cell || width != width_ || !loop_.is_outside(weights)) return std::nullopt;
    const auto row = bias(weights, width);
    return row ? std::optional(AffineSum{.peephole = row->bias}) : std::nullopt;
  }

  // c of Clip(z, −c, c).
  static std::optional<float> bound_of(const Node* z) {
    const Apply* clip = z->as_apply();
    if (!clip || !clip->is("Clip") || !clip->has_input(1) || !clip->has_input(2)) return std::nullopt;
    const auto least = rewrite::splat_value(clip->input(1)), most = rewrite::splat_value(clip->input(2));
    const bool is_symmetric = least && most && *most > 0 && *least == -*most;
    return is_symmetric ? std::optional(static_cast<float>(*most)) : std::nullopt;
  }

  std::optional<AffineSum> clipped(const Apply& clip, int64_t width, const Node* cell) {
    const auto bound = bound_of(&clip);
    auto inner = bound ? terms(clip.input(0), width, cell) : std::nullopt;
    if (!inner || inner->clip) return std::nullopt;
    inner->clip = bound;
    return inner;
  }

  std::optional<AffineSum> affine_product(const Apply& gemm, int64_t width, const Node* cell) {
    const bool is_plain = gemm.attributes().get_int("transA", 0) == 0 && gemm.attributes().get_float("alpha", 1) == 1 &&
                          gemm.attributes().get_float("beta", 1) == 1;
    if (!is_plain || !loop_.is_outside(gemm.input(1))) return std::nullopt;
    const bool is_transposed = gemm.attributes().get_int("transB", 0) != 0;
    auto of_matrix = product(gemm.input(0), is_transposed ? transposed(gemm.input(1)) : gemm.input(1), width);
    return gemm.has_input(2) ? total(terms(gemm.input(2), width, cell), of_matrix) : of_matrix;
  }

  std::optional<AffineSum> product(Node* x, Node* matrix, int64_t width) {
    if (!loop_.is_outside(matrix) || rank_of(matrix) != 2 || extent_of(matrix, 1) != width) return std::nullopt;
    AffineSum to;
    if (const auto source = source_of(x)) {
      to.matrices[*source] = matrix;
      return to;
    }
    const Apply* concat = x->as_apply();
    if (!concat || !concat->is("Concat") || axis_of(*concat, 2) != 1) return std::nullopt;
    int64_t row = 0;
    for (const Use& use : concat->operands()) {
      const auto source = source_of(use.node);
      const int64_t height = rank_of(use.node) == 2 ? extent_of(use.node, 1) : -1;
      if (!source || height < 0) return std::nullopt;
      to.matrices[*source] = sum(to.matrices[*source], slice(matrix, 0, row, row + height));
      row += height;
    }
    return to;
  }

  // Columns of a tensor, from `begin` on.
  struct Part {
    Node* of;
    int64_t width, begin;
  };
  static std::optional<Part> part_of(const Apply& node) {
    if (node.primitive() == Primitive::TupleGetItem) {
      const Apply* split = node.input(0)->as_apply();
      if (!split || !split->is("Split") || axis_of(*split, 2) != 1) return std::nullopt;
      Part part{split->input(0), extent_of(split->input(0), 1), 0};
      for (int64_t i = 0; i < node.attributes().require_int("index"); ++i) {
        const auto width = split->type()->element(static_cast<size_t>(i))->dim(1).as_constant();
        if (!width) return std::nullopt;
        part.begin += *width;
      }
      return part;
    }
    if (!node.is("Slice") || !node.has_input(3)) return std::nullopt;
    const auto start = integer_of(constant_tensor(node.input(1))), axis = integer_of(constant_tensor(node.input(3))),
               step = node.has_input(4) ? integer_of(constant_tensor(node.input(4))) : std::optional<int64_t>(1);
    if (!start || *start < 0 || (axis != 1 && axis != -1) || step != 1) return std::nullopt;
    return Part{node.input(0), extent_of(node.input(0), 1), *start};
  }

  // Gates --------------------------------------------------------------------------------------------------------------

  // Null: it is no function of a layer.
  const Apply* activated(Node* node) const { return cells_.match("activation", node) ? node->as_apply() : nullptr; }
  static Activation activation_of(const Apply& node) {
    auto number = [&](std::string_view name) {
      const AttributeValue* value = attribute_or_default(node, name);
      return value ? std::optional(std::get<float>(*value)) : std::nullopt;
    };
    return {node.op().name, number("alpha"), number("beta")};
  }

  std::optional<Gate> gate(Node* node, const Node* cell = nullptr) {
    const Apply* function = activated(node);
    const auto sum = function ? affine(function->input(0), cell) : std::nullopt;
    return sum ? std::optional(Gate{*sum, activation_of(*function)}) : std::nullopt;
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

  // (1 − w) ⊙ fresh + w ⊙ old, or the same by the weight of the fresh one.
  struct Interpolation {
    Node *weight, *fresh;
    bool is_of_old;
  };
  static std::optional<Interpolation> interpolation(const Found& found, const Node* old) {
    if (found["y"] == old) return Interpolation{found["w"], found["x"], true};
    if (found["x"] == old) return Interpolation{found["w"], found["y"], false};
    return std::nullopt;
  }

  // Cells --------------------------------------------------------------------------------------------------------------

  Apply* lstm() {
    Apply* made = nullptr;
    cells_.match("lstm", new_state_, [&](const Found& h) {
      auto is_next = [&](const Parameter* p) { return p != state_ && run_.next(p) == h["cell"]; };
      const auto parameters = loop_.header->parameters();
      const auto cell = std::ranges::find_if(parameters, is_next);
      if (cell == parameters.end()) return false;
      cell_ = *cell;
      const auto output = gate(h["output"], h["cell"]);
      auto of_gates = [&](const std::optional<Gate>& input, const std::optional<Gate>& forget,
                          const std::optional<Gate>& value, const AttributeSet& attributes) {
        if (!input || !forget || !value) return false;
        if (input->activation != output->activation || forget->activation != output->activation) return false;
        Parts parts{.gates = {*input, *output, *forget, *value}, .attributes = attributes};
        for (const Gate& gate : parts.gates) parts.biases.push_back(gate.sum.bias);
        parts.biases.resize(8);
        parts.activations = {input->activation, value->activation, activation_of(*h["bounded"]->as_apply())};
        parts.peepholes = {input->sum.peephole, output->sum.peephole, forget->sum.peephole};
        made = layer("LSTM", parts);
        return made != nullptr;
      };
      auto coupled = [&](const Found& c) {
        const auto parts = interpolation(c, cell_);
        auto input = parts ? gate(parts->weight, cell_) : std::nullopt;
        if (!input || (parts->is_of_old && !complement(*input))) return false;
        return of_gates(input, input, gate(parts->fresh), {{"input_forget", int64_t{1}}});
      };
      auto separate = [&](const Found& c) {
        return c["cell"] == cell_ && of_gates(gate(c["input"], cell_), gate(c["forget"], cell_), gate(c["value"]), {});
      };
      if (!output) return false;
      return cells_.match("interpolation", h["cell"], coupled) || cells_.match("lstm-cell", h["cell"], separate);
    });
    return made;
  }

  Apply* gru() {
    Apply* made = nullptr;
    cells_.match("interpolation", new_state_, [&](const Found& h) {
      const auto parts = interpolation(h, state_);
      const Apply* candidate = parts ? activated(parts->fresh) : nullptr;
      auto update = candidate ? gate(parts->weight) : std::nullopt;
      if (!update || (!parts->is_of_old && !complement(*update))) return false;
      made = of_reset_state(*update, *candidate);
      if (!made) made = of_reset_product(*update, *candidate);
      return made != nullptr;
    });
    return made;
  }

  Apply* of_reset_state(const Gate& update, const Apply& candidate) {
    sees_reset_state_ = true;
    const auto sum = affine(candidate.input(0));
    sees_reset_state_ = false;
    if (!sum || !reset_ || sum->matrices[State]) return nullptr;
    return gru_layer({update, gate(reset_), Gate{*sum, activation_of(candidate)}}, ResetState, nullptr, {});
  }

  Apply* of_reset_product(const Gate& update, const Apply& candidate) {
    Apply* made = nullptr;
    Node* z = candidate.input(0);
    const auto clip = bound_of(z);
    cells_.match("gru-reset-product", clip ? z->as_apply()->input(0) : z, [&](const Found& n) {
      auto of_row = affine(n["of_row"]);
      const auto of_state = affine(n["of_state"]);
      if (!of_row || !of_state || of_row->matrices[State] || of_state->matrices[Row] || of_row->clip || of_state->clip)
        return false;
      of_row->matrices[State] = of_state->matrices[State], of_row->clip = clip;
      made = gru_layer({update, gate(n["reset"]), Gate{*of_row, activation_of(candidate)}}, State, of_state->bias,
                       {{"linear_before_reset", int64_t{1}}});
      return made != nullptr;
    });
    return made;
  }

  Apply* gru_layer(const std::array<std::optional<Gate>, 3>& gates, Source last, Node* bias_of_state,
                   const AttributeSet& attributes) {
    const auto& [update, reset, candidate] = gates;
    if (!reset || reset->activation != update->activation) return nullptr;
    const std::vector<Node*> biases{update->sum.bias, reset->sum.bias, candidate->sum.bias, nullptr, nullptr, bias_of_state};
    return layer("GRU", {.gates = {*update, *reset, *candidate},
                         .last = last,
                         .biases = biases,
                         .activations = {update->activation, candidate->activation},
                         .attributes = attributes});
  }

  Apply* rnn() {
    const auto h = gate(new_state_);
    if (!h) return nullptr;
    return layer("RNN", {.gates = {*h}, .biases = {h->sum.bias, nullptr}, .activations = {h->activation}});
  }

  // Layers -------------------------------------------------------------------------------------------------------------

  // What there is of a layer, besides its rows and first states.
  struct Parts {
    std::vector<Gate> gates;
    Source last = State;  // what the last gate sees for the state
    std::vector<Node*> biases;
    std::vector<Activation> activations;
    AttributeSet attributes = {};
    std::vector<Node*> peepholes = {};
  };

  Apply* layer(std::string_view op, const Parts& parts) {
    std::vector<Node*> of_row, of_state;
    for (const Gate& gate : parts.gates) {
      if (gate.sum.clip != parts.gates[0].sum.clip) return nullptr;
      of_row.push_back(gate.sum.matrices[Row]);
      of_state.push_back(gate.sum.matrices[&gate == &parts.gates.back() ? parts.last : State]);
    }
    if (!rows_ || std::ranges::count(of_row, nullptr) > 0 || std::ranges::count(of_state, nullptr) > 0) return nullptr;
    std::vector<Node*> operands{in_order(rows_->tensor, rows_->axis), stacked(of_row), stacked(of_state),
                                joined(parts.biases), rewriter_.module().none(), first(*state_)};
    if (cell_) operands.push_back(first(*cell_));
    if (std::ranges::any_of(parts.peepholes, [](const Node* n) { return n != nullptr; }))
      operands.push_back(joined(parts.peepholes));
    AttributeSet all = with_activations(op, parts).with("hidden_size", width_);
    if (const auto clip = parts.gates[0].sum.clip) all = all.with("clip", *clip);
    if (rows_->reversed) all = all.with("direction", std::string("reverse"));
    return rewriter_.apply(rewriter_.context().get_operator(op), operands, all, cell_ ? 3 : 2);
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

  Node* concatenated(std::span<Node* const> parts, int64_t axis) {
    if (parts.size() == 1) return parts[0];
    return rewriter_.apply(rewriter_.context().get_operator("Concat"), parts, {{"axis", axis}});
  }
  Node* with_direction(Node* x) { return rewriter_.apply("Unsqueeze", {x, integer(0)}); }
  Node* first(const Parameter& state) { return with_direction(loop_.entries[0]->input(state.index() + 1)); }
  // The matrices of gates one below the other, [1, gates · width, rows].
  Node* stacked(std::span<Node* const> matrices) { return with_direction(transposed(concatenated(matrices, 1))); }
  // Vectors of a gate each, null ones being 0, one after the other.
  Node* joined(std::vector<Node*> rows) {
    for (Node*& row : rows) row = row ? row : rewriter_.constant(Tensor::zeros(DType::F32, {&width_, 1}));
    return with_direction(concatenated(rows, 0));
  }
  // Steps in front, which are at the axis.
  Node* in_order(Node* x, int64_t axis) {
    return axis == 0 ? x : rewriter_.apply("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  }

  // The loop around it ---------------------------------------------------------------------------------------------------

  // Whether all that comes of the states before the step is their next values, and of their last values what is done in the end.
  bool is_apart() const {
    std::vector<const Node*> pending{state_};
    if (cell_) pending.push_back(cell_);
    boost::unordered_flat_set<const Node*> seen{new_state_};
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      if (!seen.insert(node).second) continue;
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
  void take_out(Apply& made) {
    Module& module = rewriter_.module();
    context_.remarks.applied(kRecurrence.name, kFound, *new_state_);
    Graph* around = loop_.entries[0]->graph();  // the layer is there
    if (!loop_.header->is_inside(around)) module.set_parent(loop_.header->value()->function(), around);
    Node* operands[] = {rewriter_.apply("Squeeze", {rewriter_.item(&made, 0), integer(1)}), index_};
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
  const LoopRun::Bound& bound_;
  const rewrite::Patterns& cells_;
  PassContext& context_;
  Rewriter& rewriter_;
  const Parameter *state_ = nullptr, *cell_ = nullptr;  // of an LSTM, also the cell
  Apply* new_state_ = nullptr;
  int64_t width_ = 0;
  std::optional<LoopRun::Scan> rows_;
  Node* index_ = nullptr;  // of the row
  bool sees_reset_state_ = false;
  Node *reset_state_ = nullptr, *reset_ = nullptr;  // and its gate
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
    static const auto context_of_cells = ops::make_context();
    static const rewrite::Patterns cells(*context_of_cells, kCells, "the cells of recurrent layers");
    Rewriter rewriter(module, context.inference);
    rewriter.set_root(*loop->entries[0]);
    try {
      found += Cell(run, *bound, cells, context, rewriter).make();
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
