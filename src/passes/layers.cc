// Recurrent layers (LSTM, GRU, RNN) as one would write them, however exporters did:
//
//   - layer-defaults      first states, biases and peepholes of zeros are left out, and so are the usual functions
//   - layer-last-state    the last row of Y is Y_h
//   - layer-reversed      a layer of the rows from the last to the first is one in the other direction, where Y is not read or
//                         is turned over again:  turned(LSTM(turned(X)))  =  LSTM{direction="reverse"}(X)
//   - layers-both-ways    layers of the same rows in opposite directions are one in both, where their results are read side by
//                         side, or added:
//
//     Concat(Squeeze(LSTM(X)), Squeeze(LSTM{reverse}(X)))   →   Y = LSTM{bidirectional}(X), Concat(Y[:, 0], Y[:, 1])
//
// None computes a number differently. Linear in the number of applications.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ir/queries.h"
#include "passes/pass.h"
#include "rewrite/match.h"
#include "support/integers.h"

namespace anfora::passes {

extern const Pass kLayers;

namespace {

using namespace ir;
using rewrite::Rewriter;

constexpr std::string_view kDefaults = "layer-defaults";
constexpr std::string_view kLastState = "layer-last-state";
constexpr std::string_view kReversed = "layer-reversed";
constexpr std::string_view kBothWays = "layers-both-ways";

// How many operators may be between a first state and the zeros that it is made of.
constexpr int kDeepestZero = 8;

enum LayerOperand : size_t { X, W, R, B, Lengths, FirstH, FirstC, P };
constexpr LayerOperand kTensors[] = {W, R, B, FirstH, FirstC, P};  // of all directions, one after the other
constexpr size_t kMostResults = 3;                                 // Y, and the last states

bool is_layer(const Apply& node) { return node.is("LSTM") || node.is("GRU") || node.is("RNN"); }

std::optional<int64_t> constant_integer(const Node* node) { return integer_of(constant_tensor(node)); }

bool is_absent(const Node* node) { return node->as_value() && node->as_value()->is_none(); }

bool is_zero(const Node* node, int depth = kDeepestZero) {
  if (rewrite::is_splat(node, 0)) return true;
  const Apply* apply = node->as_apply();
  if (!apply || depth == 0) return false;
  if (apply->primitive() == Primitive::TupleGetItem) apply = apply->input(0)->as_apply();
  if (!apply) return false;
  if (apply->is("ConstantOfShape")) {
    const AttributeValue* value = apply->attributes().find("value");
    const Tensor* element = value ? &std::get<Tensor>(*value) : nullptr;
    return !element || (element->dtype() == DType::F32 && element->data<float>()[0] == 0);
  }
  if (apply->is("Concat"))
    return std::ranges::all_of(apply->operands(), [&](const Use& use) { return is_zero(use.node, depth - 1); });
  return apply->op().takes_elements && is_zero(apply->input(0), depth - 1);
}

// The one place that a Gather takes along an axis of a tensor of that rank, so that the axis goes.
std::optional<int64_t> place(const Apply& node, int axis, int rank) {
  if (!node.is("Gather") || rank_of(node.input(1)) != 0) return std::nullopt;
  return axis_of(node, rank) == axis ? constant_integer(node.input(1)) : std::nullopt;
}

// Whether the node is its operand without an axis, of one.
bool squeezes(const Apply& node, int axis) {
  if (node.is("Squeeze")) return node.has_input(1) && constant_integer(node.input(1)) == axis;
  if (!node.is("Reshape") || rank_of(node.input(0)) != rank_of(&node) + 1) return false;
  const Type *from = node.input(0)->type(), *to = node.type();
  for (int i = 0; i < to->rank(); ++i) {
    if (!provably_equal(to->dim(i), from->dim(i < axis ? i : i + 1))) return false;
  }
  return from->dim(axis).as_constant() == 1;
}

// Whether the node is x from the last to the first along the axis.
bool turns_over(const Apply& node, int axis) {
  if (!node.is("Slice") || !node.has_input(3) || !node.has_input(4) || rank_of(node.input(0)) <= axis) return false;
  const auto rows = node.input(0)->type()->dim(axis).as_constant(), end = constant_integer(node.input(2));
  return constant_integer(node.input(1)) == -1 && end &&
         *end < -rows.value_or(std::numeric_limits<int32_t>::max() - 1) && constant_integer(node.input(3)) == axis &&
         constant_integer(node.input(4)) == -1;
}

class Layer {
 public:
  Layer(Apply& node, PassContext& context, Rewriter& rewriter) : node_(&node), context_(context), rewriter_(rewriter) {
    for (const Use& use : node.operands()) operands_.push_back(use.node);
    operands_.resize(P + 1, rewriter.module().none());
    direction_ = attributes().get_string("direction", "forward");
  }

