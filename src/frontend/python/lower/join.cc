// Where paths of a program meet.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "anfora/error.h"
#include "frontend/python/lower/activation.h"
#include "frontend/python/lower/union.h"

namespace anfora::python {

using ir::Node;
using ir::Type;

Node* Lowering::convert(const Object& source, const Leaf& leaf) {
  if (leaf.type->is_tensor()) return emit_.tensor(source, leaf.type->dtype());
  if (leaf.type->kind() != ir::TypeKind::Sequence || is_sequence(source)) return source.as<Array>()->node;
  const DType dtype = leaf.type->element()->dtype();
  if (source.tuple()->items.empty()) return empty_list(*leaf.type->element());
  std::vector<Node*> items;
  for (const Object& item : source.tuple()->items) items.push_back(emit_.tensor(item, dtype));
  return emit_.apply("SequenceConstruct", items, {});
}

// Made of an item that is taken out again: SequenceEmpty says nothing of the shape that items will have.
Node* Lowering::empty_list(const Type& element) {
  if (!element.has_rank()) return emit_.op("SequenceEmpty", {}, {{"dtype", static_cast<int>(element.dtype())}});
  Shape shape;
  for (ir::Dim dim : element.dims()) shape.push_back(dim.as_constant().value_or(0));
  Node* shape_of_item = emit_.module().constant(Tensor::vector<int64_t>(shape));
  Node* item = emit_.op("ConstantOfShape", {shape_of_item}, {{"value", Tensor::zeros(element.dtype(), Shape{1})}});
  return emit_.op("SequenceErase", {emit_.op("SequenceConstruct", {item})});
}

Node* Lowering::result_of(std::span<Node* const> leaves) {
  if (leaves.empty()) return emit_.module().scalar(true);  // nothing but that it returned
  if (leaves.size() == 1) return leaves[0];
  Node* tuple = emit_.module().make_tuple(emit_.graph(), leaves);
  std::vector<const Type*> types;
  for (const Node* leaf : leaves) types.push_back(leaf->type());
  tuple->set_type(emit_.module().context().tuple_type(types));
  return tuple;
}

// What a call of a function returns that ends in result_of(leaves).
std::vector<Node*> Lowering::results_of(Node* call, std::span<const Leaf> leaves) {
  if (leaves.empty()) return {};
  std::vector<const Type*> types;
  for (const Leaf& leaf : leaves) types.push_back(leaf.type);
  call->set_type(types.size() == 1 ? types[0] : emit_.module().context().tuple_type(types));
  if (types.size() == 1) return {call};
  std::vector<Node*> results;
  for (size_t i = 0; i < types.size(); ++i) results.push_back(emit_.item(call, i));
  return results;
}

void Lowering::go_to(int block, State state) {
  for (const Activation::Fed& loop : activation_->fed) {
    if (block >= 0 && std::ranges::count(*loop.blocks, static_cast<size_t>(block))) continue;
    state.locals.resize(loop.slots);
    break;
  }
  activation_->edges[block].push_back(std::move(state));
}

void Lowering::drop_dead(State& state, const Set* live) const {
  for (size_t i = 0; live && i < std::min(live->size(), state.locals.size()); ++i) {
    if (!live->test(i)) state.locals[i] = {};
  }
}

// Whether no other path is open in a graph and those below.
bool Lowering::is_settled(const ir::Graph* graph) const {
  for (const Activation* function : running_) {
    for (const auto& [target, open] : function->edges) {
      for (const State& state : open) {
        if (state.graph->is_inside(graph)) return false;
      }
    }
  }
  return true;
}

// What changes in a loop, as the states that enter its turns have it.
std::vector<Lowering::Leaf> Lowering::loop_leaves(ir::Graph* outside, std::span<const State> turns,
                                                  const Changes& changes) {
  Union all(*this, outside);
  unite_turns(all, turns, changes);
  return all.leaves;
}

// The state at the beginning of a turn: what changes are the parameters of the loop's function.
Lowering::LoopStart Lowering::begin_loop(ir::Graph* graph, std::span<const State> turns, const Changes& changes) {
  Union all(*this, graph->parent());
  unite_turns(all, turns, changes);
  std::vector<Node*> parameters;
  for (const Leaf& leaf : all.leaves) parameters.push_back(emit_.module().add_parameter(graph, leaf.type));
  all.substitute(parameters);
  State state = unite_turns(all, turns, changes);
  state.graph = graph;
  set_state(std::move(state));
  return {all.leaves, all.merged()};
}

Lowering::State Lowering::unite_turns(Union& all, std::span<const State> turns, const Changes& changes) {
  State state = turns[0];
  all.is_forced = true;
  std::set<size_t> others = cells_of_callers(&state);
  for (size_t i = 0; i < state.locals.size(); ++i) {
    if (state.locals[i].object && !(i < changes.slots.size() && changes.slots.test(i))) add_cells(*state.locals[i].object, &state, others);
  }
  for (size_t id : changes.cells) others.erase(id);
  all.merge_cells(turns, std::move(others));
  for (size_t i = changes.slots.find_first(); i != Set::npos; i = changes.slots.find_next(i)) {
    state.locals[i].object = unite_slot(all, turns, i);
  }
  for (size_t id : changes.cells) {
    if (auto united = unite_cell(all, turns, id)) state.store[id] = std::move(*united);
  }
  all.unite_contents(state);
  return state;
}

// The lists and dicts that the functions refer to which wait for what is lowered now.
std::set<size_t> Lowering::cells_of_callers(const State* through) const {
  std::set<size_t> cells;
  for (const Activation* function : running_) {
    for (const Local& local : function->saved) {
      if (local.object) add_cells(*local.object, through, cells);
    }
    for (const auto& [name, captured] : function->closure.captured) add_cells({captured}, through, cells);
  }
  return cells;
}

// What a variable is in several states; none where it has no value in one of them.
std::optional<Object> Lowering::unite_slot(Union& all, std::span<const State> states, size_t slot) const {
  std::vector<Object> objects;
  all.bound_at.clear();
  for (const State& state : states) {
    const Local& local = state.locals[slot];
    if (!local.object) return std::nullopt;
    objects.push_back(*local.object);
    all.bound_at.push_back(local.bound_at);
  }
  all.name = slot_name(slot);
  return all.unite(objects);
}

// As messages call what is in a slot: those of a generator stand before those of the loop that it feeds.
std::string Lowering::slot_name(size_t slot) const {
  const Activation* function = activation_;
  for (; function->fed_header && slot >= function->slots(); function = function->caller) slot -= function->slots();
  const std::vector<std::string>& names = function->cfg.scope.locals;
  return slot < names.size()               ? fmt::format("'{}'", names[slot])
         : slot >= function->result_slot() ? "the result"
                                           : "what the loop goes over";
}

// The same of the content of a cell.
std::optional<Object> Lowering::unite_cell(Union& all, std::span<const State> states, size_t id) const {
  std::vector<Object> objects;
  for (const State& state : states) {
    auto found = state.store.find(id);
    if (found == state.store.end()) return std::nullopt;
    objects.push_back(found->second);
  }
  all.bound_at.clear();
  all.name = "a list or variable that others see";
  const auto kind = cell_kinds_.find(id);
  if (kind != cell_kinds_.end()) all.held_in = kind->second;
  Object united = all.unite(objects);
  all.held_in = std::nullopt;
  return united;
}

bool Lowering::differs(const Object& a, const Object& b) {
  if (a.value.index() != b.value.index()) return true;
  if (const auto* array = a.as<Array>()) return !(*array == *b.as<Array>());
  if (const auto* constant = a.as<Constant>()) return repr(*constant) != repr(*b.as<Constant>());
  if (const auto* set = a.as<SetObject>())
    return differs({set->items}, {b.as<SetObject>()->items});
  if (const Items* items = a.tuple()) {
    return class_of(*items) != class_of(*b.tuple()) || items->names != b.tuple()->names ||
           !std::ranges::equal(items->items, b.tuple()->items,
                               [](const Object& x, const Object& y) { return !differs(x, y); });
  }
  if (const auto* cell = a.as<Cell>()) return !(*cell == *b.as<Cell>());
  if (const auto* generator = a.as<Generator>()) return !(*generator == *b.as<Generator>());
  if (const Suspended* suspended = a.suspended()) {
    const Suspended& other = *b.suspended();
    const bool has_several = suspended->block == Suspended::kSeveral && other.block == Suspended::kSeveral;
    if (has_several && differs(*suspended->which, *other.which)) return true;
    auto may_differ = [](const Suspended& x, const Suspended& y) {
      return differs({std::make_shared<const Suspended>(x)}, {std::make_shared<const Suspended>(y)});
    };
    if (has_several && !std::ranges::equal(suspended->several, other.several, std::not_fn(may_differ))) return true;
    return suspended->block != other.block ||
           !std::ranges::equal(suspended->variables, other.variables, [](const auto& x, const auto& y) {
             return x.has_value() == y.has_value() && (!x || !differs(*x, *y));
           });
  }
  if (const Choice* choice = a.choice()) return choice->numbers != b.choice()->numbers || differs(*choice->which, *b.choice()->which);
  if (const auto* dtype = a.as<DTypeObject>()) return dtype->dtype != b.as<DTypeObject>()->dtype;
  if (const auto* builtin = a.as<Builtin>()) return builtin->name != b.as<Builtin>()->name;
  if (const Closure* closure = a.closure()) return closure != b.closure();
  if (const auto* method = a.as<Method>())
    return method->self != b.as<Method>()->self || method->name != b.as<Method>()->name;
  if (const auto* derivative = a.as<Derivative>()) return derivative->function != b.as<Derivative>()->function;
  if (const auto* custom = a.as<CustomGradient>()) return custom->function != b.as<CustomGradient>()->function;
  if (a.live()) return a.live()->identity() != b.live()->identity();
  if (const auto* super = a.as<Super>()) return super->type != b.as<Super>()->type || differs(*super->self, *b.as<Super>()->self);
  return true;
}

ir::Graph* Lowering::meeting_point(std::span<const State> edges) {
  ir::Graph* meet = edges[0].graph;
  for (const State& state : edges) {
    while (!state.graph->is_inside(meet)) meet = meet->parent();
  }
  return meet;
}

// Out of the branches and loops in which nothing else is open, and from which no path calls what is outside. Null: there is none.
ir::Graph* Lowering::outermost_settled(ir::Graph* graph, const ir::Graph* root) const {
  ir::Graph* outermost = nullptr;
  for (; is_settled(graph); graph = graph->parent()) {
    if (!leaving_.contains(graph)) outermost = graph;
    if (graph == root) break;
  }
  return outermost;
}

// The ends of a loop's turn as one, where they meet: then the loop goes on in one place.
void Lowering::join_ends(std::vector<State>& ends, const ir::Graph* loop) {
  ir::Graph* outermost = outermost_settled(meeting_point(ends), loop);
  if (!outermost || (ends.size() == 1 && ends[0].graph == outermost)) return;
  join(outermost, std::move(ends));
  ends = {std::move(here_)};
}

// Goes on where the edges meet; they are no longer among those of the activation.
void Lowering::enter_block(std::vector<State> edges, const Set* live, ir::Graph* root, int line) {
  for (State& state : edges) drop_dead(state, live);
  ir::Graph* meet = meeting_point(edges);
  ir::Graph* outermost = outermost_settled(meet, root);
  if (outermost && !(edges.size() == 1 && edges[0].graph == outermost)) return join(outermost, std::move(edges));
  if (edges.size() == 1) return set_state(std::move(edges[0]));

  ir::Graph* next =
      emit_.module().make_graph(fmt::format("{}.line{}", activation_->closure.function->text("name"), line), meet);
  join(next, std::move(edges));
}

// Joins states in a graph: one whose last call leads to all of them, which return what they disagree on; or a new one, which they call
// with it.
void Lowering::join(ir::Graph* into, std::vector<State> edges) {
  const bool is_new = !into->return_node();
  std::vector<State> raising;
  if (!is_new) {
    auto ends_below = [&](const State& state) { return state.graph != into && state.graph->is_inside(into); };
    auto below = std::ranges::stable_partition(dead_ends_, std::not_fn(ends_below));
    raising.assign(std::make_move_iterator(below.begin()), std::make_move_iterator(below.end()));
    dead_ends_.erase(below.begin(), below.end());
  }
  Union union_(*this, is_new ? into->parent() : into);
  State joined{.graph = into, .locals = std::vector<Local>(edges[0].locals.size())};
  auto unite_all = [&] {
    for (size_t i = 0; i < joined.locals.size(); ++i) {
      if (auto united = unite_slot(union_, edges, i)) joined.locals[i] = {std::move(*united), union_.bound_at[0]};
    }
    for (const auto& [id, content] : edges[0].store) {
      union_.is_forced = id == 0 && !raising.empty();  // what follows waits for the call, in which the run may end
      if (auto united = unite_cell(union_, edges, id)) joined.store[id] = std::move(*united);
    }
    union_.is_forced = false;
    union_.unite_contents(joined);
  };
  // The token of effects begins where one path has one.
  if (!raising.empty() || std::ranges::any_of(edges, [](const State& s) { return s.store.contains(0); })) {
    for (State& state : edges) {
      set_state(std::move(state));
      token();
      state = std::move(here_);
    }
  }
  union_.merge_cells(edges, cells_of_callers(nullptr));
  unite_all();

  std::vector<Node*> nodes;
  const std::vector<Leaf>& leaves = union_.leaves;
  if (is_new) {
    for (const Leaf& leaf : leaves) nodes.push_back(emit_.module().add_parameter(into, leaf.type));
  }
  for (size_t e = 0; e < edges.size(); ++e) {
    emit_.set_graph(edges[e].graph);
    std::vector<Node*> values;
    for (const Leaf& leaf : leaves) values.push_back(convert(leaf.sources[e], leaf));
    Node* result = is_new ? emit_.module().call(edges[e].graph, into->value(), values) : result_of(values);
    emit_.module().set_result(edges[e].graph, result);
    for (ir::Graph* from = edges[e].graph; is_new && from != into->parent(); from = from->parent())
      leaving_.insert(from);
  }
  for (const State& state : raising) {
    emit_.set_graph(state.graph);
    Node* token = state.store.at(0).as<Array>()->node;
    std::vector<Node*> values;
    for (const Leaf& leaf : leaves)
      values.push_back(leaf.type->kind() == ir::TypeKind::State ? token : emit_.op("Never", {token}));
    emit_.module().set_result(state.graph, result_of(values));
  }
  emit_.set_graph(into);
  if (!is_new) nodes = results_of(into->result(), leaves);
  if (!leaves.empty()) {
    union_.substitute(nodes);
    joined.store.clear();
    unite_all();
  }
  set_state(std::move(joined));
}

// The two ways are functions that are called last.
void Lowering::branch(const Object& condition, const std::function<void()>& then,
                      const std::function<void()>& otherwise) {
  const Object truth = this->truth(condition);
  if (const bool* known = truth.constant<bool>()) return *known ? then() : otherwise();
  const State before = here_;
  const Emitter::Place place = emit_.place();
  const std::string prefix = fmt::format(
      "{}.line{}", activation_ ? activation_->closure.function->text("name") : "main", place.tree->position.line);
  ir::Module& module = emit_.module();
  ir::Graph* graphs[2] = {module.make_graph(prefix + ".then", before.graph),
                          module.make_graph(prefix + ".else", before.graph)};
  Node* choice = module.make_switch(before.graph, emit_.tensor(truth), graphs[0]->value(), graphs[1]->value());
  module.set_result(before.graph, module.call(before.graph, choice, {}));
  for (int way = 0; way < 2; ++way) {
    State state = before;
    state.graph = graphs[way];
    set_state(std::move(state));
    emit_.set_place(place);
    try {
      way == 0 ? then() : otherwise();
    } catch (const Unreached&) {
    }
  }
  emit_.set_place(place);
}

Object Lowering::choose(const Object& condition, const std::function<Object()>& then,
                        const std::function<Object()>& otherwise) {
  const Object truth = this->truth(condition);
  if (const bool* known = truth.constant<bool>()) return *known ? then() : otherwise();
  ir::Graph* graph = here_.graph;
  std::vector<State> ends;
  auto end = [&](const std::function<Object()>& value) {
    Object result = value();
    here_.locals.push_back({std::move(result), emit_.place().tree});
    ends.push_back(std::move(here_));
  };
  branch(truth, [&] { end(then); }, [&] { end(otherwise); });
  if (ends.empty()) throw Unreached();
  join(graph, std::move(ends));
  Object result = std::move(*here_.locals.back().object);
  here_.locals.pop_back();
  return result;
}

}  // namespace anfora::python
