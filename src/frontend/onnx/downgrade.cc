#include "frontend/onnx/downgrade.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cmath>
#include <limits>

#include "anfora/error.h"
#include "frontend/onnx/wire.h"
#include "support/element_types.h"
#include "support/integers.h"

namespace anfora::onnx {

// Fitting: reading and changing -----------------------------------------------------------------------

const ir::Type* Fitting::input_type(size_t i) const { return has_input(i) ? draft_.value(inputs_[i]).type : nullptr; }

const ir::Type* Fitting::output_type(size_t i) const {
  return has_output(i) ? draft_.value(node_.outputs[i]).type : nullptr;
}

std::vector<const ir::Type*> Fitting::subgraph_output_types(size_t k) const {
  std::vector<const ir::Type*> types;
  if (k >= node_.subgraphs.size()) return types;  // an operator of that name, but not ONNX's
  for (ValueId id : node_.subgraphs[k].graph->outputs) types.push_back(draft_.value(id).type);
  return types;
}

DType Fitting::dtype(size_t i) const {
  const ir::Type* type = input_type(i);
  return type && type->is_tensor() ? type->dtype() : DType::Undefined;
}

std::optional<int> Fitting::rank(size_t i) const {
  const ir::Type* type = input_type(i);
  if (!type || !type->is_tensor() || !type->has_rank()) return std::nullopt;
  return type->rank();
}

std::optional<int64_t> Fitting::dim(size_t i, int64_t axis) const {
  std::optional<int> r = rank(i);
  if (r && axis < 0) axis += *r;
  if (!r || axis < 0 || axis >= *r) return std::nullopt;
  return input_type(i)->dim(static_cast<int>(axis)).as_constant();
}

const Tensor* Fitting::constant(size_t i) const { return has_input(i) ? draft_.value(inputs_[i]).constant : nullptr; }

std::optional<std::vector<int64_t>> Fitting::integers(size_t i) const { return integers_of(constant(i)); }

std::optional<float> Fitting::number(size_t i) const {
  const Tensor* t = constant(i);
  if (!t || t->size() != 1) return std::nullopt;
  switch (t->dtype()) {
    case DType::F32: return t->data<float>()[0];
    case DType::F16: return static_cast<float>(t->data<Float16>()[0]);
    case DType::BF16: return static_cast<float>(t->data<BFloat16>()[0]);
    case DType::F64: {
      double value = t->data<double>()[0];
      float narrow = static_cast<float>(value);
      if (static_cast<double>(narrow) != value && !std::isnan(value)) return std::nullopt;
      return narrow;
    }
    default: return std::nullopt;
  }
}

void Fitting::omit_input(size_t i) {
  if (i >= inputs_.size()) return;
  inputs_[i] = kOmitted;
  while (!inputs_.empty() && inputs_.back() == kOmitted) inputs_.pop_back();
}

void Fitting::set_input(size_t i, ValueId value) {
  if (i >= inputs_.size()) inputs_.resize(i + 1, kOmitted);
  inputs_[i] = value;
}

void Fitting::rename(std::string_view op_type) {
  const OperatorHistory* history = node_.op->history;
  if (history && !fit_attributes(*history)) kept_attributes_fit_ = false;
  node_.op = draft_.find_operator(node_.op->domain, op_type, node_.op->is_known);
}

ValueId Fitting::add_helper(std::string_view op_type, std::initializer_list<ValueId> inputs, AttributeSet attributes,
                            const ir::Type* type) {
  ValueId result = draft_.make_value(&graph_, {}, type);
  DraftNode helper;
  helper.op = draft_.find_operator("", op_type);
  helper.attributes = draft_.keep(std::move(attributes));
  helper.inputs = draft_.keep(std::span<const ValueId>(inputs.begin(), inputs.size()));
  helper.outputs = draft_.keep(std::span<const ValueId>(&result, 1));
  helper.origin = node_.origin;
  Fitting(draft_, graph_, helper, opset_, source_).run();
  helpers_.push_back(helper);
  return result;
}

ValueId Fitting::operand_of(ValueId value, std::string_view op_type) const {
  if (value == kOmitted) return kOmitted;
  auto computes = [&](const DraftNode& node) { return std::ranges::count(node.outputs, value) > 0; };
  auto node = std::ranges::find_if(graph_.nodes, computes);
  bool is_one = node != graph_.nodes.end() && node->op->domain.empty() && node->op->name == op_type;
  return is_one ? node->inputs[0] : kOmitted;
}

void Fitting::skip_node(size_t i, ValueId value) {
  set_input(i, value);
  skipped_node_ = true;
}

bool Fitting::squeeze_input(size_t i, const std::vector<int64_t>& axes, bool may_add_node) {
  if (axes.empty()) return true;
  const ir::Type* type = input_type(i);
  boost::container::small_vector<ir::Dim, 6> dims;
  for (int axis = 0; axis < type->rank(); ++axis) {
    if (!std::ranges::count(axes, axis)) dims.push_back(type->dim(axis));
  }
  const ir::Type* squeezed_type =
      draft_.context().tensor_type(type->dtype(), std::span<const ir::Dim>(dims.data(), dims.size()));
  if (const Tensor* t = constant(i)) {
    set_input(i, t->reshaped(*squeezed_type->static_shape()));
    return true;
  }
  // A symbol is the same size everywhere, an unknown size is none.
  ValueId before = operand_of(inputs_[i], "Unsqueeze");
  if (before != kOmitted && draft_.value(before).type == squeezed_type &&
      std::ranges::none_of(dims, &ir::Dim::is_unknown)) {
    skip_node(i, before);
    return true;
  }
  if (!may_add_node) return false;
  set_input(i, add_helper("Squeeze", {inputs_[i], make_constant(Tensor::vector<int64_t>(axes))}, {}, squeezed_type));
  return true;
}

const AttributeValue* Fitting::default_of(std::string_view name) const {
  const ir::Operator* op = draft_.context().find_operator(node_.op->domain, node_.op->name);
  const ir::AttributeDeclaration* declared = op ? op->find_attribute(name) : nullptr;
  return declared && declared->otherwise ? &*declared->otherwise : nullptr;
}

int64_t Fitting::get_int(std::string_view name) const {
  const AttributeValue* otherwise = default_of(name);
  const int64_t* number = otherwise ? std::get_if<int64_t>(otherwise) : nullptr;
  return node_.attributes->get_int(name, number ? *number : 0);
}

std::string Fitting::get_string(std::string_view name) const {
  const AttributeValue* otherwise = default_of(name);
  const std::string* text = otherwise ? std::get_if<std::string>(otherwise) : nullptr;
  return node_.attributes->get_string(name, text ? *text : "");
}

void Fitting::set(std::string_view name, AttributeValue value) {
  node_.attributes = draft_.keep(node_.attributes->with(name, std::move(value)));
}

void Fitting::erase(std::string_view name) {
  if (has(name)) node_.attributes = draft_.keep(node_.attributes->without(name));
}

// Fitting: the steps -------------------------------------------------------------------------------------

bool Fitting::run() {
  if (!node_.op->depends_on(opset_)) return true;
  const OperatorHistory* history = node_.op->history;
  if (history->newest() > opset_ && node_.op->domain.empty()) {
    for (const DraftOperator* op = nullptr; op != node_.op;) {  // a rule may make it another operator
      op = node_.op;
      for (const DowngradeRule& rule : downgrade_rules(op->name)) {
        if (opset_ < rule.before && !rule.apply(*this)) return false;
        if (node_.op != op) break;
      }
    }
    history = node_.op->history;
  }
  const OperatorHistory::Version* version = history ? history->at(opset_) : nullptr;
  // A model that was written before a version was withdrawn may keep it.
  bool may_write = version && (!version->is_withdrawn || history->at(source_) == version);
  bool fits =
      may_write && kept_attributes_fit_ &&
      (history->newest() <= opset_ || (fit_attributes(*history) && fit_counts(*version) && fit_types(*history)));
  node_.inputs = draft_.keep(std::span<const ValueId>(inputs_));
  return fits;
}

bool Fitting::fit_attributes(const OperatorHistory& history) {
  for (const OperatorHistory::Version& version : history.versions) {
    if (version.since <= opset_) continue;
    for (std::string_view name : version.new_attributes) {
      const AttributeValue* value = node_.attributes->find(name);
      if (!value) continue;
      const AttributeValue* otherwise = default_of(name);
      if (!otherwise || !identical(*value, *otherwise)) return false;
      erase(name);
    }
    for (std::string_view name : version.new_defaults) {
      const AttributeValue* otherwise = default_of(name);
      if (otherwise && !has(name)) set(name, *otherwise);
    }
  }
  return true;
}

bool Fitting::fit_counts(const OperatorHistory::Version& version) {
  while (!inputs_.empty() && inputs_.back() == kOmitted) inputs_.pop_back();
  if (inputs_.size() < version.inputs.least && may_omit_inputs_up_to(version.inputs.least)) {
    inputs_.resize(version.inputs.least, kOmitted);
  }
  if (inputs_.size() < version.inputs.least || inputs_.size() > version.inputs.most) return false;
  return node_.outputs.size() <= version.outputs.most;
}

// Whether the node had these inputs omitted from the start: a Loop without a condition.
bool Fitting::may_omit_inputs_up_to(size_t count) const {
  return node_.inputs.size() >= count &&
         std::ranges::all_of(node_.inputs.subspan(inputs_.size(), count - inputs_.size()),
                             [](ValueId id) { return id == kOmitted; });
}

bool Fitting::fit_types(const OperatorHistory& history) const {
  auto fits = [&](const std::vector<std::string_view>& variables, std::span<const ValueId> values) {
    for (size_t i = 0; i < values.size() && !variables.empty(); ++i) {
      if (values[i] == kOmitted) continue;
      std::string_view variable = variables[std::min(i, variables.size() - 1)];
      if (traits_of(draft_.value(values[i]).type) & history.missing(variable, opset_)) return false;
    }
    return true;
  };
  return fits(history.input_variables, inputs_) && fits(history.output_variables, node_.outputs);
}

bool is_expressible(const ir::Apply& node, int64_t opset) {
  const ir::Operator& op = node.op();
  const OperatorHistory* history = find_history(op.domain, op.name);
  if (!history || op.name == "CastLike") return true;  // which becomes a Cast
  const OperatorHistory::Version* version = history->at(opset);
  if (!version || version->is_withdrawn) return false;
  if (history->newest() <= opset) return true;
  auto lacks = [&](const std::vector<std::string_view>& variables, size_t i, const ir::Type* type) {
    return !variables.empty() &&
           (traits_of(type) & history->missing(variables[std::min(i, variables.size() - 1)], opset)) != 0;
  };
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (lacks(history->input_variables, i, node.input(i)->type())) return false;
  }
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    const ir::Type* type = node.type() && node.type()->is_tuple() ? node.type()->element(i) : node.type();
    if (lacks(history->output_variables, i, type)) return false;
  }
  auto rules = op.domain.empty() ? downgrade_rules(op.name) : std::span<const DowngradeRule>();
  if (std::ranges::any_of(rules, [&](const DowngradeRule& rule) { return opset < rule.before; })) return true;
  for (const OperatorHistory::Version& later : history->versions) {
    if (later.since <= opset) continue;
    for (std::string_view name : later.new_attributes) {
      const AttributeValue* value = node.attributes().find(name);
      const ir::AttributeDeclaration* declared = op.find_attribute(name);
      if (value && !(declared && declared->otherwise && identical(*value, *declared->otherwise))) return false;
    }
  }
  return true;
}

