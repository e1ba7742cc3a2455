#include "ir/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "anfora/error.h"
#include "ir/annotations.h"
#include "support/deferred_elements.h"
#include "support/hash.h"
#include "support/release_elements.h"

namespace anfora::ir {

namespace {

// Of a tensor's bytes, this much from either end and the middle goes into its hash: enough to tell weights
// apart, little enough that opening a model does not read it.
constexpr size_t kHashedWindow = 256;

uint64_t fingerprint(const Tensor& t) {
  uint64_t h = hash_combine(static_cast<uint64_t>(t.dtype()), static_cast<uint64_t>(t.size()));
  if (t.dtype() == DType::String) {
    for (const std::string& s : t.data<std::string>()) h = hash_combine(h, hash_bytes(s.data(), s.size()));
    return h;
  }
  const size_t size = t.bytes();
  if (size <= 3 * kHashedWindow) return hash_combine(h, hash_bytes(t.raw(), size));
  for (size_t begin : {size_t{0}, (size - kHashedWindow) / 2, size - kHashedWindow}) {
    std::array<std::byte, kHashedWindow> window;
    DeferredElements::copy_bytes(t, begin, window.size(), window.data());
    h = hash_combine(h, hash_bytes(window.data(), window.size()));
  }
  return h;
}

}  // namespace

struct Module::Tables {
  std::deque<Tensor> tensors;
  boost::unordered_flat_map<uint64_t, boost::container::small_vector<Value*, 1>> by_fingerprint;
  std::unordered_map<std::string, int> graph_names;  // and the last suffix given to a graph of that name
  boost::unordered_flat_map<std::pair<const Location*, const Location*>, const Location*> inlined;  // location and call
  std::vector<Value*> types;  // as values: few
};

bool Apply::has_input(size_t i) const {
  if (i >= num_inputs()) return false;
  const Value* value = input(i)->as_value();
  return !value || !value->is_none();
}

std::string to_string(const Location& location) {
  std::string text;
  for (const Location* l = &location; l; l = l->inlined_at) {
    std::string place(l->file);
    if (l->index >= 0) place += fmt::format("{}node {}", place.empty() ? "" : ": ", l->index);
    if (l->line > 0) place += fmt::format(":{}", l->line);
    if (l->column > 0) place += fmt::format(":{}", l->column);
    if (!text.empty()) text += ", inlined at ";
    if (l->name.empty()) {
      text += place;
    } else if (place.empty()) {
      text += l->name;
    } else {
      fmt::format_to(std::back_inserter(text), "{} ({})", l->name, place);
    }
  }
  return text;
}

std::string describe(const Node& node) {
  std::string kind = node.is_apply() ? node.as_apply()->op().qualified : node.is_parameter() ? "parameter" : "constant";
  std::string_view name = node.location() && !node.location()->name.empty() ? node.location()->name : node.name();
  return name.empty() ? fmt::format("{} %{}", kind, node.id()) : fmt::format("{} '{}'", kind, name);
}

bool Graph::is_inside(const Graph* ancestor) const {
  for (const Graph* g = this; g; g = g->parent_) {
    if (g == ancestor) return true;
  }
  return false;
}

int Graph::depth() const {
  int depth = 0;
  for (const Graph* g = parent_; g; g = g->parent_) ++depth;
  return depth;
}

Module::Module(Context& context)
    : context_(context),
      annotations_(std::make_unique<Annotations>(context)),
      tables_(std::make_unique<Tables>()) {}
Module::~Module() = default;

Graph* Module::make_graph(std::string_view name, Graph* parent) {
  auto& names = tables_->graph_names;
  std::string unique(name);
  while (!names.emplace(unique, 0).second) unique = fmt::format("{}.{}", name, ++names.at(std::string(name)));
  auto graph = std::make_unique<Graph>();
  graph->name_ = std::move(unique);
  graph->module_ = this;
  graph->parent_ = parent;
  Value* value = init(new (nodes_.allocate(sizeof(Value))) Value(), nullptr, nullptr, {});
  value->function_ = graph.get();
  graph->value_ = value;
  graphs_.push_back(graph.get());
  ++version_;
  owned_graphs_.push_back(std::move(graph));
  return graphs_.back();
}

Graph* Module::find_graph(std::string_view name) const {
  auto found = std::ranges::find(graphs_, name, &Graph::name);
  return found == graphs_.end() ? nullptr : *found;
}

template <class N>
N* Module::init(N* node, Graph* graph, const Type* type, std::string_view name) {
  node->id_ = next_id_++;
  node->graph_ = graph;
  node->type_ = type;
  set_name(node, name);
  return node;
}

void Module::set_name(Node* node, std::string_view name) {
  std::string_view copy = texts_.copy(name);
  node->name_ = copy.data();
  node->name_size_ = static_cast<uint32_t>(copy.size());
}

Parameter* Module::add_parameter(Graph* graph, const Type* type, std::string_view name) {
  Parameter* parameter = init(new (nodes_.allocate(sizeof(Parameter))) Parameter(), graph, type, name);
  parameter->num_inputs_ = static_cast<uint32_t>(graph->parameters_.size());
  graph->parameters_.push_back(parameter);
  for (Listener* l : listeners_) l->on_created(*parameter);
  return parameter;
}

void Module::remove_parameter(Parameter* parameter) {
  if (parameter->has_uses()) throw Error(ErrorCode::Internal, "a parameter is removed while it is used");
  auto& all = parameter->graph_->parameters_;
  all.erase(all.begin() + parameter->num_inputs_);
  for (size_t i = parameter->num_inputs_; i < all.size(); ++i) all[i]->num_inputs_ = static_cast<uint32_t>(i);
  for (Listener* l : listeners_) l->on_erased(*parameter);
  parameter->erased_ = true;
}

Value* Module::constant(Tensor tensor, std::string_view name) {
  const uint64_t print = fingerprint(tensor);
  auto& bucket = tables_->by_fingerprint[print];
  for (Value* value : bucket) {
    if (Tensor::identical(value->tensor(), tensor)) return value;
  }
  // The same elements in another shape are another constant, but need no memory of their own.
  for (const Value* value : bucket) {
    if (value->tensor().size() != tensor.size()) continue;
    Tensor reshaped = value->tensor().reshaped(tensor.shape());
    if (!Tensor::identical(reshaped, tensor)) continue;
    tensor = std::move(reshaped);
    break;
  }
  tables_->tensors.push_back(std::move(tensor));
  const Tensor& kept = tables_->tensors.back();
  const Type* type = context_.tensor_type(kept.dtype(), std::span<const int64_t>(kept.shape()));
  Value* value = init(new (nodes_.allocate(sizeof(Value))) Value(), nullptr, type, name);
  value->tensor_ = &kept;
  fingerprints_.push_back(print);
  if (!DeferredElements::are_missing(kept)) bytes_made_ += kept.bytes();
  bucket.push_back(value);
  constants_.push_back(value);
  for (Listener* l : listeners_) l->on_created(*value);
  return value;
}

void Module::erase_unused_constants() {
  boost::unordered_flat_set<const Value*> defaults;
  for (const auto& [parameter, value] : defaults_) defaults.insert(value);
  size_t kept = 0;
  for (size_t i = 0; i < constants_.size(); ++i) {
    Value* value = constants_[i];
    if (value->has_uses() || defaults.contains(value)) {
      fingerprints_[kept] = fingerprints_[i];
      constants_[kept++] = value;
      continue;
    }
    auto bucket = tables_->by_fingerprint.find(fingerprints_[i]);
    bucket->second.erase(std::ranges::find(bucket->second, value));
    if (bucket->second.empty()) tables_->by_fingerprint.erase(bucket);
    release_elements(const_cast<Tensor&>(value->tensor()));
    value->erased_ = true;
  }
  constants_.resize(kept);
  fingerprints_.resize(kept);
  bytes_made_ = 0;
}

void Module::erase_unused_constants_at_times() {
  constexpr size_t kWorthIt = 8 << 20, kBytesOfVisit = 1 << 10;
  if (bytes_made_ >= std::max(kWorthIt, kBytesOfVisit * constants_.size())) erase_unused_constants();
}

Value* Module::none() {
  if (!none_) none_ = init(new (nodes_.allocate(sizeof(Value))) Value(), nullptr, context_.none_type(), {});
  return none_;
}

Value* Module::type(const Type* type) {
  for (Value* value : tables_->types) {
    if (value->described() == type) return value;
  }
  Value* value = init(new (nodes_.allocate(sizeof(Value))) Value(), nullptr, context_.type_type(type), {});
  tables_->types.push_back(value);
  for (Listener* l : listeners_) l->on_created(*value);
  return value;
}

void Module::link(Use& use, Node* node) {
  ++version_;
  use.node = node;
  use.next = node->first_use_;
  use.link = &node->first_use_;
  if (use.next) use.next->link = &use.next;
  node->first_use_ = &use;
}

void Module::unlink(Use& use) {
  if (!use.link) return;
  *use.link = use.next;
  if (use.next) use.next->link = use.link;
  use.link = nullptr;
  use.next = nullptr;
}

void Module::append(Graph* graph, Apply* node) {
  node->graph_ = graph;
  node->previous_ = graph->last_;
  node->next_ = nullptr;
  (graph->last_ ? graph->last_->next_ : graph->first_) = node;
  graph->last_ = node;
  ++graph->num_nodes_;
  num_operations_ += node->primitive() == Primitive::Operation;
  ++version_;
}

void Module::remove(Apply* node) {
  Graph* graph = node->graph_;
  (node->previous_ ? node->previous_->next_ : graph->first_) = node->next_;
  (node->next_ ? node->next_->previous_ : graph->last_) = node->previous_;
  --graph->num_nodes_;
  num_operations_ -= node->primitive() == Primitive::Operation;
  ++version_;
}

Apply* Module::apply_interned(Graph* graph, const Operator& op, std::span<Node* const> inputs,
                              const AttributeSet* attributes, size_t num_outputs, const Location* location,
                              std::string_view name) {
  void* memory = nodes_.allocate(sizeof(Apply) + inputs.size() * sizeof(Use), alignof(Apply));
  Apply* node = init(new (memory) Apply(), graph, nullptr, name);
  node->op_ = &op;
  node->attributes_ = attributes;
  node->num_outputs_ = static_cast<uint16_t>(num_outputs);
  node->num_inputs_ = static_cast<uint32_t>(inputs.size());
  node->location_ = location;
  append(graph, node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Use* use = new (node->mutable_operands() + i) Use();
    use->user = node;
    link(*use, inputs[i]);
  }
  for (Listener* l : listeners_) l->on_created(*node);
  return node;
}

Apply* Module::apply(Graph* graph, const Operator& op, std::span<Node* const> inputs, const AttributeSet& attributes,
                     size_t num_outputs, const Location* location, std::string_view name) {
  return apply_interned(graph, op, inputs, context_.attributes(attributes), num_outputs, location, name);
}

static const Location* first_location(std::span<Node* const> nodes) {
  for (Node* n : nodes) {
    if (n->location()) return n->location();
  }
  return nullptr;
}

Apply* Module::call(Graph* graph, Node* callee, std::span<Node* const> arguments) {
  boost::container::small_vector<Node*, 8> inputs{callee};
  inputs.insert(inputs.end(), arguments.begin(), arguments.end());
  std::span<Node* const> all(inputs.data(), inputs.size());
  return apply(graph, context_.primitive(Primitive::Call), all, {}, 1, first_location(all));
}

Apply* Module::make_switch(Graph* graph, Node* condition, Node* if_true, Node* if_false) {
  Node* inputs[] = {condition, if_true, if_false};
  return apply(graph, context_.primitive(Primitive::Switch), inputs, {}, 1, first_location(inputs));
}

Apply* Module::make_tuple(Graph* graph, std::span<Node* const> items) {
  return apply(graph, context_.primitive(Primitive::MakeTuple), items, {}, 1, first_location(items));
}

Node* Module::tuple_item(Graph* graph, Node* tuple, size_t index) {
  if (Apply* made = tuple->as(Primitive::MakeTuple)) return made->input(index);
  Apply* item = apply(graph, context_.primitive(Primitive::TupleGetItem), {tuple},
                      {{"index", static_cast<int64_t>(index)}}, 1, tuple->location());
  if (tuple->type() && tuple->type()->is_tuple()) item->set_type(tuple->type()->element(index));
  return item;
}

void Module::set_result(Graph* graph, Node* result) {
  if (graph->return_) {
    set_operand(graph->return_, 0, result);
  } else {
    graph->return_ = apply(graph, context_.primitive(Primitive::Return), {result});
  }
  graph->return_->type_ = result->type_;
}

const Location* Module::location(const Location& location) {
  Location copy = location;
  copy.file = context_.string(location.file);
  copy.name = texts_.copy(location.name);
  return texts_.make<Location>(copy);
}

// Where both were inlined already is said once: a function inside of one that was inlined, the next iteration of a loop.
const Location* Module::inlined(const Location* location, const Location* call) {
  if (!location || !call) return location;
  boost::container::small_vector<const Location*, 8> around, chain;  // the innermost first
  for (const Location* l = call; l; l = l->inlined_at) around.push_back(l);
  for (const Location* l = location; l && std::ranges::find(around, l) == around.end(); l = l->inlined_at) chain.push_back(l);
  const Location* made = call;
  for (; !chain.empty(); chain.pop_back()) {
    const Location* origin = chain.back()->before_inlining();
    const Location*& at = tables_->inlined[{origin, made}];
    if (!at) {
      Location with = *origin;
      with.inlined_at = made;
      with.origin = origin;
      at = texts_.make<Location>(with);
    }
    made = at;
  }
  return made;
}

void Module::set_operand(Apply* user, size_t index, Node* node) {
  Use& use = user->mutable_operands()[index];
  if (use.node == node) return;
  unlink(use);
  link(use, node);
  for (Listener* l : listeners_) l->on_operand_changed(*user, index);
}

void Module::replace(Node* old_node, Node* new_node) {
  if (old_node == new_node) return;
  for (Listener* l : listeners_) l->on_replaced(*old_node, *new_node);
  if (!new_node->location_ && new_node->is_apply()) new_node->location_ = old_node->location_;
  if (new_node->name_size_ == 0 && new_node->is_apply()) {
    new_node->name_ = old_node->name_;
    new_node->name_size_ = old_node->name_size_;
  }
  while (Use* use = old_node->first_use_) {
    unlink(*use);
    link(*use, new_node);
    for (Listener* l : listeners_) l->on_operand_changed(*use->user, use->index());
  }
}

// The node's operands are unlinked and nothing uses it.
void Module::finish_erasing(Apply* node) {
  if (node->has_uses()) {
    throw Error(ErrorCode::Internal, fmt::format("{} is erased while it is used", describe(*node)));
  }
  remove(node);
  if (node->graph_->return_ == node) node->graph_->return_ = nullptr;
  node->erased_ = true;
}

void Module::erase(Apply* node) {
  if (node->erased_) return;
  for (Listener* l : listeners_) l->on_erased(*node);
  for (size_t i = 0; i < node->num_inputs_; ++i) unlink(node->mutable_operands()[i]);
  finish_erasing(node);
}

void Module::erase_dead(std::span<Apply* const> nodes, std::span<Graph* const> graphs) {
  LargeVector<Apply*> dead(nodes.begin(), nodes.end());
  for (Graph* graph : graphs) {
    for (Apply* node = graph->first_; node; node = node->next_) dead.push_back(node);
  }
  for (Apply* node : dead) {
    for (Listener* l : listeners_) l->on_erased(*node);
    for (size_t i = 0; i < node->num_inputs_; ++i) unlink(node->mutable_operands()[i]);
  }
  for (Apply* node : dead) {
    if (!node->erased_) finish_erasing(node);
  }
  for (Graph* graph : graphs) {
    if (graph->value_->has_uses()) {
      throw Error(ErrorCode::Internal, fmt::format("graph @{} is erased while it is used", graph->name_));
    }
    tables_->graph_names.erase(graph->name_);
    if (main_ == graph) main_ = nullptr;
  }
  boost::unordered_flat_set<const Graph*> erased(graphs.begin(), graphs.end());
  std::erase_if(graphs_, [&](Graph* g) { return erased.contains(g); });
}

void Module::erase_with_dead_operands(Apply* node) {
  boost::container::small_vector<Apply*, 16> dead{node};
  while (!dead.empty()) {
    Apply* next = dead.back();
    dead.pop_back();
    if (next->erased_ || next->has_uses()) continue;
    erase(next);
    for (const Use& use : next->operands()) {
      if (Apply* operand = use.node->as_apply(); operand && !operand->has_uses()) dead.push_back(operand);
    }
  }
}

void Module::set_attributes(Apply* node, const AttributeSet& attributes) {
  node->attributes_ = context_.attributes(attributes);
}

void Module::move(Apply* node, Graph* graph) {
  if (node->graph_ == graph) return;
  remove(node);
  append(graph, node);
}

void Module::renumber(std::span<const std::pair<Node*, uint32_t>> ids) {
  boost::unordered_flat_map<const Node*, uint32_t> wanted;
  std::unordered_set<uint32_t> taken;
  for (auto [node, id] : ids) {
    if (taken.insert(id).second) wanted.emplace(node, id);
  }
  uint32_t next = 0, end = 0;
  auto assign = [&](Node* node) {
    auto found = wanted.find(node);
    while (found == wanted.end() && taken.contains(next)) ++next;
    node->id_ = found == wanted.end() ? next++ : found->second;
    end = std::max(end, node->id_ + 1);
  };
  for (Graph* graph : graphs_) {
    assign(graph->value_);
    for (Parameter* p : graph->parameters_) assign(p);
    for (Apply* node = graph->first_; node; node = node->next_) assign(node);
  }
  for (Value* value : constants_) assign(value);
  for (Value* value : tables_->types) assign(value);
  if (none_) assign(none_);
  next_id_ = end;
  ++version_;
}

}  // namespace anfora::ir
