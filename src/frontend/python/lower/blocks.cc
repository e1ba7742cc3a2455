// Blocks and loops of a function.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/exits.h"
#include "frontend/python/lower/activation.h"

namespace anfora::python {

using ir::Node;

namespace {

// The variables whose items a statement assigns: `x[i] = v` gives x another value.
template <class F>
void for_each_updated(const Tree& target, F&& f) {
  if (target.is_any({Kind::Tuple, Kind::List})) {
    for (const Tree* element : target.list("elts")) for_each_updated(*element, f);
  }
  const Tree* root = &target;
  while (root->is(Kind::Subscript)) root = root->child("value");
  if (root != &target && root->is(Kind::Name)) f(root->text("id"));
}

}  // namespace

Lowering::Activation::Activation(const Closure& callee, const Cfg& graph, const std::vector<Set>* resumed_slots)
    : closure(callee), cfg(graph), live(find_live_variables(graph)), loops(find_natural_loops(graph)) {
  const size_t variables = cfg.scope.locals.size();
  Set always(result_slot() + 1);
  for (size_t v = 0; v < variables; ++v) {
    if (cfg.scope.captured.contains(cfg.scope.locals[v])) always.set(v);
  }
  auto use = [&](const Tree& name) {
    if (name.text("id") == "super" && variables > 0) always.set(0);  // super() reads the first parameter
  };
  for (const Block& block : cfg.blocks) {
    for (const Step& step : block.steps) for_each_use(step, use);
    for_each_use_at_end(block, use);
  }
  // Iterators live as variables do: begun by Iterate, read where they have another item.
  std::vector<Set> read, begun;
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    const Block& block = cfg.blocks[b];
    read.push_back(live.ue_var[b]), begun.push_back(live.var_kill[b]);
    for (Set* set : {&read[b], &begun[b]}) set->resize(result_slot() + 1);
    auto set_iterator = [&](Set& set, const Tree& loop) { set.set(iterator_slot(loop)).set(iterator_slot(loop) + 1); };
    for (const Step& step : block.steps) {
      if (step.kind == StepKind::Iterate) set_iterator(begun[b], *step.tree);
      if (step.kind == StepKind::Next) set_iterator(read[b], *step.tree);
    }
    if (block.end == EndKind::HasNext && !begun[b].test(iterator_slot(*block.tree))) set_iterator(read[b], *block.tree);
  }
  live_slots.assign(cfg.blocks.size(), always);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = cfg.blocks.size(); b-- > 0;) {
      const Block& block = cfg.blocks[b];
      Set out(result_slot() + 1);
      for (int to : block.successors()) out |= live_slots[static_cast<size_t>(to)];
      if (block.end == EndKind::Yield && block.then < 0) out |= resumed_slots->at(static_cast<size_t>(block.resumed));
      out = always | read[b] | (out - begun[b]);
      changed = changed || out != live_slots[b];
      live_slots[b] = std::move(out);
    }
  }
}

bool Lowering::Activation::reads_again(size_t slot) const {
  if (slot >= cfg.scope.locals.size()) return true;
  const Block& here = cfg.blocks[block];
  Set later = live.live_out[block];
  std::map<std::string, size_t> uses;
  auto use = [&](const Tree& name) { ++uses[name.text("id")]; };
  for (size_t i = step + 1; i < here.steps.size(); ++i) for_each_use(here.steps[i], use);
  if (step < here.steps.size()) for_each_use_at_end(here, use);
  const std::string& name = cfg.scope.locals[slot];
  if (later.test(slot) || uses.contains(name) || cfg.scope.captured.contains(name)) return true;
  step < here.steps.size() ? for_each_use(here.steps[step], use) : for_each_use_at_end(here, use);
  return uses[name] > 1;
}

void Lowering::prepare(Activation& activation) const {
  activation.caller = activation_;
  activation.depth = activation_ ? activation_->depth + 1 : 0;
  constexpr int kMostNested = 200;
  if (activation.depth > kMostNested)
    emit_.fail(ErrorCode::ResourceExhausted, fmt::format("calls are nested more than {} deep", kMostNested),
               "a function that calls itself with other functions or texts each time cannot be compiled");
  activation.takes_apart = activation.closure.function->text("name") == kComprehension;
}