  // Whether anything changed.
  bool improve() { return leave_out_defaults() || read_last_states() || turn_round() || join_other_direction(); }

 private:
  const AttributeSet& attributes() const { return node_->attributes(); }
  bool has(LayerOperand i) const { return !is_absent(operands_[i]); }
  bool is_bidirectional() const { return direction_ == "bidirectional"; }
  bool is_plain() const { return !has(Lengths) && attributes().get_int("layout", 0) == 0; }

  // The values of a result.
  static std::vector<Node*> result(Apply& layer, size_t i) {
    if (layer.num_outputs() == 1) return i == 0 ? std::vector<Node*>{&layer} : std::vector<Node*>{};
    std::vector<Node*> values;
    for (const Use& use : layer.uses()) {
      const bool is_it = use.user->primitive() == Primitive::TupleGetItem &&
                         use.user->attributes().require_int("index") == static_cast<int64_t>(i);
      if (is_it && use.user->has_uses()) values.push_back(use.user);
    }
    return values;
  }
  // Dead ones aside.
  static std::vector<Apply*> readers(std::span<Node* const> values) {
    std::vector<Apply*> readers;
    for (Node* value : values) {
      for (const Use& use : value->uses()) {
        if (use.user->has_uses() || use.user->primitive() == Primitive::Return) readers.push_back(use.user);
      }
    }
    return readers;
  }

  Apply* make(const AttributeSet& attributes, size_t num_results) {
    size_t count = operands_.size();
    while (is_absent(operands_[count - 1])) --count;
    return rewriter_.apply(node_->op(), {operands_.data(), count}, attributes, num_results);
  }
  Node* scalar(int64_t i) { return rewriter_.constant(Tensor::scalar<int64_t>(i)); }
  Node* axes(int64_t i) { return rewriter_.integers({&i, 1}); }

  // layer-defaults -----------------------------------------------------------------------------------------------------

  bool leave_out_defaults() {
    bool changed = false;
    for (LayerOperand i : {B, FirstH, FirstC, P}) {
      if (!has(i) || !is_zero(operands_[i])) continue;
      operands_[i] = rewriter_.module().none();
      changed = true;
    }
    AttributeSet all = attributes();
    if (has_usual_activations()) all = all.without("activations"), changed = true;
    if (!changed) return false;
    context_.remarks.applied(kLayers.name, kDefaults, *node_);
    rewriter_.module().replace(node_, make(all, node_->num_outputs()));
    return true;
  }

  bool has_usual_activations() const {
    const AttributeValue* given = attributes().find("activations");
    if (!given || attributes().has("activation_alpha") || attributes().has("activation_beta")) return false;
    std::vector<std::string> usual{"Tanh"};
    if (node_->is("GRU")) usual = {"Sigmoid", "Tanh"};
    if (node_->is("LSTM")) usual = {"Sigmoid", "Tanh", "Tanh"};
    const size_t count = usual.size();
    for (size_t i = 0; is_bidirectional() && i < count; ++i) usual.push_back(usual[i]);
    return std::get<std::vector<std::string>>(*given) == usual;
  }

  // layer-last-state ---------------------------------------------------------------------------------------------------

  bool is_last(std::optional<int64_t> row, bool reversed) const {
    const auto steps = operands_[X]->type()->dim(0).as_constant();
    return row && (reversed ? *row == 0 : *row == -1 || (steps && *row == *steps - 1));
  }

  struct LastRow {
    Apply* reader;
    std::optional<int64_t> direction;  // none: all that there are, one
  };
  std::vector<LastRow> last_rows() const {
    std::vector<LastRow> found;
    for (Apply* reader : readers(result(*node_, 0))) {
      const bool reversed = direction_ == "reverse";
      if (!is_bidirectional() && is_last(place(*reader, 0, 4), reversed)) found.push_back({reader, std::nullopt});
      auto direction = place(*reader, 1, 4);
      if (!is_bidirectional() && squeezes(*reader, 1)) direction = 0;
      if (!direction || *direction < 0) continue;
      Node* rows[] = {reader};
      for (Apply* last : readers(rows)) {
        if (is_last(place(*last, 0, 3), reversed || *direction == 1)) found.push_back({last, *direction});
      }
    }
    return found;
  }

  bool read_last_states() {
    if (!is_plain()) return false;
    const std::vector<LastRow> found = last_rows();
    if (found.empty()) return false;
    Apply* layer = node_;
    if (layer->num_outputs() < 2) {
      layer = make(attributes(), 2);
      rewriter_.module().replace(node_, rewriter_.item(layer, 0));
    }
    Node* last = rewriter_.item(layer, 1);
    for (const auto& [reader, direction] : found) {
      Node* state = last;
      if (direction)
        state = is_bidirectional() ? rewriter_.apply("Gather", {last, scalar(*direction)})
                                   : rewriter_.apply("Squeeze", {last, axes(0)});
      context_.remarks.applied(kLayers.name, kLastState, *reader);
      rewriter_.module().replace(reader, state);
    }
    return true;
  }