// The choice of the operator set ----------------------------------------------------------------------------

namespace {

bool fits(Draft& draft, DraftGraph& graph, const DraftNode& node, int64_t opset, int64_t source) {
  if (!node.op->depends_on(opset)) return true;
  DraftNode copy = node;
  return Fitting(draft, graph, copy, opset, source).run();
}

std::string describe(const Draft& draft, const DraftNode& node) {
  std::string_view name = node.name;
  for (size_t i = 0; i < node.outputs.size() && name.empty(); ++i) name = draft.value(node.outputs[i]).name;
  std::string kind = ir::qualified_name(node.op->domain, node.op->name);
  return name.empty() ? kind : fmt::format("{} '{}'", kind, name);
}

class Choice {
 public:
  Choice(Draft& draft, std::string_view domain, int64_t source) : draft_(draft), domain_(domain), source_(source) {}

  // The version nearest to `wanted` that expresses all nodes: the lowest above, or where an operator is gone there, the
  // highest below.
  int64_t nearest(int64_t wanted) {
    int64_t opset = wanted;
    while (const DraftNode* node = first_misfit(opset)) {
      int64_t higher = opset + 1, newest = newest_opset(domain_);
      while (higher <= newest && !fits(draft_, *misfit_graph_, *node, higher, source_)) ++higher;
      if (because.empty()) because = describe(draft_, *node);
      if (higher > newest) return highest_below(wanted, *node);
      opset = higher;
    }
    return opset;
  }
  std::string because;  // the first node that `wanted` cannot express

