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
// A node is *flexible* when there is a version of it for the other layout. Flexible nodes that hand each other tensors
// are one region (union-find); a region changes its layout when it holds a convolution. Transposes that meet at the
// borders are cancelled by the simplifier, those of constants folded. Linear in the number of uses.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <numeric>

#include "ir/order.h"
#include "ir/queries.h"
#include "passes/pass.h"
#include "support/integers.h"
#include "support/union_find.h"

namespace anfora::passes {

extern const Pass kLayout;

namespace {

using namespace ir;

// What becomes of an operand in the other layout.
enum class Operand : uint8_t {
  Moved,      // has the layout
  Realigned,  // broadcasts against it: is given all axes, then moved
  Same,       // weights, attributes, scalars
};

// A flexible node.
struct Flexible {
  Apply* node;
  int rank;  // of the tensors that have the layout
  bool wants_channels_last = false;
  bool result_moves = true;  // false: the result is the same in both layouts
  boost::container::small_vector<Operand, 4> operands;
  // The node's operator and attributes, and those operands that are neither moved nor the same, in the other layout.
  const Operator* op = nullptr;
  AttributeSet attributes;
  boost::container::small_vector<std::pair<size_t, Tensor>, 2> constants;
};

std::vector<int64_t> to_channels_last(int rank) {
  std::vector<int64_t> permutation{0};
  for (int axis = 2; axis < rank; ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return permutation;
}
std::vector<int64_t> to_channels_first(int rank) {
  std::vector<int64_t> permutation{0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) permutation.push_back(axis);
  return permutation;
}
// Where an axis of [batch, channels, spatial…] is with the channels last; negative axes count from the end.
int64_t moved_axis(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

// Whether a tensor has batch, channels and one to three spatial axes.
bool is_image(const Node& node) { return rank_of(&node) >= 3 && rank_of(&node) <= 5; }
// Numbers for the channels of images of that rank: [channels, 1, …], without the batch.
bool is_by_channel(const Type& type, int rank) {
  return type.rank() == rank - 1 && std::ranges::all_of(type.dims().subspan(1), [](Dim dim) { return dim.is_constant() && dim.constant() == 1; });
}
bool is_none(const Node* node) { return node->as_value() && node->as_value()->is_none(); }

class LayoutAssignment {
 public:
  explicit LayoutAssignment(PassContext& context) : module_(context.module), context_(context) {}

  size_t run() {
    ModuleOrder order = topological_order(module_);
    for (const GraphOrder& graph : order.graphs) {
      for (Apply* node : graph.nodes) {
        if (std::optional<Flexible> flexible = describe(*node)) {
          index_.emplace(node, nodes_.size());
          nodes_.push_back(std::move(*flexible));
        }
      }
    }
    UnionFind regions = find_regions();
    std::vector<bool> is_wanted(nodes_.size(), false);  // by representative
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].wants_channels_last) is_wanted[regions.find(i)] = true;
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
  std::optional<Flexible> describe(Apply& node) {
    if (node.primitive() != Primitive::Operation || node.num_outputs() != 1 || node.num_inputs() == 0)
      return std::nullopt;
    if (node.op().fusion == FusionKind::Elementwise || node.op().fusion == FusionKind::Broadcast) {
      return describe_elementwise(node);
    }
    if (!is_image(*node.input(0))) return std::nullopt;
    Flexible f{.node = &node, .rank = rank_of(node.input(0)), .op = &node.op(), .attributes = node.attributes()};
    f.operands.assign(node.num_inputs(), Operand::Same);
    f.operands[0] = Operand::Moved;
    auto lowered = [&] {
      f.op = &module_.context().get_operator("Lowered" + node.op().name);
      f.attributes = f.attributes.with("channels_last", int64_t{1});
    };
    const DType dtype = node.input(0)->type()->dtype();
    const bool is_f32 = dtype == DType::F32;
    if (node.attributes().get_int("channels_last", 0) != 0) return std::nullopt;
    // The order in which a sum is taken changes its rounding.
    if (node.op().sums && context_.options.math != rewrite::Promise::Real) return std::nullopt;
    switch (node.op().layout) {
      case Layout::Convolution:
        if (!is_f32) return std::nullopt;
        lowered();
        // Kernels that transform a convolution compute what equals it over the reals.
        if (context_.options.math != rewrite::Promise::Real) f.attributes = f.attributes.with("direct", int64_t{1});
        f.wants_channels_last = true;
        return f;
      case Layout::Pool:
        if ((!is_f32 && dtype != DType::I8 && dtype != DType::U8) || node.attributes().get_int("storage_order", 0) != 0) return std::nullopt;
        lowered();
        f.attributes = f.attributes.without("storage_order");
        return f;
      case Layout::PoolGradient:
      case Layout::ConvolutionGradient: {
        const bool is_by_weights = node.op().layout == Layout::ConvolutionGradient;
        if ((is_by_weights && !is_f32) || rank_of(node.input(1)) != f.rank) return std::nullopt;
        f.operands[1] = Operand::Moved;
        f.attributes = f.attributes.with("channels_last", int64_t{1});
        f.wants_channels_last = is_by_weights;
        f.result_moves = !is_by_weights;
        return f;
      }
      case Layout::Normalization: {
        // Its parameters may be of other types than x.
        auto is_of_x = [&](const Use& use) { return use.node->type()->dtype() == DType::F32; };
        if (!std::ranges::all_of(node.operands(), is_of_x) || node.attributes().get_int("training_mode", 0) != 0)
          return std::nullopt;
        lowered();
        f.attributes = f.attributes.without("training_mode").without("momentum").without("stash_type");
        return f;
      }
      case Layout::Concat:
        std::ranges::fill(f.operands, Operand::Moved);
        for (const Use& use : node.operands()) {
          if (rank_of(use.node) != f.rank) return std::nullopt;
        }
        f.attributes = f.attributes.with("axis", moved_axis(node.attributes().require_int("axis"), f.rank));
        return f;
      case Layout::GlobalPool: return describe_global_pool(std::move(f));
      case Layout::Reduction: return describe_reduction(std::move(f));
      case Layout::Pad: return describe_pad(std::move(f));
      case Layout::Slice: return describe_slice(std::move(f));
      case Layout::Resize: return describe_resize(std::move(f));
      case Layout::None: return std::nullopt;
    }
    return std::nullopt;
  }

  // Every operand broadcasts against the result axis by axis.
  std::optional<Flexible> describe_elementwise(Apply& node) {
    if (!is_image(node)) return std::nullopt;
    const int rank = rank_of(&node);
    // Quantization: by one scale.
    const bool has_axis = node.op().find_attribute("axis") != nullptr;
    Flexible f{.node = &node, .rank = rank, .op = &node.op(), .attributes = node.attributes()};
    bool any_moved = false;
    for (const Use& use : node.operands()) {
      const Type* type = use.node->type();
      if (is_none(use.node)) {
        f.operands.push_back(Operand::Same);
        continue;
      }
      if (!type || !type->is_tensor() || !type->has_rank()) return std::nullopt;
      const bool is_byte = type->dtype() == DType::I8 || type->dtype() == DType::U8;
      if (!is_float(type->dtype()) && type->dtype() != DType::Bool && !is_byte) return std::nullopt;
      if (type->rank() == 0 || (type->rank() == 1 && type->dim(0).is_constant() && type->dim(0).constant() == 1)) {
        f.operands.push_back(Operand::Same);
      } else if (has_axis && any_moved) {
        return std::nullopt;
      } else if (type->rank() == rank) {
        f.operands.push_back(Operand::Moved);
        any_moved = any_moved || !use.node->is_value();
      } else if (constant_tensor(use.node) || is_by_channel(*type, rank)) {
        f.operands.push_back(Operand::Realigned);
      } else {
        return std::nullopt;
      }
    }
    return any_moved ? std::optional(std::move(f)) : std::nullopt;
  }

  std::optional<Flexible> describe_global_pool(Flexible f) {
    f.op = &module_.context().get_operator(f.node->op().sums ? "ReduceMean" : "ReduceMax");
    f.attributes = {{"keepdims", int64_t{1}}};
    std::vector<int64_t> axes(static_cast<size_t>(f.rank) - 2);
    std::iota(axes.begin(), axes.end(), 1);
    f.operands.push_back(Operand::Same);
    f.constants.emplace_back(1, Tensor::vector<int64_t>(axes));
    return f;
  }

  std::optional<Flexible> describe_reduction(Flexible f) {
    auto axes = constant_integers(*f.node, 1);
    if (!axes || axes->empty()) return std::nullopt;
    for (int64_t& axis : *axes) axis = moved_axis(axis, f.rank);
    std::ranges::sort(*axes);
    if (f.node->attributes().get_int("keepdims", 1) == 0) {
      // What is left must be in the same order in both layouts: no channels, or nothing but them and the batch.
      bool no_channels = axes->back() == f.rank - 1;
      int64_t spatial = std::ranges::count_if(*axes, [&](int64_t axis) { return axis > 0 && axis < f.rank - 1; });
      if (!no_channels && spatial != f.rank - 2) return std::nullopt;
      f.result_moves = false;
    }
    f.constants.emplace_back(1, Tensor::vector<int64_t>(*axes));
    return f;
  }

  std::optional<Flexible> describe_pad(Flexible f) {
    auto pads = constant_integers(*f.node, 1);
    size_t rank = static_cast<size_t>(f.rank);
    if (!pads || pads->size() != 2 * rank || f.node->has_input(3)) return std::nullopt;
    std::vector<int64_t> moved;
    for (size_t side : {size_t{0}, rank}) {
      for (int64_t axis : to_channels_last(f.rank)) moved.push_back((*pads)[side + static_cast<size_t>(axis)]);
    }
    f.constants.emplace_back(1, Tensor::vector<int64_t>(moved));
    return f;
  }

  std::optional<Flexible> describe_slice(Flexible f) {
    auto axes = constant_integers(*f.node, 3);
    // All indices of a Slice have one type.
    if (!axes || constant_tensor(f.node->input(3))->dtype() != DType::I64) return std::nullopt;
    for (int64_t& axis : *axes) axis = moved_axis(axis, f.rank);
    f.constants.emplace_back(3, Tensor::vector<int64_t>(*axes));
    return f;
  }

  // Scales, sizes and the region are in the order of the axes.
  std::optional<Flexible> describe_resize(Flexible f) {
    std::vector<int64_t> axes = f.attributes.get_ints("axes");
    if (axes.empty()) {
      axes.resize(static_cast<size_t>(f.rank));
      std::iota(axes.begin(), axes.end(), 0);
    }
    for (int64_t& axis : axes) axis = moved_axis(axis, f.rank);
    f.attributes = f.attributes.with("axes", axes);
    return f;
  }

  // Regions -----------------------------------------------------------------------------------------
  UnionFind find_regions() const {
    UnionFind regions(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t o = 0; o < nodes_[i].operands.size(); ++o) {
        if (nodes_[i].operands[o] != Operand::Moved) continue;
        auto producer = index_.find(nodes_[i].node->input(o));
        if (producer == index_.end()) continue;
        const Flexible& from = nodes_[producer->second];
        // A value of another graph is a border: graphs are not ordered among each other.
        if (from.result_moves && from.node->graph() == nodes_[i].node->graph()) regions.unite(producer->second, i);
      }
    }
    return regions;
  }

  // Rebuilding --------------------------------------------------------------------------------------
  Apply* apply(Graph* graph, const Operator& op, std::span<Node* const> inputs, const AttributeSet& attributes,
               const Location* location, std::string_view name = {}) {
    Apply* made = module_.apply(graph, op, inputs, attributes, 1, location, name);
    context_.inference.infer(*made);
    return made;
  }
  Apply* transpose(Node* node, std::vector<int64_t> permutation, Graph* graph, const Location* location) {
    return apply(graph, module_.context().get_operator("Transpose"), {&node, 1}, {{"perm", std::move(permutation)}},
                 location);
  }

  // The value with the channels last.
  Node* moved(Node* value, const Flexible& user) {
    auto transposed = [&](Graph* graph) { return transpose(value, to_channels_last(user.rank), graph, user.node->location()); };
    if (!value->graph()) return transposed(user.node->graph());  // a constant is used in many graphs; equal applications are merged later
    auto known = moved_.find(value);
    return known != moved_.end() ? known->second : moved_[value] = transposed(value->graph());
  }

  // A constant, or numbers for the channels, of lower rank with all axes, channels last.
  Node* realigned(Node* operand, const Flexible& user) {
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
      whole = apply(graph, module_.context().get_operator("Unsqueeze"), inputs, {}, user.node->location());
    }
    return transpose(whole, to_channels_last(user.rank), graph, user.node->location());
  }

  void rebuild(const Flexible& f) {
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
    Apply* made = apply(f.node->graph(), *f.op, inputs, f.attributes, f.node->location(), f.node->name());
    Node* replacement = made;
    if (f.result_moves) {
      replacement = transpose(made, to_channels_first(f.rank), f.node->graph(), f.node->location());
      moved_[replacement] = made;  // what other regions take it for
    }
    context_.remarks.applied(kLayout.name, "channels-last", *f.node);
    module_.replace(f.node, replacement);
  }

  Module& module_;
  PassContext& context_;
  std::vector<Flexible> nodes_;
  boost::unordered_flat_map<const Node*, size_t> index_;  // into nodes_
  boost::unordered_flat_map<const Node*, Node*> moved_;   // the channels-last version of a value
};

size_t run_layout(PassContext& context) { return LayoutAssignment(context).run(); }

}  // namespace

const Pass kLayout{"layout", "layout", "channels last around convolutions", run_layout};

}  // namespace anfora::passes
