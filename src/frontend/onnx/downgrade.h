// Fits the operators of a draft, which are those of the newest operator set, to an older one.
//
// What an operator set lacks is known from the history of each operator: types, inputs and attributes that came later
// must not be in use (an attribute may, where it has the value that the older version implies), defaults that were
// others are spelled out. What an older version says in another way (axes as an attribute, not an input) is written
// that way by the rules in downgrade_rules.cc. A node that cannot be expressed raises the operator set to the first
// that can.
#pragma once

#include <optional>
#include <vector>

#include "frontend/onnx/draft.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/opset_history.h"

namespace anfora::onnx {

// One node on its way to an older version: what rules read and change.
class Fitting {
 public:
  // `source`: the operator set of the module's source.
  Fitting(Draft& draft, DraftGraph& graph, DraftNode& node, int64_t opset, int64_t source)
      : draft_(draft),
        graph_(graph),
        node_(node),
        opset_(opset),
        source_(source),
        inputs_(node.inputs.begin(), node.inputs.end()) {}

  // False when the operator set cannot express the node. The node is then half changed.
  bool run();
  // Nodes that the fitted node needs before it.
  const std::vector<DraftNode>& helpers() const { return helpers_; }

  int64_t opset() const { return opset_; }
  int64_t source() const { return source_; }
  std::string_view op_type() const { return node_.op->name; }
  size_t num_outputs() const { return node_.outputs.size(); }
  bool has_output(size_t i) const { return i < num_outputs() && node_.outputs[i] != kOmitted; }
  // The operator that it is from here on; attributes that only newer versions of the present one have must be gone or
  // say nothing.
  void rename(std::string_view op_type);

  // Inputs. Those that are not there have no type and no constant.
  size_t num_inputs() const { return inputs_.size(); }
  bool has_input(size_t i) const { return i < inputs_.size() && inputs_[i] != kOmitted; }
  const ir::Type* input_type(size_t i) const;  // null: not known
  const ir::Type* output_type(size_t i) const;
  // Of the results of subgraph k.
  std::vector<const ir::Type*> subgraph_output_types(size_t k) const;
  DType dtype(size_t i) const;  // Undefined: not known
  std::optional<int> rank(size_t i) const;
  std::optional<int64_t> dim(size_t i, int64_t axis) const;  // a constant one
  const Tensor* constant(size_t i) const;
  std::optional<std::vector<int64_t>> integers(size_t i) const;  // a constant's
  std::optional<float> number(size_t i) const;                   // a constant's only element, when a float holds it
  void omit_input(size_t i);                                     // and those behind it that are omitted already
  void set_input(size_t i, ValueId value);
  void set_input(size_t i, Tensor tensor) { set_input(i, make_constant(std::move(tensor))); }
  ValueId input(size_t i) const { return inputs_[i]; }
  // A node before this one, of the newest version; its result.
  ValueId add_helper(std::string_view op_type, std::initializer_list<ValueId> inputs, AttributeSet attributes,
                     const ir::Type* type);
  ValueId make_constant(Tensor tensor) { return draft_.make_constant(graph_.top(), std::move(tensor)); }
  // Removes axes of length 1 of an input that has a rank: of a constant itself, or with what put them there; else by a Squeeze
  // before the node, if there may be one.
  bool squeeze_input(size_t i, const std::vector<int64_t>& axes, bool may_add_node = true);
  // The first input of the node of this graph that computes the value, if it is of that operator; else kOmitted.
  ValueId operand_of(ValueId value, std::string_view op_type) const;
  const ir::Type* type_of(ValueId value) const { return draft_.value(value).type; }
  // Whether what computed an input may have no user left.
  bool skipped_node() const { return skipped_node_; }
  // Input i as what another node made it of.
  void skip_node(size_t i, ValueId value);

  // Attributes, with the newest version's default where they are absent.
  bool has(std::string_view name) const { return node_.attributes->has(name); }
  const AttributeSet& attributes() const { return *node_.attributes; }
  int64_t get_int(std::string_view name) const;
  std::string get_string(std::string_view name) const;
  void set(std::string_view name, AttributeValue value);
  void erase(std::string_view name);

 private:
  const AttributeValue* default_of(std::string_view name) const;
  bool fit_attributes(const OperatorHistory& history);
  bool fit_types(const OperatorHistory& history) const;
  bool fit_counts(const OperatorHistory::Version& version);
  bool may_omit_inputs_up_to(size_t count) const;

  Draft& draft_;
  DraftGraph& graph_;
  DraftNode& node_;
  int64_t opset_, source_;
  std::vector<ValueId> inputs_;
  std::vector<DraftNode> helpers_;
  bool kept_attributes_fit_ = true, skipped_node_ = false;
};

// Applies to nodes of `op_type` when they are written for an operator set before `before`. False: cannot be expressed.
struct DowngradeRule {
  std::string_view op_type;
  int64_t before;
  bool (*apply)(Fitting&);
};
// The rules of one operator, the newest change first.
std::span<const DowngradeRule> downgrade_rules(std::string_view op_type);

// Whether an operator set (of the node's domain) has the operator of an application, for its element types and with its
// attributes. Rules of the operator itself are taken to succeed.
bool is_expressible(const ir::Apply& node, int64_t opset);

// Fits all nodes to `report.opsets`, which it raises where it must; says so in `report.moved`. Graphs of unknown
// operators, kept as bytes, stay in the operator sets of `source`.
void fit_to_opsets(Draft& draft, const ir::Metadata& source, ExportReport& report);

// Leaves out attributes that say what an operator set of the main domain means without them, where canonical forms or fitting spell
// it out.
void leave_out_defaults(Draft& draft, int64_t opset);

}  // namespace anfora::onnx
