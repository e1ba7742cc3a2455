// Grouping: operators that are computed element by element, and along rows, become groups, each of which one generated kernel computes. What
// lies between them is never written to memory.
//
//     %1 = Add(%x, %b)                  graph @group(%x, %b, %y) {
//     %2 = Sigmoid(%1)         →          return Mul(Mul(Add(%x, %b), Sigmoid(Add(%x, %b))), %y)
//     %3 = Mul(%1, %2)                  }
//     %4 = Mul(%3, %y)                  %4 = Group(@group, %x, %b, %y)
//
// What may lie in one group works on one space of elements (analysis/group_space.h): shapes are equal, or one is broadcast to the other, and
// sums are along the last axis. All else is opaque: products and convolutions have taken what they can by then (epilogue.rules).
//
// As in TVM (Chen et al. 2018, src/relay/transforms/fuse_ops.cc), an operator joins the nearest one that all its users lead to, its
// immediate post-dominator, where all that lies on the ways there can be in the group as well: so no group needs what needs it.
//
//            %x ───▶ Sigmoid ───▶ Mul ──▶        the post-dominator of %x is Mul; both ways there are elementwise
//             └───────────────────▲
//
// The post-dominator of a node is the lowest common ancestor of its users in the tree of post-dominators, which is built from the result
// backwards. Ancestors are found by jumps to far ancestors (Myers 1983), in O(log n) each.
//
// Where others read an operator's result as well, it joins the group of a user as a further result, if no way leads from those others back
// into the group. Searches for ways are bounded by kMostWayNodes: so the pass takes O(n log n).
//
// What is quantized inside of a group ends it where the rest depends on these bytes alone and gives bytes: the kernel of such a group computes what the
// 256 of them give, and looks elements up.
//
//     %1 = QuantizeLinear(Add(%x, %b))          one group
//     %2 = QuantizeLinear(Gelu(DequantizeLinear(%1)))   another, of %1
//
// What Slice, Split and Transpose give to a group alone is read where it lies (analysis/group_view.h): they become part of the function, but are no
// members, as they compute nothing.
//
// A group is made where what it saves is worth it (PassOptions::least_group_saving_us). An operator along rows is a group alone, too: code that
// is made for it keeps the row in registers and the first-level cache; one that takes long to compute; one that changes the width of elements, which
// plain loops do element by element; and one that reads a part in place.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

#include "analysis/cost.h"
#include "analysis/group_space.h"
#include "analysis/group_view.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "passes/pass.h"
#include "support/union_find.h"

namespace anfora::passes {

extern const Pass kGroup;

namespace {

using namespace ir;
using analysis::GroupSpace;
using analysis::GroupView;

constexpr std::string_view kGrouped = "group";

// Members of a group: as many as leave most of what is computed in registers, and compile in some milliseconds.
constexpr size_t kMostGroupMembers = 32;
// Inputs and results. Those that are no numbers take an address register or two each.
constexpr size_t kMostGroupOperands = 16, kMostGroupTensors = 12;
// Nodes that one search for a way visits.
constexpr size_t kMostWayNodes = 256;

class Grouping {
 public:
  Grouping(PassContext& context, Graph& graph, const LargeVector<Apply*>& nodes)
      : context_(context), module_(context.module), graph_(graph), nodes_(nodes), groups_(nodes.size()) {
    places_.resize(nodes.size());
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      index_.emplace(nodes[i], i);
      Place& place = places_[i];
      if (!is_read_elsewhere(*nodes[i])) {
        if (auto space = analysis::group_space(*nodes[i])) place.space = *space;
      }
      place.members = {i};
    }
  }