  // layer-reversed -----------------------------------------------------------------------------------------------------

  // Where Y is turned over, itself or behind a Squeeze; nothing: it is read otherwise as well.
  std::optional<std::vector<Apply*>> turned_states() const {
    std::vector<Apply*> found, pending = readers(result(*node_, 0));
    for (size_t i = 0; i < pending.size(); ++i) {
      if (turns_over(*pending[i], 0)) {
        found.push_back(pending[i]);
      } else if (squeezes(*pending[i], 1)) {
        Node* rows[] = {pending[i]};
        for (Apply* reader : readers(rows)) pending.push_back(reader);
      } else {
        return std::nullopt;
      }
    }
    return found;
  }

  // What the rows are from the last to the first; null: not known.
  Node* turned_rows() {
    const Apply *rows = operands_[X]->as_apply(), *turned = rows;
    const AttributeValue* perm = rows && rows->is("Transpose") ? rows->attributes().find("perm") : nullptr;
    if (perm) turned = rows->input(0)->as_apply();
    const int64_t axis = perm ? std::get<std::vector<int64_t>>(*perm)[0] : 0;
    if (!turned || !turns_over(*turned, static_cast<int>(axis))) return nullptr;
    return perm ? rewriter_.apply("Transpose", {turned->input(0)}, rows->attributes()) : turned->input(0);
  }

  bool turn_round() {
    Node* rows = is_plain() && !is_bidirectional() ? turned_rows() : nullptr;
    const auto found = rows ? turned_states() : std::nullopt;
    if (!found) return false;
    context_.remarks.applied(kLayers.name, kReversed, *node_);
    operands_[X] = rows;
    Apply* made = make(direction_ == "reverse" ? attributes().without("direction")
                                               : attributes().with("direction", std::string("reverse")),
                       node_->num_outputs());
    for (Apply* reader : *found) rewriter_.module().replace(reader, reader->input(0));
    rewriter_.module().replace(node_, made);
    return true;
  }

  // layers-both-ways ---------------------------------------------------------------------------------------------------

  struct Pair {
    Node *mine, *other;  // one result of each, squeezed
    bool has_axis;       // not squeezed
  };

  // The only reader of a result, where it squeezes the directions.
  static Apply* squeezed(Apply& layer, size_t i) {
    const std::vector<Apply*> all = readers(result(layer, i));
    return all.size() == 1 && squeezes(*all[0], i == 0 ? 1 : 0) ? all[0] : nullptr;
  }
  // The only reader of both; null: there is none.
  static Apply* common_reader(Node* mine, Node* other) {
    const std::vector<Apply*> its = readers({&mine, 1});
    return its.size() == 1 && its == readers({&other, 1}) ? its[0] : nullptr;
  }

  // The states of both, where they are added as they are; nulls: they are not.
  Pair sum_of_states(Apply& other) const {
    const std::vector<Node*> mine = result(*node_, 0), its = result(other, 0);
    const Apply* reader = mine.size() == 1 && its.size() == 1 ? common_reader(mine[0], its[0]) : nullptr;
    return reader && reader->is("Add") ? Pair{mine[0], its[0], true} : Pair{};
  }

  // By result; nothing: one is read otherwise, or Y, which is larger than last states, not side by side.
  std::optional<std::array<Pair, kMostResults>> pairs(Apply& other) const {
    std::array<Pair, kMostResults> pairs{};
    for (size_t i = 0; i < kMostResults; ++i) {
      if (readers(result(*node_, i)).empty() && readers(result(other, i)).empty()) continue;
      pairs[i] = {squeezed(*node_, i), squeezed(other, i), false};
      if (i == 0 && (!pairs[i].mine || !pairs[i].other || !common_reader(pairs[i].mine, pairs[i].other)))
        pairs[i] = sum_of_states(other);
      if (!pairs[i].mine || !pairs[i].other) return std::nullopt;
    }
    return pairs;
  }

  bool goes_with(const Layer& other) const {
    const bool is_opposite = direction_ == "forward" && other.direction_ == "reverse";
    if (!is_opposite || &other.node_->op() != &node_->op() || other.node_->graph() != node_->graph() ||
        other.operands_[Lengths] != operands_[Lengths] || attributes() != other.attributes().without("direction"))
      return false;
    return std::ranges::all_of(kTensors, [&](LayerOperand i) {
      if (!has(i) && !other.has(i)) return true;
      const Tensor *mine = constant_tensor(operands_[i]), *its = constant_tensor(other.operands_[i]);
      return mine && its && std::ranges::equal(mine->shape(), its->shape());
    });
  }