 private:
  int64_t highest_below(int64_t wanted, const DraftNode& obstacle) {
    for (int64_t opset = wanted - 1; opset > 0; --opset) {
      if (!first_misfit(opset)) return opset;
    }
    Error error(ErrorCode::Unsupported,
                fmt::format("no version of the operator set '{}' has all operators of the model",
                            domain_.empty() ? "ai.onnx" : domain_));
    throw error.at_node(describe(draft_, obstacle));
  }

  const DraftNode* first_misfit(int64_t opset) {
    auto may_misfit = [&](const DraftOperator& op) {
      return op.is_used && op.domain == domain_ && op.depends_on(opset);
    };
    if (std::ranges::none_of(draft_.operators(), may_misfit)) return nullptr;
    const DraftNode* misfit = nullptr;
    auto look = [&](DraftGraph& graph) {
      if (misfit) return;
      for (const DraftNode& node : graph.nodes) {
        if (node.op->domain != domain_ || fits(draft_, graph, node, opset, source_)) continue;
        misfit = &node;
        misfit_graph_ = &graph;
        return;
      }
    };
    Draft::for_each_graph(draft_.main(), look);
    for (DraftGraph* function : draft_.functions()) Draft::for_each_graph(*function, look);
    return misfit;
  }

  Draft& draft_;
  std::string_view domain_;
  int64_t source_;
  DraftGraph* misfit_graph_ = nullptr;
};

}  // namespace

