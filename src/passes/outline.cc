// Outlining: code that stands in a model several times becomes a function that is called. The reverse of inlining, for what is
// stored only; it runs last, for everything else sees more without calls.
//
//     %a = Relu(MatMul(%x, %v))                       graph @block(%x, %w) { return Relu(MatMul(%x, %w)) }
//     %b = Relu(MatMul(%a, %w))             →         %a = call @block(%x, %v)
//                                                     %b = call @block(%a, %w)
//
// Applications are told apart by a hash of what is above them, to several depths. Those of an equal hash are the roots of
// occurrences; others may join them that look the same as far as the function goes. From the roots, all occurrences grow together towards the operands, as long as they agree: in operators, attributes,
// element types and ranks, and in constants that may have to become attributes in an older operator set. Where they do not, and where one
// occurrence meets the root of another, as layers do that stand on each other, the operand is a parameter; operands that are
// the same in each occurrence share one. What is read from outside of an occurrence is a result.
//
// Of all candidates the one is taken that saves the most bytes in a file, until none saves any. A repetition must leave the calls without a
// cycle: an operand from outside must not depend on the inside.
//
// What came as one function, with those that it calls, becomes one again without being asked; other code only where it is, for names
// that its parts had in each occurrence are lost. A function stays small enough for inlining to take it back when the file is read.

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <vector>

#include "ir/order.h"
#include "passes/origins.h"
#include "passes/pass.h"
#include "support/hash.h"

namespace anfora::passes {

extern const Pass kOutline;

using namespace ir;

namespace {

constexpr std::string_view kOutlined = "outline";

// How many levels of operands a hash covers; a repetition for each. Long ones tell a first layer from the others.
constexpr int kDepths[] = {2, 4, 8, 16, 32};
// Applications of a function: fewer are no function, more would not be inlined again (inline.cc).
constexpr size_t kFewestOutlined = 3, kMostOutlined = 240;
// Functions that are made, and candidates that are looked at for each.
constexpr size_t kMostFunctions = 64, kMostCandidates = 512;
// Elements of a constant that every call shares: more are stored once and passed, for who inlines copies what is inside.
constexpr int64_t kMostInside = 64;

// Bytes in a file, roughly: of a node without its texts, of a name of a value, of a function around its nodes.
constexpr size_t kNodeBytes = 12, kValueBytes = 14, kFunctionBytes = 96;

size_t stored_bytes(const Apply& node) {
  if (node.primitive() != Primitive::Operation) return 0;
  size_t bytes = kNodeBytes + node.op().name.size() + kValueBytes * (node.num_inputs() + node.num_outputs());
  if (node.location()) bytes += node.location()->name.size();
  for (const auto& [name, value] : node.attributes()) {
    bytes += 8 + name.size();
    std::visit(
        [&]<class T>(const T& v) {
          if constexpr (requires { v.bytes(); }) {
            bytes += v.bytes();
          } else if constexpr (requires { v.size(); }) {
            bytes += 2 * v.size();
          }
        },
        value);
  }
  return bytes;
}

// One application of each occurrence: those that become one.
using AlikeRow = boost::container::small_vector<Apply*, 4>;
using ArgumentRow = boost::container::small_vector<Node*, 4>;

struct Repetition {
  std::vector<AlikeRow> rows;                   // the roots first
  std::vector<std::pair<size_t, size_t>> ways;  // to each row but the roots: operand of a row before
  std::vector<ArgumentRow> parameters;          // arguments of each call
  std::vector<size_t> results;                  // rows that are read outside
  int64_t saved = 0;                            // bytes
  size_t num_occurrences() const { return rows[0].size(); }
};

class Outlining {
 public:
  Outlining(PassContext& context, const FunctionOrigins& origins, bool everywhere)
      : context_(context), module_(context.module), origins_(origins), everywhere_(everywhere) {
    // What may be in a function together with what comes from a place.
    for (const auto& [place, origin] : origins) {
      for (const std::string& inside : origin.places)
        together_[inside].insert(origin.places.begin(), origin.places.end());
    }
  }

  size_t run() {
    size_t count = 0;
    while (count < kMostFunctions && context_.has_fuel() && outline_best()) ++count;
    return count;
  }

