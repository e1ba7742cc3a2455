// Layout assignment: which tensors are stored with their channels last.
//
// ONNX stores images as [batch, channels, spatial…]. Convolutions run fastest on [batch, spatial…, channels], where the
// channels of a pixel are neighbours; what surrounds them (activations, sums, concatenations, poolings) does not care.
// So regions are found, in which everything changes sides at once, and only what enters and leaves a region is
// transposed:
//
//      x ──▶ Conv ──▶ Relu ──▶ Conv ──▶ Add ──▶ ReduceMean ──▶ y
//                       └────────────────┘
//
//      x ─▶ Transpose ─▶ [ Conv ─▶ Relu ─▶ Conv ─▶ Add ─▶ ReduceMean ] ─▶ Transpose ─▶ y
//
// A node is *flexible* when its declaration has a version for the other layout (ops/layouts.h). Flexible nodes that hand each other tensors
// are one region (union-find); a region changes its layout when it holds a convolution. What works on images of one pixel alone, as between squeeze and
// excitation, is a region of its own: to transpose a pixel costs nothing, and its convolutions are no reason to transpose the image around. Transposes that meet
// at the borders are cancelled by the simplifier, those of constants folded. An image that grows on its way out of the graph is transposed while it is small. Linear
// in the number of uses.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <numeric>

#include "ir/order.h"
#include "ir/queries.h"
#include "ops/layouts.h"
#include "passes/pass.h"
#include "support/integers.h"
#include "support/union_find.h"

namespace anfora::passes {

extern const Pass kLayout;

namespace {

using namespace ir;

using ops::ChannelsLast;
using Operand = ChannelsLast::Operand;

// Whether a tensor has batch, channels and one to three spatial axes.
bool is_image(const Node& node) { return rank_of(&node) >= 3 && rank_of(&node) <= 5; }
bool are_ones(std::span<const Dim> dims) {
  return std::ranges::all_of(dims, [](Dim dim) { return dim.is_constant() && dim.constant() == 1; });
}
// Numbers for the channels of images of that rank: [channels, 1, …], without the batch.
bool is_by_channel(const Type& type, int rank) { return type.rank() == rank - 1 && are_ones(type.dims().subspan(1)); }
bool is_elementwise(const Operator& op) { return op.fusion == FusionKind::Elementwise || op.fusion == FusionKind::Broadcast; }
// Whether an image has one pixel: both layouts are the same then.
bool is_pixel(const Node& node) { return is_image(node) && are_ones(node.type()->dims().subspan(2)); }
// Whether a use takes one result of several.
bool is_item(const Use& use) { return use.user->primitive() == Primitive::TupleGetItem; }
// What a value is a result of.
const Node* producer_of(const Node* value) {
  const Apply* item = value->as_apply();
  return item && item->primitive() == Primitive::TupleGetItem ? item->input(0) : value;
}
bool is_none(const Node* node) { return node->as_value() && node->as_value()->is_none(); }

class LayoutAssignment {
 public:
  explicit LayoutAssignment(PassContext& context)
      : module_(context.module), context_(context), may_round_(context.options.math == rewrite::Promise::Real) {}