Object Lowering::run(const Closure& closure, std::vector<Local> locals, const Cfg& cfg) {
  Activation activation(closure, cfg);
  prepare(activation);
  activation.root = here_.graph;
  locals.resize(activation.slots());
  activation.saved = std::exchange(here_.locals, std::move(locals));
  for (size_t i = 0; i < cfg.scope.locals.size(); ++i) {
    if (cfg.scope.captured.contains(cfg.scope.locals[i]))
      here_.locals[i].object = make_cell(Cell::Kind::Variable, std::move(here_.locals[i].object));
  }
  const Emitter::Place place = emit_.place();
  std::optional<Object> result;
  {
    const Entered entered(*this, activation);
    go_to(0);
    std::vector<size_t> all(cfg.blocks.size());
    for (size_t b = 0; b < all.size(); ++b) all[b] = b;
    process(all, std::nullopt, activation.root);
    std::vector<State> returns = std::move(activation.edges[kReturn]);
    activation.edges.clear();
    if (!returns.empty()) {
      Set live(activation.slots());
      live.set(activation.result_slot());
      enter_block(std::move(returns), &live, activation.root, closure.function->position.line);
      result = std::move(here_.locals[activation.result_slot()].object);
    }
  }
  here_.locals = std::move(activation.saved);
  emit_.set_place(place);
  if (!result) throw Unreached();
  return *result;
}

// Blocks in reverse postorder: all that lead to a block are lowered before it, but for the ends of a loop's turns.
void Lowering::process(const std::vector<size_t>& blocks, std::optional<size_t> header, ir::Graph* root) {
  Activation& at = *activation_;
  const InRegion inside(at, root);
  std::set<size_t> done;
  for (size_t b : blocks) {
    if (done.contains(b)) continue;
    auto found = at.edges.find(static_cast<int>(b));
    if (found == at.edges.end() || found->second.empty()) continue;
    auto loop = at.loops.find(b);
    const bool is_inner = loop != at.loops.end() && b != header;
    if (b != header) {
      std::vector<State> edges = std::move(found->second);
      at.edges.erase(found);
      const Block& block = at.cfg.blocks[b];
      const Tree* first = !block.steps.empty() ? block.steps[0].tree : block.tree;
      enter_block(std::move(edges), &at.live_slots[b], root,
                  first ? first->position.line : at.closure.function->position.line);
    }
    if (is_inner) {
      done.insert(loop->second.blocks.begin(), loop->second.blocks.end());
      lower_loop(b);
    } else if (b != header) {
      lower_block(b);
    }
  }
}

void Lowering::lower_block(size_t b) {
  Activation& at = *activation_;
  const Block& block = at.cfg.blocks[b];
  try {
    at.block = b, at.step = 0;
    for (const Step& step : block.steps) at.guard = step.guard, this->step(step), ++at.step;
    at.guard = block.guard;
    if (block.tree)
      emit_.set_place({at.closure.source, block.end == EndKind::HasNext ? block.tree->child("target") : block.tree});
    switch (block.end) {
      case EndKind::Jump: return go_to(block.then);
      case EndKind::Branch:
      case EndKind::HasNext: {
        const Generator* generator = block.end == EndKind::HasNext ? fed_generator(*block.tree) : nullptr;
        if (generator && !at.loops.contains(b) && !is_held(*generator, *block.tree)) return feed(b);
        if (generator) return next_or_end(b, *generator);
        const Object condition = block.end == EndKind::Branch ? evaluate(*block.tree) : has_next(*block.tree);
        return branch(condition, [&] { go_to(block.then); }, [&] { go_to(block.otherwise); });
      }
      case EndKind::Return: {
        const Tree* value = block.tree ? block.tree->child("value") : nullptr;
        Object result = value ? evaluate(*value) : Object{Constant{NoneValue()}};
        here_.locals[at.result_slot()] = {std::move(result), block.tree};
        return go_to(kReturn);
      }
      case EndKind::Yield: {
        const Tree* value = block.tree->child("value");
        at.take(value ? evaluate(*value) : Object{Constant{NoneValue()}}, block);
        return go_to(block.then);
      }
      case EndKind::Raise: {
        require_uncaught(raised_class(*block.tree));
        const Tree* exception = block.tree->child("exc");
        raise(exception ? unparse(*exception) : "raise");
      }
    }
  } catch (const Unreached&) {
  }
}