 private:
  bool outline_best() {
    const ModuleOrder order = topological_order(module_);
    const FreeVariables free_variables(order);
    free_variables_ = &free_variables;
    nodes_ = order.graphs.front().nodes;
    positions_.assign(module_.next_id(), kElsewhere);
    for (size_t i = 0; i < nodes_.size(); ++i) positions_[nodes_[i]->id()] = static_cast<uint32_t>(i);
    find_tokens();
    std::optional<Repetition> best;
    for (const AlikeRow& roots : find_roots()) {
      if (!may_join(place_of(*roots[0]), roots)) continue;
      Repetition repetition = grow(roots);
      if (repetition.rows.size() < kFewestOutlined || !close(repetition)) continue;
      if (repetition.saved > (best ? best->saved : 0) && is_acyclic(repetition)) best = std::move(repetition);
    }
    if (best) replace(*best);
    return best.has_value();
  }

  // Tokens: what applications of different occurrences must agree in -----------------------------------------------
  static constexpr uint32_t kElsewhere = UINT32_MAX;
  static constexpr uint64_t kNone = 0;  // the token of what stays where it is

  bool is_inside(const Node* node) const {
    return node->is_apply() && positions_[node->id()] != kElsewhere && tokens_[positions_[node->id()]] != kNone;
  }
  size_t position(const Node* node) const { return positions_[node->id()]; }

  void find_tokens() {
    tokens_.assign(nodes_.size(), kNone);
    by_token_.clear();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      tokens_[i] = token_of(*nodes_[i]);
      if (tokens_[i] != kNone) by_token_[tokens_[i]].push_back(nodes_[i]);
    }
  }

  uint64_t token_of(const Apply& node) const {
    if (node.primitive() == Primitive::TupleGetItem) {
      if (!is_inside(node.input(0))) return kNone;
    } else if (node.primitive() != Primitive::Operation || node.op().effect != Effect::Pure || !node.op().known ||
               node.op().domain == "anfora" || !(everywhere_ || origins_.contains(place_of(node)))) {
      return kNone;
    }
    uint64_t token = hash_combine(hash_pointer(&node.op()), hash_pointer(&node.attributes()));
    token = hash_combine(token, node.num_outputs());
    token = hash_combine(token, of_type(node.type()));
    for (const Use& use : node.operands()) token = hash_combine(token, of_operand(node, use.node));
    return token | 1;
  }
  static uint64_t of_type(const Type* type) {
    if (!type || !type->is_tensor()) return 2;
    return hash_combine(static_cast<uint64_t>(type->dtype()),
                        type->has_rank() ? static_cast<uint64_t>(type->rank()) : 99);
  }
  // Weights may differ from call to call. A shape, an axis, a bound may not.
  static uint64_t of_operand(const Apply& node, const Node* operand) {
    const Value* value = operand->as_value();
    if (!value) return hash_combine(3, of_type(operand->type()));
    if (!value->is_tensor()) return hash_pointer(value);
    const Tensor& tensor = value->tensor();
    const bool is_weight = is_float(tensor.dtype()) && (tensor.size() > 1 || node.op().fusion == FusionKind::Broadcast);
    return is_weight ? hash_combine(4, of_type(value->type())) : hash_pointer(value);
  }

