#include "frontend/onnx/strict.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <concepts>
#include <optional>
#include <vector>

namespace anfora::onnx {

namespace {

// Inputs by their number, a bit each. What ONNX leaves open (the K of a TopK is a vector, the depth of a OneHot either) is not here.
struct Demand {
  std::string_view op_type;
  uint32_t vectors = 0, scalars = 0;
  uint32_t no_scalars = 0;  // of one axis or more
};

constexpr uint32_t inputs(std::same_as<int> auto... i) { return ((1U << i) | ...); }

constexpr Demand kDemands[] = {
    {"AffineGrid", inputs(1)},
    {"BatchNormalization", inputs(1, 2, 3, 4)},
    {"BlackmanWindow", 0, inputs(0)},
    {"CenterCropPad", inputs(1)},
    {"Clip", 0, inputs(1, 2)},
    {"Col2Im", inputs(1, 2)},
    {"Compress", inputs(1), 0, inputs(0)},
    {"ConstantOfShape", inputs(0)},
    {"Conv", inputs(2)},
    {"ConvTranspose", inputs(2)},
    {"CumProd", 0, inputs(1)},
    {"CumSum", 0, inputs(1)},
    {"DFT", 0, inputs(1, 2)},
    {"Dropout", 0, inputs(1, 2)},
    {"Expand", inputs(1)},
    {"GRU", inputs(4)},
    {"GroupNormalization", inputs(1, 2)},
    {"HammingWindow", 0, inputs(0)},
    {"HannWindow", 0, inputs(0)},
    {"InstanceNormalization", inputs(1, 2)},
    {"LSTM", inputs(4)},
    {"MaxUnpool", inputs(2)},
    {"MelWeightMatrix", 0, inputs(0, 1, 2, 3, 4)},
    {"OneHot", inputs(2)},
    {"Pad", inputs(1, 3), inputs(2)},
    {"RNN", inputs(4)},
    {"Range", 0, inputs(0, 1, 2)},
    {"ReduceL1", inputs(1)},
    {"ReduceL2", inputs(1)},
    {"ReduceLogSum", inputs(1)},
    {"ReduceLogSumExp", inputs(1)},
    {"ReduceMax", inputs(1)},
    {"ReduceMean", inputs(1)},
    {"ReduceMin", inputs(1)},
    {"ReduceProd", inputs(1)},
    {"ReduceSum", inputs(1)},
    {"ReduceSumSquare", inputs(1)},
    {"Reshape", inputs(1)},
    {"Resize", inputs(1, 2, 3)},
    {"ReverseSequence", inputs(1)},
    {"RoiAlign", inputs(2)},
    {"STFT", inputs(2), inputs(1, 3)},
    {"SequenceAt", 0, inputs(1)},
    {"SequenceErase", 0, inputs(1)},
    {"SequenceInsert", 0, inputs(2)},
    {"ScatterElements", 0, 0, inputs(1, 2)},
    {"Slice", inputs(1, 2, 3, 4)},
    {"Split", inputs(1)},
    {"Squeeze", inputs(1)},
    {"TensorScatter", inputs(2)},
    {"Tile", inputs(1)},
    {"TopK", inputs(1)},
    {"Trilu", 0, inputs(1)},
    {"Unsqueeze", inputs(1)},
};

// Changes the nodes of one graph; those that it adds stand before the ones that read them.
class Ranks {
 public:
  using Demands = boost::unordered_flat_map<const DraftOperator*, const Demand*>;
  Ranks(Draft& draft, DraftGraph& graph, const Demands& demands) : draft_(draft), graph_(graph), demands_(demands) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      auto demand = demands_.find(graph_.nodes[i].op);
      if (demand != demands_.end()) fit(graph_.nodes[i], *demand->second);
      if (added_.size() > places_.size()) places_.resize(added_.size(), i);
    }
    if (added_.empty()) return;
    LargeVector<DraftNode> nodes;
    size_t next = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (; next < added_.size() && places_[next] == i; ++next) nodes.push_back(added_[next]);
      nodes.push_back(graph_.nodes[i]);
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  void fit(DraftNode& node, const Demand& demand) {
    boost::container::small_vector<ValueId, 8> operands(node.inputs.begin(), node.inputs.end());
    bool changed = false;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::optional<int> rank = operands[i] == kOmitted ? std::nullopt : rank_of(operands[i]);
      if (!rank) continue;
      const uint32_t bit = 1U << i;
      const bool to_vector = (demand.vectors & bit) != 0 ? *rank != 1 : (demand.no_scalars & bit) != 0 && *rank == 0;
      const bool to_scalar = (demand.scalars & bit) != 0 && *rank != 0;
      if (!to_vector && !to_scalar) continue;
      operands[i] = with_rank(operands[i], to_vector ? 1 : 0, node);
      changed = true;
    }
    if (changed) node.inputs = draft_.keep(std::span<const ValueId>(operands.data(), operands.size()));
  }

  std::optional<int> rank_of(ValueId value) const {
    const ir::Type* type = draft_.value(value).type;
    if (!type || !type->is_tensor() || !type->has_rank()) return std::nullopt;
    return type->rank();
  }

  ValueId with_rank(ValueId value, int rank, const DraftNode& reader) {
    const DraftValue original = draft_.value(value);
    if (const Tensor* constant = original.constant) {
      const int64_t size = constant->size();
      if (rank == 0 && size != 1) return value;
      return draft_.make_constant(graph_.top(), constant->reshaped(rank == 0 ? Shape() : Shape(1, size)));
    }
    const int from = original.type->rank();
    const DType dtype = original.type->dtype();
    const bool is_view_of_one = from + rank == 1;  // between a scalar and a vector of one element
    std::array<ir::Dim, 1> dims = {draft_.context().dims().constant(1)};
    if (!is_view_of_one) dims[0] = draft_.context().dims().unknown();
    const ir::Type* type =
        draft_.context().tensor_type(dtype, std::span<const ir::Dim>(dims.data(), static_cast<size_t>(rank)));
    const std::vector<int64_t> description =
        is_view_of_one ? std::vector<int64_t>{0} : std::vector<int64_t>(static_cast<size_t>(rank), -1);
    const ValueId operands[] = {value, draft_.make_constant(graph_.top(), Tensor::vector<int64_t>(description))};
    const ValueId result = draft_.make_value(&graph_, {}, type);
    static const AttributeSet kNone;
    DraftNode& view = added_.emplace_back();
    view.op = draft_.find_operator("", !is_view_of_one ? "Reshape" : rank == 0 ? "Squeeze" : "Unsqueeze");
    view.op->is_used = true;
    view.attributes = &kNone;
    view.inputs = draft_.keep(operands);
    view.outputs = draft_.keep({&result, 1});
    view.origin = reader.origin;
    return result;
  }

  Draft& draft_;
  DraftGraph& graph_;
  const Demands& demands_;
  std::vector<DraftNode> added_;
  std::vector<size_t> places_;  // of the nodes that they stand before
};

}  // namespace

void make_ranks_strict(Draft& draft) {
  Ranks::Demands demands;
  for (const DraftOperator& op : draft.operators()) {
    if (!op.domain.empty()) continue;
    auto found = std::ranges::find(kDemands, op.name, &Demand::op_type);
    if (found != std::end(kDemands)) demands.emplace(&op, found);
  }
  if (demands.empty()) return;
  auto fit = [&](DraftGraph& graph) { Ranks(draft, graph, demands).run(); };
  Draft::for_each_graph(draft.main(), fit);
  for (DraftGraph* function : draft.functions()) Draft::for_each_graph(*function, fit);
}

}  // namespace anfora::onnx