// Loops --------------------------------------------------------------------------------------------------------------

// A loop is one in the graph, too, but for what can only be said of each turn by itself.
void Lowering::lower_loop(size_t header) {
  Activation& at = *activation_;
  const Block& head = at.cfg.blocks[header];
  const std::vector<size_t>& blocks = at.loops.at(header).blocks;
  const Generator* generator = head.end == EndKind::HasNext ? fed_generator(*head.tree) : nullptr;
  if (generator && !is_held(*generator, *head.tree)) return feed(header);
  if (head.end == EndKind::HasNext && has_known_items(*here_.locals[at.iterator_slot(*head.tree)].object))
    return unroll(header, blocks);
  constexpr int64_t kMostItems = 32, kMostTurns = 256;
  const std::optional<int64_t> turns = known_turns(head, here_);
  // Lists of known length can be taken apart.
  if (turns && *turns <= kMostItems && at.takes_apart) return unroll(header, blocks);
  const State entry = here_;
  const auto open = open_edges();
  const Emitter::Place place = emit_.place();
  ir::Graph* root = at.root;
  auto restart = [&](State state) {
    reopen(open);
    at.root = root;
    set_state(std::move(state));
    emit_.set_place(place);
  };
  constexpr int kMostPeeled = 4;
  State first = entry;
  for (int peeled = 0;; ++peeled) {
    try {
      return lower_turns(header, std::move(first), peeled < kMostPeeled);
    } catch (const PositionFound&) {
      restart(entry);
    } catch (const Error&) {  // axes and functions that depend on the turn, for instance
      if (!turns || *turns > kMostTurns) throw;
      restart(entry);
      return unroll(header, blocks);
    }
    for (int turn = 0; turn <= peeled; ++turn) {
      if (!this->turn(header, blocks)) return;
    }
    first = std::move(here_);
  }
}

std::vector<std::map<int, std::vector<Lowering::State>>> Lowering::open_edges() const {
  std::vector<std::map<int, std::vector<State>>> edges;
  for (const Activation* function : running_) edges.push_back(function->edges);
  return edges;
}

void Lowering::reopen(const std::vector<std::map<int, std::vector<State>>>& edges) {
  for (size_t i = 0; i < edges.size(); ++i) running_[i]->edges = edges[i];
}

// What some blocks of a function assign. Where it yields, so does the body of the loop that it feeds.
void Lowering::add_changes(const Activation& function, const std::vector<size_t>& blocks, size_t first_slot,
                           Changes& changes) const {
  for (size_t b : blocks) {
    const Set& killed = function.live.var_kill[b];
    for (size_t v = killed.find_first(); v != Set::npos; v = killed.find_next(v)) changes.slots.set(first_slot + v);
    const Block& block = function.cfg.blocks[b];
    auto update = [&](const std::string& variable) {
      const std::vector<std::string>& names = function.cfg.scope.locals;
      const auto slot = static_cast<size_t>(std::ranges::find(names, variable) - names.begin());
      if (slot < names.size()) changes.slots.set(first_slot + slot);
    };
    for (const Step& step : block.steps) {
      if (const Tree* target = step.kind == StepKind::Iterate ? nullptr : step.tree->child("target"))
        for_each_updated(*target, update);
      for (const Tree* target : step.tree->list("targets")) for_each_updated(*target, update);
    }
    if (block.end == EndKind::HasNext) changes.slots.set(first_slot + function.iterator_slot(*block.tree) + 1);
    if (block.end != EndKind::Yield || !function.fed_header) continue;
    const Activation& consumer = *function.caller;
    if (auto loop = consumer.loops.find(*function.fed_header); loop != consumer.loops.end())
      add_changes(consumer, loop->second.blocks, first_slot + function.slots(), changes);
  }
}