  size_t run() {
    ModuleOrder order = topological_order(module_);
    for (const GraphOrder& graph : order.graphs) {
      for (Apply* node : graph.nodes) {
        if (std::optional<ChannelsLast> flexible = describe(*node)) nodes_.push_back(std::move(*flexible));
      }
    }
    leave_out_growing_results();
    for (size_t i = 0; i < nodes_.size(); ++i) index_.emplace(nodes_[i].node, i);
    UnionFind regions = find_regions();
    std::vector<bool> is_wanted(nodes_.size(), false);  // by representative
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].is_preferred) is_wanted[regions.find(i)] = true;
    }
    size_t changes = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_wanted[regions.find(i)]) continue;
      rebuild(nodes_[i]);
      ++changes;
    }
    return changes;
  }

 private:
  // Which nodes are flexible ------------------------------------------------------------------------
  std::optional<ChannelsLast> describe(Apply& node) const {
    if (node.primitive() != Primitive::Operation || node.num_inputs() == 0) return std::nullopt;
    if (node.num_outputs() == 1 && is_elementwise(node.op())) return describe_elementwise(node);
    if (!node.op().layout || !is_image(*node.input(0)) || node.attributes().get_int("channels_last", 0) != 0) return std::nullopt;
    // The order in which a sum is taken changes its rounding.
    if (node.op().sums && !may_round_) return std::nullopt;
    ChannelsLast form(node, rank_of(node.input(0)));
    if (!node.op().layout(form)) return std::nullopt;
    if (node.num_outputs() != 1 && !(form.all_results_move && std::ranges::all_of(node.uses(), is_item))) return std::nullopt;
    // Kernels that transform a convolution compute what equals it over the reals.
    if (form.op->find_attribute("direct") && !may_round_) form.attributes = form.attributes.with("direct", int64_t{1});
    return form;
  }

  // Every operand broadcasts against the result axis by axis.
  static std::optional<ChannelsLast> describe_elementwise(Apply& node) {
    if (!is_image(node)) return std::nullopt;
    const int rank = rank_of(&node);
    // Quantization: by one scale.
    const bool has_axis = node.op().find_attribute("axis") != nullptr;
    ChannelsLast f(node, rank);
    bool any_moved = false;
    for (const Use& use : node.operands()) {
      const Type* type = use.node->type();
      if (is_none(use.node)) {
        f.operands[use.index()] = Operand::Same;
        continue;
      }
      if (!type || !type->is_tensor() || !type->has_rank()) return std::nullopt;
      const DType dtype = type->dtype();
      const bool is_integer = dtype == DType::I8 || dtype == DType::U8 || dtype == DType::I32;  // quantized numbers, and sums of their products
      if (!is_float(dtype) && dtype != DType::Bool && !is_integer) return std::nullopt;
      if (type->rank() == 0 || (type->rank() == 1 && type->dim(0).is_constant() && type->dim(0).constant() == 1)) {
        f.operands[use.index()] = Operand::Same;
      } else if (has_axis && any_moved) {
        return std::nullopt;
      } else if (type->rank() == rank) {
        f.operands[use.index()] = Operand::Moved;
        any_moved = any_moved || !use.node->is_value();
      } else if (constant_tensor(use.node) || is_by_channel(*type, rank)) {
        f.operands[use.index()] = Operand::Realigned;
      } else {
        return std::nullopt;
      }
    }
    return any_moved ? std::optional(std::move(f)) : std::nullopt;
  }

  // What a Resize makes larger, and what is made of that element by element, where it all leads to results of the graph.
  void leave_out_growing_results() {
    const auto is_result_use = [](const Use& use) {
      const Apply& user = *use.user;
      return user.primitive() == Primitive::Return ||
             (user.primitive() == Primitive::MakeTuple && std::ranges::all_of(user.uses(), [](const Use& of) { return of.user->primitive() == Primitive::Return; }));
    };
    boost::unordered_flat_set<const Node*> ends;  // where only results are behind
    for (auto f = nodes_.rbegin(); f != nodes_.rend(); ++f) {
      const bool is_candidate = f->node->op().name == "Resize" || (is_elementwise(f->node->op()) && std::ranges::count(f->operands, Operand::Moved) == 1);
      if (is_candidate && std::ranges::all_of(f->node->uses(), [&](const Use& use) { return is_result_use(use) || ends.contains(use.user); })) ends.insert(f->node);
    }
    boost::unordered_flat_set<const Node*> left_out;
    std::erase_if(nodes_, [&](const ChannelsLast& f) {
      const Apply& node = *f.node;
      const bool grows = node.op().name == "Resize" && is_larger(node, *node.input(0));
      const bool goes_on = std::ranges::any_of(node.operands(), [&](const Use& use) { return left_out.contains(use.node); });
      return ends.contains(&node) && (grows || goes_on) && left_out.insert(&node).second;
    });
  }
  static bool is_larger(const Node& a, const Node& b) {
    if (rank_of(&a) < 0 || rank_of(&a) != rank_of(&b)) return false;
    bool grows = false;
    for (int axis = 0; axis < rank_of(&a); ++axis) {
      const Dim to = a.type()->dim(axis), from = b.type()->dim(axis);
      if (provably_equal(to, from)) continue;
      if (!to.is_constant() || !from.is_constant() || to.constant() < from.constant()) return false;
      grows = true;
    }
    return grows;
  }

  // Regions -----------------------------------------------------------------------------------------
  static bool works_on_pixels(const ChannelsLast& f) {
    for (size_t o = 0; o < f.operands.size(); ++o) {
      if (f.operands[o] == Operand::Moved && !is_pixel(*f.node->input(o))) return false;
    }
    return is_pixel(*f.node);
  }
  UnionFind find_regions() const {
    UnionFind regions(nodes_.size());
    std::vector<bool> of_pixels;
    for (const ChannelsLast& node : nodes_) of_pixels.push_back(works_on_pixels(node));
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t o = 0; o < nodes_[i].operands.size(); ++o) {
        if (nodes_[i].operands[o] != Operand::Moved) continue;
        auto producer = index_.find(producer_of(nodes_[i].node->input(o)));
        if (producer == index_.end()) continue;
        const ChannelsLast& from = nodes_[producer->second];
        // A value of another graph is a border: graphs are not ordered among each other.
        if (!from.result_moves || from.node->graph() != nodes_[i].node->graph()) continue;
        if (of_pixels[producer->second] == of_pixels[i]) regions.unite(producer->second, i);
      }
    }
    return regions;
  }

  // Rebuilding --------------------------------------------------------------------------------------
  Apply* transpose(Node* node, std::vector<int64_t> permutation, Graph* graph, const Location* location) {
    return context_.make(graph, module_.context().get_operator("Transpose"), {&node, 1}, {{"perm", std::move(permutation)}}, location);
  }

  // The value with the channels last.
  Node* moved(Node* value, const ChannelsLast& user) {
    auto transposed = [&](Graph* graph) { return transpose(value, ops::to_channels_last(user.rank), graph, user.node->location()); };
    if (!value->graph()) return transposed(user.node->graph());  // a constant is used in many graphs; equal applications are merged later
    auto known = moved_.find(value);
    return known != moved_.end() ? known->second : moved_[value] = transposed(value->graph());
  }

  // A constant, or numbers for the channels, of lower rank with all axes, channels last.
  Node* realigned(Node* operand, const ChannelsLast& user) {
    const size_t missing = static_cast<size_t>(user.rank - operand->type()->rank());
    Graph* const graph = user.node->graph();
    Node* whole;
    if (const Tensor* tensor = constant_tensor(operand)) {
      Shape shape(missing, 1);
      shape.insert(shape.end(), tensor->shape().begin(), tensor->shape().end());
      whole = module_.constant(tensor->reshaped(shape));
    } else {
      std::vector<int64_t> axes(missing);
      std::iota(axes.begin(), axes.end(), 0);
      Node* inputs[] = {operand, module_.constant(Tensor::vector<int64_t>(axes))};
      whole = context_.make(graph, module_.context().get_operator("Unsqueeze"), inputs, {}, user.node->location());
    }
    return transpose(whole, ops::to_channels_last(user.rank), graph, user.node->location());
  }

  void rebuild(const ChannelsLast& f) {
    boost::container::small_vector<Node*, 4> inputs;
    for (size_t i = 0; i < f.operands.size(); ++i) {
      Node* operand = i < f.node->num_inputs() ? f.node->input(i) : nullptr;
      switch (f.operands[i]) {
        case Operand::Moved: inputs.push_back(moved(operand, f)); break;
        case Operand::Realigned: inputs.push_back(realigned(operand, f)); break;
        case Operand::Same: inputs.push_back(operand); break;
      }
    }
    for (const auto& [i, tensor] : f.constants) inputs[i] = module_.constant(tensor);
    Apply* made = context_.make(f.node->graph(), *f.op, inputs, f.attributes, f.node->location(), f.node->name(), f.node->num_outputs());
    context_.remarks.applied(kLayout.name, "channels-last", *f.node);
    if (f.node->num_outputs() == 1) return replace(f, f.node, made);
    boost::container::small_vector<Apply*, 4> items;
    for (const Use& use : f.node->uses()) items.push_back(use.user);
    for (Apply* item : items) {
      Node* image = module_.tuple_item(made->graph(), made, static_cast<size_t>(item->attributes().require_int("index")));
      context_.inference.infer(*image->as_apply());
      replace(f, item, image);
    }
  }

  void replace(const ChannelsLast& f, Node* result, Node* made) {
    Node* replacement = made;
    if (f.result_moves) {
      replacement = transpose(made, ops::to_channels_first(f.rank), f.node->graph(), f.node->location());
      moved_[replacement] = made;  // what other regions take it for
    }
    module_.replace(result, replacement);
  }

  Module& module_;
  PassContext& context_;
  const bool may_round_;
  std::vector<ChannelsLast> nodes_;
  boost::unordered_flat_map<const Node*, size_t> index_;  // into nodes_
  boost::unordered_flat_map<const Node*, Node*> moved_;   // the channels-last version of a value
};

size_t run_layout(PassContext& context) { return LayoutAssignment(context).run(); }

}  // namespace

const Pass kLayout{"layout", "layout", "channels last around convolutions", run_layout};

}  // namespace anfora::passes