  // Rows of applications above which everything agrees to some depth, the deepest agreement first.
  std::vector<AlikeRow> find_roots() const {
    std::vector<AlikeRow> found;
    boost::unordered_flat_set<uint64_t> seen;  // rows of a smaller depth, by their ids
    std::vector<uint64_t> hashes = tokens_;
    std::vector<std::vector<AlikeRow>> by_depth;
    int depth = 0;
    for (int wanted : kDepths) {
      for (; depth < wanted; ++depth) hashes = deepened(hashes);
      boost::unordered_flat_map<uint64_t, AlikeRow> classes;
      std::vector<uint64_t> order;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (tokens_[i] == kNone || nodes_[i]->primitive() != Primitive::Operation) continue;
        AlikeRow& row = classes[hashes[i]];
        if (row.empty()) order.push_back(hashes[i]);
        row.push_back(nodes_[i]);
      }
      std::vector<AlikeRow>& rows = by_depth.emplace_back();
      for (uint64_t hash : order) {
        AlikeRow& row = classes[hash];
        if (row.size() < 2) continue;
        uint64_t key = row.size();
        for (const Apply* node : row) key = hash_combine(key, node->id());
        if (seen.insert(key).second) rows.push_back(std::move(row));
      }
    }
    for (auto rows = by_depth.rbegin(); rows != by_depth.rend(); ++rows) {
      // What many depend on comes last.
      for (auto row = rows->rbegin(); row != rows->rend() && found.size() < kMostCandidates; ++row)
        found.push_back(std::move(*row));
    }
    return found;
  }
  std::vector<uint64_t> deepened(const std::vector<uint64_t>& hashes) const {
    std::vector<uint64_t> deeper(hashes.size(), kNone);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (tokens_[i] == kNone) continue;
      deeper[i] = tokens_[i];
      for (const Use& use : nodes_[i]->operands()) {
        deeper[i] = hash_combine(deeper[i], is_inside(use.node) ? hashes[position(use.node)] : 5);
      }
    }
    return deeper;
  }

  // Growth ------------------------------------------------------------------------------------------------------------
  Repetition grow(const AlikeRow& roots) {
    Repetition repetition;
    repetition.rows.push_back(roots);
    row_of_.clear();
    for (const Apply* root : roots) row_of_[root] = 0;
    const std::string_view place = place_of(*roots[0]);
    for (size_t r = 0; r < repetition.rows.size() && repetition.rows.size() < kMostOutlined; ++r) {
      for (size_t k = repetition.rows[r][0]->num_inputs(); k-- > 0;) {
        AlikeRow operands;
        if (!agree(repetition.rows[r], k, operands) || !may_join(place, operands)) continue;
        for (const Apply* operand : operands) row_of_[operand] = repetition.rows.size();
        repetition.rows.push_back(std::move(operands));
        repetition.ways.emplace_back(r, k);
      }
    }
    if (repetition.rows.size() >= kFewestOutlined) extend(repetition);
    return repetition;
  }
  // More occurrences, which the hash told apart by what is above them: a first layer has no layer before it.
  void extend(Repetition& repetition) {
    const std::string_view place = place_of(*repetition.rows[0][0]);
    for (Apply* root : by_token_.find(tokens_[position(repetition.rows[0][0])])->second) {
      if (row_of_.contains(root)) continue;
      AlikeRow occurrence{root};
      for (auto [row, operand] : repetition.ways) {
        Node* node = occurrence[row]->input(operand);
        const bool fits = is_inside(node) && !row_of_.contains(node) &&
                          tokens_[position(node)] == tokens_[position(repetition.rows[occurrence.size()][0])] &&
                          std::ranges::find(occurrence, node) == occurrence.end();
        if (!fits) break;
        occurrence.push_back(node->as_apply());
      }
      if (occurrence.size() < repetition.rows.size() || !may_join(place, occurrence)) continue;
      for (size_t r = 0; r < occurrence.size(); ++r) {
        row_of_[occurrence[r]] = r;
        repetition.rows[r].push_back(occurrence[r]);
      }
    }
  }
  // Whether one function had what comes from a place and these.
  bool may_join(std::string_view place, const AlikeRow& row) const {
    if (everywhere_) return true;
    const auto& places = together_.find(place)->second;
    return std::ranges::all_of(row, [&](const Apply* node) {
      return node->primitive() == Primitive::TupleGetItem || places.contains(place_of(*node));
    });
  }
  // Whether operand k of a row is a row that is new.
  bool agree(const AlikeRow& row, size_t k, AlikeRow& operands) const {
    for (const Apply* user : row) {
      Node* operand = user->input(k);
      if (!is_inside(operand) || row_of_.contains(operand)) return false;
      if (tokens_[position(operand)] != tokens_[position(row[0]->input(k))]) return false;
      if (std::ranges::find(operands, operand) != operands.end()) return false;
      operands.push_back(operand->as_apply());
    }
    return true;
  }

  // Whether operand k is computed inside, by the same row in each occurrence.
  bool is_internal(const Repetition& repetition, const AlikeRow& row, size_t k) const {
    const Node* first = row[0]->input(k);
    auto found = row_of_.find(first);
    if (found == row_of_.end()) return false;
    const AlikeRow& operands = repetition.rows[found->second];
    for (size_t i = 0; i < row.size(); ++i) {
      if (operands[i] != row[i]->input(k)) return false;
    }
    return true;
  }
  static bool is_inside_constant(const ArgumentRow& arguments) {
    const Value* value = arguments[0]->as_value();
    bool is_small = value && (value->is_none() || (value->is_tensor() && value->tensor().size() <= kMostInside));
    return is_small && std::ranges::all_of(arguments, [&](const Node* node) { return node == value; });
  }

  // Parameters, results and what is saved. False: it cannot be a function.
  bool close(Repetition& repetition) const {
    boost::unordered_flat_set<const Node*> constants;
    size_t inside = 0, before = 0;
    for (const AlikeRow& row : repetition.rows) {
      for (size_t k = 0; k < row[0]->num_inputs(); ++k) {
        if (is_internal(repetition, row, k)) continue;
        ArgumentRow arguments;
        for (const Apply* node : row) arguments.push_back(node->input(k));
        if (is_inside_constant(arguments)) {
          const Tensor* tensor = constant_tensor(arguments[0]);
          if (tensor && constants.insert(arguments[0]).second) inside += 40 + tensor->bytes();
        } else if (std::ranges::find(repetition.parameters, arguments) == repetition.parameters.end()) {
          if (row[0]->primitive() != Primitive::Operation) return false;  // a tuple is no argument
          repetition.parameters.push_back(std::move(arguments));
        }
      }
      inside += stored_bytes(*row[0]);
      for (const Apply* node : row) before += stored_bytes(*node);
    }
    for (size_t r = 0; r < repetition.rows.size(); ++r) {
      if (!is_read_outside(repetition, r)) continue;
      if (repetition.rows[r][0]->num_outputs() > 1) return false;  // nor is it a result
      repetition.results.push_back(r);
    }
    const size_t values = kValueBytes * (repetition.parameters.size() + repetition.results.size());
    const size_t after =
        inside + kFunctionBytes + values + repetition.num_occurrences() * (2 * kNodeBytes + 16 + values);
    repetition.saved = static_cast<int64_t>(before) - static_cast<int64_t>(after);
    return true;
  }
  bool is_read_outside(const Repetition& repetition, size_t r) const {
    const AlikeRow& row = repetition.rows[r];
    for (size_t i = 0; i < row.size(); ++i) {
      for (const Use& use : row[i]->uses()) {
        auto found = row_of_.find(use.user);
        bool inside = found != row_of_.end() && repetition.rows[found->second][i] == use.user;
        if (!inside || !is_internal(repetition, repetition.rows[found->second], use.index())) return true;
      }
    }
    return false;
  }

  // Whether an order is left when each occurrence is one: by taking away what waits for nothing, over and over.
  bool is_acyclic(const Repetition& repetition) const {
    const size_t n = nodes_.size();
    std::vector<uint32_t> place(n);  // of the occurrence, or of the node itself
    for (size_t i = 0; i < n; ++i) place[i] = static_cast<uint32_t>(i);
    for (const AlikeRow& row : repetition.rows) {
      for (size_t i = 0; i < row.size(); ++i) place[position(row[i])] = static_cast<uint32_t>(n + i);
    }
    std::vector<uint32_t> waiting(n + repetition.num_occurrences(), 0);
    std::vector<std::vector<uint32_t>> readers(waiting.size());
    for (size_t i = 0; i < n; ++i) {
      for_each_source(*nodes_[i], [&](size_t source) {
        if (place[source] == place[i]) return;
        readers[place[source]].push_back(place[i]);
        ++waiting[place[i]];
      });
    }
    std::vector<uint32_t> ready;
    size_t left = 0;
    boost::unordered_flat_set<uint32_t> all(place.begin(), place.end());
    for (uint32_t p : all) {
      ++left;
      if (waiting[p] == 0) ready.push_back(p);
    }
    while (!ready.empty()) {
      uint32_t p = ready.back();
      ready.pop_back();
      --left;
      for (uint32_t reader : readers[p]) {
        if (--waiting[reader] == 0) ready.push_back(reader);
      }
    }
    return left == 0;
  }
  // Nodes of main that one of main depends on, also through functions that it uses.
  template <class Visit>
  void for_each_source(const Apply& node, Visit&& visit) const {
    for (const Use& use : node.operands()) {
      if (use.node->graph() == module_.main() && use.node->is_apply()) visit(position(use.node));
      if (const Graph* function = constant_function(use.node)) {
        for (const Node* free : free_variables_->of(function)) {
          if (free->graph() == module_.main() && free->is_apply()) visit(position(free));
        }
      }
    }
  }

  // Writing -----------------------------------------------------------------------------------------------------------
  void replace(const Repetition& repetition) {
    row_of_.clear();
    for (size_t r = 0; r < repetition.rows.size(); ++r) {
      for (const Apply* node : repetition.rows[r]) row_of_[node] = r;
    }
    Apply& root = *repetition.rows[0][0];
    Graph* function = module_.make_graph(name_for(repetition));
    boost::unordered_flat_map<const Node*, Node*> images;
    std::vector<std::pair<ArgumentRow, Node*>> parameters;
    for (const ArgumentRow& arguments : repetition.parameters) {
      parameters.emplace_back(arguments, module_.add_parameter(function, nullptr, arguments[0]->name()));
    }
    std::vector<const AlikeRow*> order;
    for (const AlikeRow& row : repetition.rows) order.push_back(&row);
    std::ranges::sort(order, {}, [&](const AlikeRow* row) { return position((*row)[0]); });
    for (const AlikeRow* row : order) images[(*row)[0]] = copy(repetition, *row, function, images, parameters);
    boost::container::small_vector<Node*, 4> results;
    for (size_t r : repetition.results) results.push_back(images.at(repetition.rows[r][0]));
    module_.set_result(function, results.size() == 1 ? results[0] : module_.make_tuple(function, results));

    context_.applied(kOutline.name, kOutlined, root,
                     fmt::format("{} occurrences of {} applications, some {} bytes less", repetition.num_occurrences(),
                                 repetition.rows.size(), repetition.saved));
    std::vector<Apply*> calls;
    for (size_t i = 0; i < repetition.num_occurrences(); ++i) {
      boost::container::small_vector<Node*, 8> arguments;
      for (const ArgumentRow& parameter : repetition.parameters) arguments.push_back(parameter[i]);
      Apply* call = module_.call(module_.main(), function->value(), arguments);
      call->set_location(call_location(*repetition.rows[0][i]));
      calls.push_back(call);
    }
    std::vector<Apply*> dead;
    for (size_t i = 0; i < calls.size(); ++i) {
      for (size_t k = 0; k < repetition.results.size(); ++k) {
        Apply* old = repetition.rows[repetition.results[k]][i];
        Node* result = repetition.results.size() == 1 ? calls[i] : module_.tuple_item(module_.main(), calls[i], k);
        result->set_type(old->type());
        module_.replace(old, result);
      }
      for (const AlikeRow& row : repetition.rows) dead.push_back(row[i]);
    }
    module_.erase_dead(dead, {});
  }

  Node* copy(const Repetition& repetition, const AlikeRow& row, Graph* function,
             const boost::unordered_flat_map<const Node*, Node*>& images,
             std::span<const std::pair<ArgumentRow, Node*>> parameters) {
    const Apply& node = *row[0];
    boost::container::small_vector<Node*, 4> inputs;
    for (size_t k = 0; k < node.num_inputs(); ++k) {
      if (is_internal(repetition, row, k)) {
        inputs.push_back(images.at(node.input(k)));
        continue;
      }
      ArgumentRow arguments;
      for (const Apply* each : row) arguments.push_back(each->input(k));
      auto parameter = std::ranges::find(parameters, arguments, &std::pair<ArgumentRow, Node*>::first);
      inputs.push_back(parameter == parameters.end() ? node.input(k) : parameter->second);
    }
    if (node.primitive() == Primitive::TupleGetItem) {
      Node* item = module_.tuple_item(function, inputs[0], static_cast<size_t>(node.attributes().get_int("index", 0)));
      if (!node.name().empty()) module_.set_name(item, node.name());
      return item;
    }
    return module_.apply_interned(function, node.op(), inputs, &node.attributes(), node.num_outputs(),
                                  node.location() ? node.location()->before_inlining() : nullptr, node.name());
  }

  // Of what takes the place of a repetition's first node: the call that the node was inlined at, if it was.
  static const Location* call_location(const Apply& first) {
    const Location* l = first.location();
    return l && l->inlined_at ? l->inlined_at : l;
  }

  // That of the smallest function that had all of it.
  std::string name_for(const Repetition& repetition) const {
    std::string_view name = "block";
    size_t fewest = SIZE_MAX;
    for (const auto& [place, origin] : origins_) {
      auto had = [&](const AlikeRow& row) {
        return row[0]->primitive() == Primitive::TupleGetItem || origin.places.contains(place_of(*row[0]));
      };
      if (origin.places.size() >= fewest || !std::ranges::all_of(repetition.rows, had)) continue;
      name = origin.name;
      fewest = origin.places.size();
    }
    return std::string(name);
  }

  PassContext& context_;
  Module& module_;
  const FunctionOrigins& origins_;
  bool everywhere_;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> together_;  // places, by place
  const FreeVariables* free_variables_ = nullptr;
  LargeVector<Apply*> nodes_;  // of main
  std::vector<uint32_t> positions_;
  std::vector<uint64_t> tokens_;  // by position
  boost::unordered_flat_map<uint64_t, std::vector<Apply*>> by_token_;
  boost::unordered_flat_map<const Node*, size_t> row_of_;  // of the repetition in question
};

size_t run_outline(PassContext& context) {
  const FunctionOrigins& origins = context.origins().functions;
  const bool everywhere = context.options.outline;
  if (!everywhere && origins.empty()) return 0;
  return Outlining(context, origins, everywhere).run();
}

}  // namespace

const Pass kOutline{"outline", "outlining", "repeated code becomes functions that are called", run_outline};

}  // namespace anfora::passes