void Lowering::lower_turns(size_t header, State entry, bool peels) {
  Activation& at = *activation_;
  const NaturalLoop& loop = at.loops.at(header);
  const Block& head = at.cfg.blocks[header];

  // What the loop assigns may change from turn to turn.
  Changes changes{.slots = Set(entry.locals.size())};
  add_changes(at, loop.blocks, 0, changes);

  const auto open = open_edges();
  const Tree* tree = head.tree ? head.tree : at.closure.function;
  const std::string name = fmt::format("{}.loop{}", at.closure.function->text("name"), tree->position.line);
  std::vector<State> turns{entry};  // the states that enter the header, for their types
  constexpr int kMostAttempts = 16;
  for (int attempt = 0;; ++attempt) {
    if (attempt == kMostAttempts)
      emit_.fail(ErrorCode::TypeMismatch, "the types of this loop's variables do not come to rest",
                 "give each one type: convert before the loop");
    emit_.set_place({at.closure.source, tree});
    set_state(entry);
    ir::Graph* graph = emit_.module().make_graph(name, entry.graph);
    const auto [leaves, merged] = begin_loop(graph, turns, changes);
    const State inside = here_;
    {
      const InRegion region(at, graph);
      lower_block(header);
    }
    process(loop.blocks, header, graph);

    std::vector<State> ends = std::move(at.edges[static_cast<int>(header)]);
    at.edges.erase(static_cast<int>(header));
    emit_.set_place({at.closure.source, tree});
    for (State& end : ends) drop_dead(end, &at.live_slots[header]);
    if (!ends.empty()) join_ends(ends, graph);
    bool is_again = false;
    std::vector<State> seen{entry};
    for (State& end : ends) {
      for (const auto& [id, content] : end.store) {
        if (merged.contains(id)) continue;
        auto before = inside.store.find(id);
        const bool is_first_effect = id == 0 && before == inside.store.end();
        if (before == inside.store.end() ? !is_first_effect : !differs(before->second, content)) continue;
        const Suspended *was = is_first_effect ? nullptr : before->second.suspended(), *is = content.suspended();
        if (peels && was && is && was->block != is->block) throw PositionFound();
        is_again = changes.cells.insert(id).second || is_again;
      }
      seen.push_back(end);
    }
    if (changes.cells.contains(0) && !entry.store.contains(0)) {
      set_state(std::move(entry));
      token();
      entry = here_;
    }
    std::vector<Leaf> joined = is_again ? std::vector<Leaf>() : loop_leaves(entry.graph, seen, changes);
    if (is_again || !std::ranges::equal(leaves, joined, &Leaf::is_like)) {
      reopen(open);
      seen[0] = entry;
      const bool has_functions = std::ranges::any_of(joined, [](const Leaf& leaf) { return !leaf.functions.empty(); });
      if (has_functions) seen.insert(seen.end(), turns.begin() + 1, turns.end());
      turns = std::move(seen);
      continue;
    }
    for (size_t e = 0; e < seen.size(); ++e) {
      ir::Graph* from = seen[e].graph;
      emit_.set_graph(from);
      std::vector<Node*> values;
      for (const Leaf& leaf : joined) values.push_back(convert(leaf.sources[e], leaf));
      emit_.module().set_result(from, emit_.module().call(from, graph->value(), values));
      for (const ir::Graph* inside = from; inside->is_inside(graph); inside = inside->parent())
        leaving_.insert(inside);
    }
    return;
  }
}

// How often a `for` turns, where that is known.
std::optional<int64_t> Lowering::known_turns(const Block& head, const State& entry) const {
  if (head.end != EndKind::HasNext) return std::nullopt;
  return integer_of(entry.locals[activation_->iterator_slot(*head.tree)].object->tuple()->items[1]);
}

// A `for` over what has a known number of items, which may have different types: a turn for each.
void Lowering::unroll(size_t header, const std::vector<size_t>& blocks) {
  while (turn(header, blocks)) {
  }
}

// A turn in the place where the loop stands; whether another may follow.
bool Lowering::turn(size_t header, const std::vector<size_t>& blocks) {
  Activation& at = *activation_;
  ir::Graph* root = at.root;
  lower_block(header);
  process(blocks, header, root);
  auto found = at.edges.find(static_cast<int>(header));
  if (found == at.edges.end() || found->second.empty()) return false;
  std::vector<State> edges = std::move(found->second);
  at.edges.erase(found);
  const Tree* head = at.cfg.blocks[header].tree;
  enter_block(std::move(edges), &at.live_slots[header], root, (head ? head : at.closure.function)->position.line);
  return true;
}

}  // namespace anfora::python