  size_t run() {
    find_post_dominators();
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (is_member(i)) join_post_dominator(i);
    }
    for (uint32_t i = static_cast<uint32_t>(nodes_.size()); i-- > 0;) {
      if (is_member(i)) join_user(i);
    }
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (groups_.is_representative(i) && (places_[i].members.size() > 1 || places_[i].space.reduces || is_costly(i) || reads_part(i))) make_groups(i);
    }
    return changes_;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    GroupSpace space;                 // without a type: it is in no group
    uint32_t post_dominator = kNone;  // none: the end
    uint32_t jump = kNone;            // a far ancestor
    uint32_t depth = 0;               // in the tree
    std::vector<uint32_t> members;    // of the group that it stands for
  };

  bool is_member(uint32_t i) const { return places_[i].space.type != nullptr; }

  // Also by another graph, whose applications are not looked at.
  bool is_read_elsewhere(const Apply& node) const {
    return std::ranges::any_of(node.uses(), [&](const Use& use) { return use.user->graph() != &graph_; });
  }

  // Calls f(place of the user); kNone for one that is not live, or in another graph.
  template <class F>
  void for_each_user(uint32_t i, const F& f) const {
    for (const Use& use : nodes_[i]->uses()) {
      auto found = index_.find(use.user);
      if (found != index_.end()) f(found->second);
    }
  }

  // The member that stands for the group.
  uint32_t find(uint32_t i) { return static_cast<uint32_t>(groups_.find(i)); }

  // Post-dominators -----------------------------------------------------------------------------------------------------

  uint32_t depth(uint32_t i) const { return i == kNone ? 0 : places_[i].depth; }

  uint32_t common_ancestor(uint32_t a, uint32_t b) const {
    while (a != b) {
      if (depth(a) < depth(b)) std::swap(a, b);
      const Place& place = places_[a];
      if (depth(a) > depth(b)) {
        a = depth(place.jump) >= depth(b) ? place.jump : place.post_dominator;
      } else if (place.jump != places_[b].jump) {
        a = place.jump;
        b = places_[b].jump;
      } else {
        a = place.post_dominator;
        b = places_[b].post_dominator;
      }
    }
    return a;
  }

  void find_post_dominators() {
    for (uint32_t i = static_cast<uint32_t>(nodes_.size()); i-- > 0;) {
      Place& place = places_[i];
      bool is_first = true;
      uint32_t found = kNone;
      if (!is_read_elsewhere(*nodes_[i])) {
        for_each_user(i, [&](uint32_t user) {
          found = is_first ? user : common_ancestor(found, user);
          is_first = false;
        });
      }
      place.post_dominator = found;
      place.depth = depth(found) + 1;
      // As far again as the parent's jump goes, where that is as far as its own.
      const uint32_t far = found == kNone ? kNone : places_[found].jump;
      const uint32_t farther = far == kNone ? kNone : places_[far].jump;
      const bool is_even = found != kNone && far != kNone && depth(found) - depth(far) == depth(far) - depth(farther);
      place.jump = is_even ? farther : found;
    }
  }

  // Groups --------------------------------------------------------------------------------------------------------------

  void join_post_dominator(uint32_t i) {
    const uint32_t end = places_[i].post_dominator;
    if (end == kNone || !is_member(end) || find(end) == find(i)) return;
    boost::container::small_vector<uint32_t, 8> found{i};
    boost::unordered_flat_set<uint32_t> seen{i, end};
    for (size_t at = 0; at < found.size(); ++at) {
      bool fits = is_member(found[at]);
      for_each_user(found[at], [&](uint32_t user) {
        if (seen.insert(user).second) found.push_back(user);
      });
      if (!fits || found.size() > kMostGroupMembers) return;
    }
    found.push_back(end);
    join(found);
  }

  // Makes one group of those of all these, if they fit.
  bool join(std::span<const uint32_t> all) {
    boost::container::small_vector<uint32_t, 8> groups;
    GroupSpace space = places_[find(all.back())].space;
    size_t members = 0;
    for (uint32_t i : all) {
      const uint32_t group = find(i);
      if (std::ranges::count(groups, group)) continue;
      const auto joined = GroupSpace::joined(space, places_[group].space);
      if (!joined) return false;
      space = *joined;
      members += places_[group].members.size();
      groups.push_back(group);
    }
    if (members > kMostGroupMembers) return false;
    std::vector<uint32_t> together;
    for (uint32_t group : groups)
      together.insert(together.end(), places_[group].members.begin(), places_[group].members.end());
    if (has_too_many_operands(together) || reads_dropped(together, space)) return false;
    const uint32_t first = groups[0];
    for (uint32_t group : groups) {
      groups_.unite(first, group);
      places_[group].members.clear();
    }
    places_[first].members = std::move(together);
    places_[first].space = space;
    return true;
  }

  // With a user whose group it may precede: where others read it as well, it becomes a further result.
  void join_user(uint32_t i) {
    boost::container::small_vector<uint32_t, 4> users;
    for_each_user(i, [&](uint32_t user) {
      if (is_member(user) && find(user) != find(i) && !std::ranges::count(users, user)) users.push_back(user);
    });
    std::ranges::sort(users);
    for (uint32_t user : users) {
      if (find(user) == find(i) || leads_back(i, user)) continue;
      const std::array<uint32_t, 2> both{i, user};
      if (join(both)) return;
    }
  }

  // Whether a way leads from one group through what is in neither to the other; true where the search is given up.
  bool leads_back(uint32_t from, uint32_t to) {
    const uint32_t first = find(from), last = find(to);
    uint32_t end = 0;  // nothing behind it leads there
    for (uint32_t group : {first, last}) {
      for (uint32_t member : places_[group].members) end = std::max(end, member);
    }
    boost::container::small_vector<uint32_t, 32> open;
    boost::unordered_flat_set<uint32_t> seen;
    bool is_lost = false, leads = false;
    auto visit_users = [&](uint32_t i, bool is_start) {
      is_lost = is_lost || is_read_elsewhere(*nodes_[i]);
      for_each_user(i, [&](uint32_t user) {
        const uint32_t group = find(user);
        if (is_start && (group == first || group == last)) return;
        leads = leads || group == first || group == last;
        const bool may_lead = user < end || places_[group].members.size() > 1;
        if (may_lead && seen.insert(group).second) open.push_back(group);
      });
    };
    for (uint32_t group : {first, last}) {
      for (uint32_t member : places_[group].members) visit_users(member, true);
    }
    for (size_t at = 0; at < open.size() && !is_lost && !leads; ++at) {
      if (at == kMostWayNodes) return true;
      for (uint32_t member : std::vector<uint32_t>(places_[open[at]].members)) visit_users(member, false);
    }
    return is_lost || leads;
  }

  // From outside, and results.
  bool has_too_many_operands(const std::vector<uint32_t>& members) const {
    boost::unordered_flat_set<const Node*> inputs;
    size_t results = 0;
    for (uint32_t i : members) {
      for (size_t k = 0; k < nodes_[i]->num_inputs(); ++k) {
        if (is_argument(*nodes_[i], k, members)) inputs.insert(nodes_[i]->input(k));
      }
      results += is_result(i, members);
    }
    const auto numbers = static_cast<size_t>(std::ranges::count_if(inputs, is_number));
    return inputs.size() + results > kMostGroupOperands || inputs.size() - numbers + results > kMostGroupTensors;
  }
  // Whether a member reads sums whose axis has gone: they are numbers of rows in the space, and of other axes to their reader.
  bool reads_dropped(const std::vector<uint32_t>& members, const GroupSpace& space) const {
    return std::ranges::any_of(members, [&](uint32_t i) {
      return nodes_[i]->type()->rank() < space.type->rank() &&
             std::ranges::any_of(nodes_[i]->uses(), [&](const Use& use) { return contains(members, use.user); });
    });
  }
  bool contains(const std::vector<uint32_t>& members, const Node* node) const {
    auto found = index_.find(node);
    return found != index_.end() && std::ranges::count(members, found->second) > 0;
  }
  // Constants of one element are part of the code, axes of what it is made of. Scales differ from layer to layer, whose code is the same
  // otherwise.
  bool is_argument(const Apply& node, size_t k, const std::vector<uint32_t>& members) const {
    const ops::ScalarForm& form = *ops::scalar_form(node);
    if (!node.has_input(k) || !ops::is_scalar_operand(form, k)) return false;
    const Tensor* constant = constant_tensor(node.input(k));
    const bool is_code = constant && constant->size() == 1 && form.bytes == 0;
    return !is_code && !contains(members, node.input(k));
  }
  bool is_result(uint32_t i, const std::vector<uint32_t>& members) const {
    return std::ranges::any_of(nodes_[i]->uses(), [&](const Use& use) { return !contains(members, use.user); });
  }

  // Whether computing an element takes longer than reading and writing it in the cache, or elements change their width: then code with the widest
  // vectors is worth it alone.
  bool is_costly(uint32_t i) const {
    constexpr double kCheapFlops = 8;
    if (!is_member(i) || !nodes_[i]->type()->is_tensor()) return false;
    const Type* type = nodes_[i]->type();
    const double elements = analysis::bytes_of(type) / static_cast<double>(element_bytes(type->dtype()));
    const size_t width = element_bytes(type->dtype());
    const bool changes_width = std::ranges::any_of(nodes_[i]->operands(), [&](const Use& use) {
      return use.node->type()->is_tensor() && element_bytes(use.node->type()->dtype()) != width;
    });
    return is_of_bytes(nodes_[i]) || changes_width || analysis::estimate_flops(context_.inference, *nodes_[i]) > kCheapFlops * elements;
  }

  // The part of a tensor that an argument is, where the group reads it in place: no one else reads it, nor another part of the same Split.
  std::optional<GroupView> part_of(const Node* argument, const std::vector<uint32_t>& members) const {
    auto is_read_inside = [&](const Node& node) {
      return std::ranges::all_of(node.uses(), [&](const Use& use) { return contains(members, use.user); });
    };
    std::optional<GroupView> part = analysis::group_view(*argument);
    if (!part || constant_tensor(part->base) || !is_read_inside(*argument)) return std::nullopt;
    const bool is_item = part->cut != argument;
    const bool has_others = is_item && !std::ranges::all_of(part->cut->uses(), [&](const Use& use) { return is_read_inside(*use.user); });
    return has_others ? std::nullopt : std::move(part);
  }

  bool reads_part(uint32_t i) const {
    return is_member(i) && std::ranges::any_of(nodes_[i]->operands(), [&](const Use& use) { return part_of(use.node, {i}).has_value(); });
  }

  // What the group saves, by the cost model.
  double saved_us(const std::vector<uint32_t>& members, std::span<Node* const> arguments,
                  std::span<const uint32_t> results, bool reduces) const {
    double apart = 0, bytes = 0, copies = 0;
    for (uint32_t i : members) apart += analysis::run_us(context_.inference, *nodes_[i]);
    for (const Node* argument : arguments) {
      bytes += analysis::bytes_of(argument->type());
      if (part_of(argument, members)) copies += analysis::estimate_us(2 * analysis::bytes_of(argument->type()));
    }
    for (uint32_t i : results) bytes += analysis::bytes_of(nodes_[i]->type());
    double saved = apart - analysis::estimate_us(bytes);
    if (members.size() == 1 && !reduces) saved = analysis::compute_us(context_.inference, *nodes_[members[0]]) / 2;
    // Kernels along rows read a row in passes, of which the group saves one.
    if (reduces) saved += analysis::estimate_us(analysis::bytes_of(arguments[0]->type()));
    return saved + copies;
  }

  // Or an operand that is absent.
  static bool is_number(const Node* node) {
    if (node->as_value() && node->as_value()->is_none()) return true;
    const Type* type = node->type();
    return type && type->is_tensor() && type->has_rank() &&
           std::ranges::all_of(type->dims(), [](const Dim& dim) { return dim.is_constant() && dim.constant() == 1; });
  }
  static bool is_of_bytes(const Node* node) {
    const Type* type = node->type();
    return type && type->is_tensor() && (type->dtype() == DType::I8 || type->dtype() == DType::U8);
  }

  // Those of the members that depend on `bytes` alone, and on numbers, where the results among them are bytes and they take longer than looking these
  // up; else none.
  std::vector<uint32_t> function_of(const Node* bytes, const std::vector<uint32_t>& members) const {
    constexpr double kFewFlops = 16;
    std::vector<uint32_t> found;
    double flops = 0;
    for (uint32_t i : members) {
      const Apply& node = *nodes_[i];
      auto is_inside = [&](const Use& use) { return use.node == bytes || contains(found, use.node); };
      if (std::ranges::none_of(node.operands(), is_inside)) continue;
      const bool is_function = std::ranges::all_of(node.operands(), [&](const Use& use) { return is_inside(use) || is_number(use.node); });
      if (!is_function || !node.type()->is_tensor() || (is_result(i, members) && !is_of_bytes(&node))) return {};
      found.push_back(i);
      flops += analysis::estimate_flops(context_.inference, node);
    }
    const double elements = analysis::bytes_of(bytes->type());
    return flops > kFewFlops * elements ? found : std::vector<uint32_t>();
  }

  // One, or two where the second looks up.
  void make_groups(uint32_t group) {
    std::vector<uint32_t> members = places_[group].members;
    const bool reduces = places_[group].space.reduces;
    std::ranges::sort(members);  // operands before users
    auto functions_of = [&](const Node* node) {
      return is_of_bytes(node) && !is_number(node) ? function_of(node, members) : std::vector<uint32_t>();
    };
    for (const Use& use : nodes_[members[0]]->operands()) {
      if (functions_of(use.node).size() == members.size()) return make_group(members, reduces);
    }
    for (uint32_t i : members) {
      const std::vector<uint32_t> rest = functions_of(nodes_[i]);
      if (rest.empty()) continue;
      std::erase_if(members, [&](uint32_t member) { return std::ranges::count(rest, member) > 0; });
      make_group(members, reduces);
      return make_group(rest, false);
    }
    make_group(members, reduces);
  }

  void make_group(const std::vector<uint32_t>& members, bool reduces) {
    std::vector<Node*> arguments;
    std::vector<uint32_t> results;
    for (uint32_t i : members) {
      for (size_t k = 0; k < nodes_[i]->num_inputs(); ++k) {
        Node* input = nodes_[i]->input(k);
        if (is_argument(*nodes_[i], k, members) && !std::ranges::count(arguments, input)) arguments.push_back(input);
      }
      if (is_result(i, members)) results.push_back(i);
    }
    if (arguments.empty() || !context_.has_fuel() ||
        saved_us(members, arguments, results, reduces) < context_.options.least_group_saving_us)
      return;
    Graph* function = module_.make_graph("group");
    boost::unordered_flat_map<const Node*, Node*> images;
    std::vector<Apply*> cut;  // what is read in place, which no one reads any more
    std::vector<Apply*> dead;
    for (Node*& argument : arguments) {
      const std::optional<GroupView> part = part_of(argument, members);
      Node* base = part ? part->base : argument;
      Node* parameter = module_.add_parameter(function, base->type(), base->name());
      images.emplace(argument, part ? cut_inside(*part, *argument, *function, parameter) : parameter);
      if (part) cut.push_back(argument->as_apply());
      argument = base;
    }
    for (uint32_t i : members) {
      const Apply& node = *nodes_[i];
      const Operands inputs = operands_of(node, [&](Node* operand) {
        const auto image = images.find(operand);
        return image == images.end() ? operand : image->second;
      });
      images.emplace(&node, copy_of(module_, node, function, inputs));
      dead.push_back(nodes_[i]);
    }
    replace(*function, arguments, results, images);
    context_.applied(kGroup.name, kGrouped, *nodes_[members.back()], fmt::format("{} applications", members.size()));
    module_.erase_dead(dead, {});
    for (Apply* part : cut) module_.erase_with_dead_operands(part);
    ++changes_;
  }

  // The same part of a parameter, in the group's function.
  Node* cut_inside(const GroupView& part, const Node& argument, Graph& function, Node* parameter) {
    Operands operands = operands_of(*part.cut, [](Node* operand) { return operand; });
    operands[0] = parameter;
    Node* made = copy_of(module_, *part.cut, &function, operands);
    if (part.cut == &argument) return made;
    made = module_.tuple_item(&function, made, static_cast<size_t>(argument.as_apply()->attributes().require_int("index")));
    made->set_type(argument.type());
    return made;
  }

  void replace(Graph& function, std::span<Node* const> arguments, std::span<const uint32_t> results,
               const boost::unordered_flat_map<const Node*, Node*>& images) {
    boost::container::small_vector<Node*, 4> items;
    boost::container::small_vector<const Type*, 4> types;
    for (uint32_t i : results) {
      items.push_back(images.at(nodes_[i]));
      types.push_back(nodes_[i]->type());
    }
    const bool is_one = results.size() == 1;
    const Type* type = is_one ? types[0] : module_.context().tuple_type({types.data(), types.size()});
    Node* result = items[0];
    if (!is_one) {
      result = module_.make_tuple(&function, {items.data(), items.size()});
      result->set_type(type);
    }
    module_.set_result(&function, result);
    function.return_node()->set_type(type);
    std::vector<Node*> operands{function.value()};
    operands.insert(operands.end(), arguments.begin(), arguments.end());
    const Apply& last = *nodes_[results.back()];
    Apply* group = module_.apply(&graph_, module_.context().get_operator("Group"), operands, {}, results.size(),
                                 last.location(), is_one ? last.name() : std::string_view());
    group->set_type(type);
    for (size_t k = 0; k < results.size(); ++k) {
      Node* item = is_one ? group : module_.tuple_item(&graph_, group, k);
      item->set_type(types[k]);
      module_.replace(nodes_[results[k]], item);
    }
  }

  PassContext& context_;
  Module& module_;
  Graph& graph_;
  const LargeVector<Apply*>& nodes_;  // operands before users
  boost::unordered_flat_map<const Node*, uint32_t> index_;
  std::vector<Place> places_;
  UnionFind groups_;  // of places
  size_t changes_ = 0;
};

size_t run_group(PassContext& context) {
  // A limit is of the plan of all values; what a group's kernel keeps besides is not planned.
  if (context.options.memory_limit) return 0;
  const ModuleOrder order = topological_order(context.module);
  size_t changes = 0;
  for (const GraphOrder& graph : order.graphs) changes += Grouping(context, *graph.graph, graph.nodes).run();
  return changes;
}

}  // namespace

const Pass kGroup{"group", "grouping", "elementwise operators that run as one kernel", run_group};

}  // namespace anfora::passes