namespace {

// A node with graphs that cannot be fitted, because they are kept as bytes; null when there is none.
const DraftNode* find_verbatim_graph(Draft& draft) {
  const DraftNode* found = nullptr;
  if (std::ranges::all_of(draft.operators(), &DraftOperator::is_known)) return found;
  auto look = [&](DraftGraph& graph) {
    for (const DraftNode& node : graph.nodes) {
      if (found || node.op->is_known) continue;
      for (const auto& [name, value] : *node.attributes) {
        if (name.ends_with(kVerbatimSuffix)) found = &node;
      }
    }
  };
  Draft::for_each_graph(draft.main(), look);
  for (DraftGraph* function : draft.functions()) Draft::for_each_graph(*function, look);
  return found;
}

// Before operator set 13, Softmax and its kin take all axes from one on together. Import says that by Flatten, Softmax and a
// Reshape to what it was; here the three are one again.
bool rejoin_flattened(Draft& draft, DraftGraph& graph) {
  static constexpr std::string_view kParts[] = {"Flatten", "Softmax", "LogSoftmax", "Hardmax", "Shape"};
  boost::unordered_flat_map<ValueId, const DraftNode*> made_by;  // of the parts
  auto maker = [&](ValueId value, std::initializer_list<std::string_view> ops) -> const DraftNode* {
    auto found = made_by.find(value);
    bool is_one = found != made_by.end() && std::ranges::count(ops, found->second->op->name);
    return is_one ? found->second : nullptr;
  };
  auto same_shape = [&](ValueId a, ValueId b) {
    const ir::Type *x = draft.value(a).type, *y = draft.value(b).type;
    return x && y && x->is_tensor() && y->is_tensor() && x->has_rank() && y->has_rank() &&
           std::ranges::equal(x->dims(), y->dims(), [](ir::Dim p, ir::Dim q) { return provably_equal(p, q); });
  };
  bool any = false;
  for (DraftNode& node : graph.nodes) {
    if (!node.op->domain.empty() || node.outputs.empty()) continue;
    if (node.op->name != "Reshape") {
      if (std::ranges::count(kParts, node.op->name)) made_by[node.outputs[0]] = &node;
      continue;
    }
    if (node.inputs.size() < 2) continue;
    const DraftNode* softmax = maker(node.inputs[0], {"Softmax", "LogSoftmax", "Hardmax"});
    const DraftNode* flatten = softmax ? maker(softmax->inputs[0], {"Flatten"}) : nullptr;
    if (!flatten || softmax->attributes->get_int("axis", 1) != 1) continue;
    const ValueId x = flatten->inputs[0];
    const DraftNode* shape = maker(node.inputs[1], {"Shape"});
    const bool is_shape_of_x = shape && shape->inputs[0] == x && *shape->attributes == AttributeSet();
    if (!is_shape_of_x && !same_shape(x, node.outputs[0])) continue;
    node.op = softmax->op;
    node.attributes = draft.keep(AttributeSet{{"axis", flatten->attributes->get_int("axis", 1)}});
    node.inputs = draft.keep(std::span<const ValueId>(&x, 1));
    any = true;
  }
  return any;
}

}  // namespace