  // For the second direction, too.
  template <class T>
  static AttributeSet doubled(const AttributeSet& all, std::string_view name) {
    const AttributeValue* given = all.find(name);
    if (!given) return all;
    const auto& once = std::get<std::vector<T>>(*given);
    std::vector<T> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    return all.with(name, twice);
  }

  // Whether each function that takes a number is given one, so that the next ones are for the other direction.
  bool has_all_numbers(std::string_view name, std::span<const std::string_view> takers) const {
    const AttributeValue* given = attributes().find(name);
    const auto functions = attributes().get_strings("activations");
    const auto count = std::ranges::count_if(
        functions, [&](const std::string& function) { return std::ranges::count(takers, function) > 0; });
    return !given || std::ssize(std::get<std::vector<float>>(*given)) == count;
  }
  bool has_all_numbers() const {
    constexpr std::array<std::string_view, 6> kAlpha{"Affine",    "Elu",        "HardSigmoid",
                                                     "LeakyRelu", "ScaledTanh", "ThresholdedRelu"};
    constexpr std::array<std::string_view, 3> kBeta{"Affine", "HardSigmoid", "ScaledTanh"};
    return has_all_numbers("activation_alpha", kAlpha) && has_all_numbers("activation_beta", kBeta);
  }

  bool join_other_direction() {
    if (direction_ != "forward" || attributes().get_int("layout", 0) != 0 || !has_all_numbers()) return false;
    for (const Use& use : operands_[X]->uses()) {
      if (use.index() != X || use.user == node_ || !is_layer(*use.user)) continue;
      const Layer other(*use.user, context_, rewriter_);
      const auto read = goes_with(other) ? pairs(*other.node_) : std::nullopt;
      if (!read) continue;
      join(other, *read);
      return true;
    }
    return false;
  }

  void join(const Layer& other, const std::array<Pair, kMostResults>& read) {
    context_.remarks.applied(kLayers.name, kBothWays, *node_);
    for (LayerOperand i : kTensors) {
      if (has(i)) operands_[i] = rewriter_.apply("Concat", {operands_[i], other.operands_[i]}, {{"axis", int64_t{0}}});
    }
    AttributeSet all = attributes().with("direction", std::string("bidirectional"));
    all = doubled<std::string>(all, "activations");
    for (const char* numbers : {"activation_alpha", "activation_beta"}) all = doubled<float>(all, numbers);
    Apply* made = make(all, std::max(node_->num_outputs(), other.node_->num_outputs()));
    for (size_t i = 0; i < kMostResults; ++i) {
      if (!read[i].mine) continue;
      Node* both = made->num_outputs() == 1 ? made : rewriter_.item(made, i);
      const AttributeSet along = i == 0 ? AttributeSet{{"axis", int64_t{1}}} : AttributeSet{};
      Node* parts[] = {rewriter_.apply("Gather", {both, scalar(0)}, along),
                       rewriter_.apply("Gather", {both, scalar(1)}, along)};
      for (Node*& part : parts) part = read[i].has_axis ? rewriter_.apply("Unsqueeze", {part, axes(1)}) : part;
      rewriter_.module().replace(read[i].mine, parts[0]);
      rewriter_.module().replace(read[i].other, parts[1]);
    }
  }

  Apply* node_;
  PassContext& context_;
  Rewriter& rewriter_;
  std::vector<Node*> operands_;  // with those that are left out
  std::string direction_;
};

// Whether each result is read by itself.
bool has_plain_results(const Apply& node) {
  return node.num_outputs() == 1 || std::ranges::all_of(node.uses(), [](const Use& use) {
           return use.user->primitive() == Primitive::TupleGetItem;
         });
}

size_t run_layers(PassContext& context) {
  std::vector<Apply*> layers;
  for (Graph* graph : context.module.graphs()) {
    for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (is_layer(*node) && rank_of(node->input(X)) == 3 && node->has_uses() && has_plain_results(*node))
        layers.push_back(node);
    }
  }
  size_t changes = 0;
  for (Apply* node : layers) {
    if (!node->has_uses()) continue;  // another one took its place
    Rewriter rewriter(context.module, context.inference);
    rewriter.set_root(*node);
    try {
      changes += Layer(*node, context, rewriter).improve();
    } catch (const rewrite::Refusal& refusal) {
      context.remarks.refused(kLayers.name, node->op().name, *node, refusal.why);
    }
    rewriter.discard_made();
  }
  return changes;
}

}  // namespace

const Pass kLayers{"layers", "states and directions", "initial states, directions and axes of recurrent layers",
                   run_layers};

}  // namespace anfora::passes
