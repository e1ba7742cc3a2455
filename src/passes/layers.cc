// Simplification of recurrent layers: rules/layers.rules, and here layers of the same rows in opposite directions, which are one in both,
// where their results are read side by side, or added:
//
//     Concat(Squeeze(LSTM(X)), Squeeze(LSTM{reverse}(X)))   →   Y = LSTM{bidirectional}(X), Concat(Y[:, 0], Y[:, 1])
//
// None computes a number differently. Linear in the number of applications.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/queries.h"
#include "passes/pass.h"
#include "rewrite/rule_set.h"
#include "support/integers.h"

namespace anfora::passes {

extern const Pass kLayers;

namespace {

using namespace ir;
using rewrite::Rewriter;

constexpr std::string_view kBothWays = "layers-both-ways";

enum LayerOperand : size_t { X, W, R, B, Lengths, FirstH, FirstC, P };
constexpr LayerOperand kTensors[] = {W, R, B, FirstH, FirstC, P};  // of all directions, one after the other
constexpr size_t kMostResults = 3;                                 // Y, and the last states

bool is_layer(const Apply& node) { return node.is("LSTM") || node.is("GRU") || node.is("RNN"); }

std::optional<int64_t> constant_integer(const Node* node) { return integer_of(constant_tensor(node)); }

bool is_absent(const Node* node) { return node->as_value() && node->as_value()->is_none(); }

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

class Layer {
 public:
  Layer(Apply& node, PassContext& context, Rewriter& rewriter) : node_(&node), context_(context), rewriter_(rewriter) {
    for (const Use& use : node.operands()) operands_.push_back(use.node);
    operands_.resize(P + 1, rewriter.module().none());
    direction_ = attributes().get_string("direction", "forward");
  }

  // Whether there was another one to go with it.
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

 private:
  const AttributeSet& attributes() const { return node_->attributes(); }
  bool has(LayerOperand i) const { return !is_absent(operands_[i]); }

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

size_t join_directions(PassContext& context) {
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
      changes += Layer(*node, context, rewriter).join_other_direction();
    } catch (const rewrite::Refusal& refusal) {
      context.remarks.refused(kLayers.name, node->op().name, *node, refusal.why);
    }
    rewriter.discard_made();
  }
  return changes;
}

size_t run_layers(PassContext& context) {
  static const auto rules = built_in_rules({"layers.rules"});
  const size_t changes =
      rewrite::apply_rules(*rules, context.rewriting(), context.inference, context.remarks, kLayers.name);
  return changes + join_directions(context);
}

}  // namespace

const Pass kLayers{"layers", "states and directions", "initial states, directions and axes of recurrent layers",
                   run_layers};

}  // namespace anfora::passes