void fit_to_opsets(Draft& draft, const ir::Metadata& source, ExportReport& report) {
  const DraftNode* verbatim = find_verbatim_graph(draft);
  auto source_of = [&](std::string_view domain) {
    auto version = source.opsets.find(domain);
    return version == source.opsets.end() ? newest_opset(domain) : version->second;
  };
  for (auto& [domain, version] : report.opsets) {
    if (!domain.empty() && newest_opset(domain) == 1) continue;
    int64_t asked_for = version;
    std::string because;
    if (verbatim && source.opsets.contains(domain)) {
      version = source_of(domain);
      because = describe(draft, *verbatim);
    }
    Choice choice(draft, domain, source_of(domain));
    int64_t chosen = choice.nearest(version);
    if (verbatim && chosen != version) {
      throw Error(ErrorCode::Unsupported,
                  fmt::format("its graphs are of operator set {}, but {} needs {}", version, choice.because, chosen))
          .at_node(describe(draft, *verbatim));
    }
    version = chosen;
    if (version != asked_for)
      report.moved.push_back({domain, asked_for, version, choice.because.empty() ? because : choice.because});
  }
  auto needs_fitting = [&](const DraftOperator& op) {
    auto opset = report.opsets.find(op.domain);
    return opset != report.opsets.end() && op.depends_on(opset->second);
  };
  if (std::ranges::none_of(draft.operators(), needs_fitting)) return;
  bool has_unused = false;
  auto fit = [&](DraftGraph& graph) {
    std::vector<std::pair<size_t, DraftNode>> helpers;  // with the place that they go before
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!graph.nodes[i].op->history) continue;
      auto opset = report.opsets.find(graph.nodes[i].op->domain);
      if (opset == report.opsets.end()) continue;
      Fitting fitting(draft, graph, graph.nodes[i], opset->second, source_of(opset->first));
      fitting.run();
      has_unused |= fitting.skipped_node();
      for (const DraftNode& helper : fitting.helpers()) helpers.emplace_back(i, helper);
    }
    if (helpers.empty()) return;
    LargeVector<DraftNode> nodes;
    auto helper = helpers.begin();
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (; helper != helpers.end() && helper->first == i; ++helper) nodes.push_back(helper->second);
      nodes.push_back(graph.nodes[i]);
    }
    graph.nodes = std::move(nodes);
  };
  Draft::for_each_graph(draft.main(), fit);
  for (DraftGraph* function : draft.functions()) Draft::for_each_graph(*function, fit);
  if (auto opset = report.opsets.find(""); opset != report.opsets.end() && opset->second < 13) {
    auto rejoin = [&](DraftGraph& graph) { has_unused |= rejoin_flattened(draft, graph); };
    Draft::for_each_graph(draft.main(), rejoin);
    for (DraftGraph* function : draft.functions()) Draft::for_each_graph(*function, rejoin);
  }
  if (has_unused) draft.remove_unused_nodes();
}

void leave_out_defaults(Draft& draft, int64_t opset) {
  // Defaults that are others now. That of Transpose depends on the rank.
  struct Default {
    std::string_view op_type, attribute;
    int64_t before;
    AttributeValue value;
  };
  static const Default kDefaults[] = {
      {"GridSample", "mode", 20, std::string("bilinear")},
      {"Hardmax", "axis", 13, int64_t{1}},
      {"LogSoftmax", "axis", 13, int64_t{1}},
      {"Softmax", "axis", 13, int64_t{1}},
      {"Transpose", "perm", std::numeric_limits<int64_t>::max(), {}},
  };
  auto reversed = [](size_t rank) {
    std::vector<int64_t> perm(rank);
    for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(rank - 1 - i);
    return perm;
  };
  boost::unordered_flat_map<const DraftOperator*, const Default*> defaults;
  for (const DraftOperator& op : draft.operators()) {
    auto found = std::ranges::find(kDefaults, op.name, &Default::op_type);
    if (op.domain.empty() && found != std::end(kDefaults) && opset < found->before) defaults.emplace(&op, found);
  }
  if (defaults.empty()) return;
  auto leave_out = [&](DraftGraph& graph) {
    for (DraftNode& node : graph.nodes) {
      auto found = defaults.find(node.op);
      if (found == defaults.end()) continue;
      const auto& [op_type, attribute, before, otherwise] = *found->second;
      const AttributeValue* value = node.attributes->find(attribute);
      if (!value) continue;
      const auto* perm = op_type == "Transpose" ? std::get_if<std::vector<int64_t>>(value) : nullptr;
      if (identical(*value, perm ? AttributeValue(reversed(perm->size())) : otherwise)) {
        node.attributes = draft.keep(node.attributes->without(attribute));
      }
    }
  };
  Draft::for_each_graph(draft.main(), leave_out);
  for (DraftGraph* function : draft.functions()) Draft::for_each_graph(*function, leave_out);
}

}  // namespace anfora::onnx
