// Blocks and loops of a function.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
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

Lowering::Activation::Activation(const Closure& callee, Cfg& graph)
    : closure(callee), cfg(graph), live(find_live_variables(graph)) {
  for (const Block& block : cfg.blocks) {
    for (const Step& step : block.steps) {
      if (step.kind == StepKind::Iterate) iterators.push_back(step.tree);
    }
  }
  // Natural loops: what reaches a header without going through it.
  const std::vector<size_t> dominators = find_dominators(cfg);
  auto dominates = [&](size_t a, size_t b) {
    while (b > a) b = dominators[b];
    return a == b;
  };
  std::map<size_t, std::set<size_t>> members;
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    for (int to : cfg.blocks[b].successors()) {
      const auto header = static_cast<size_t>(to);
      if (!dominates(header, b)) continue;
      std::set<size_t>& inside = members[header];
      inside.insert(header);
      std::vector<size_t> worklist{b};
      while (!worklist.empty()) {
        const size_t at = worklist.back();
        worklist.pop_back();
        if (!inside.insert(at).second) continue;
        for (int p : cfg.blocks[at].predecessors) worklist.push_back(static_cast<size_t>(p));
      }
    }
  }
  for (auto& [header, inside] : members) loops[header] = {header, {inside.begin(), inside.end()}};

  const size_t variables = cfg.scope.locals.size();
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    Set slots = live.live_in(b);
    slots.resize(result_slot() + 1);
    for (size_t v = 0; v < variables; ++v) {
      if (cfg.scope.captured.contains(cfg.scope.locals[v])) slots.set(v);
    }
    for (const Tree* iterator : iterators) {
      const Block& block = cfg.blocks[b];
      auto is_next = [&](const Step& s) { return s.kind == StepKind::Next && s.tree == iterator; };
      bool is_live =
          (block.end == EndKind::HasNext && block.tree == iterator) || std::ranges::any_of(block.steps, is_next);
      for (const auto& [header, loop] : loops) {
        const Block& head = cfg.blocks[header];
        is_live =
            is_live || (head.end == EndKind::HasNext && head.tree == iterator && std::ranges::count(loop.blocks, b));
      }
      if (is_live) slots.set(iterator_slot(*iterator)).set(iterator_slot(*iterator) + 1);
    }
    live_slots.push_back(std::move(slots));
  }
}

Object Lowering::run(const Closure& closure, std::vector<Local> locals, Cfg& cfg) {
  Activation activation(closure, cfg);
  activation.caller = activation_;
  activation.depth = activation_ ? activation_->depth + 1 : 0;
  constexpr int kMostNested = 200;
  if (activation.depth > kMostNested)
    emit_.fail(ErrorCode::ResourceExhausted, fmt::format("calls are nested more than {} deep", kMostNested),
               "a function that calls itself with other functions or texts each time cannot be compiled");
  activation.root = here_.graph;
  locals.resize(activation.result_slot() + 1);
  activation.saved = std::exchange(here_.locals, std::move(locals));
  for (size_t i = 0; i < cfg.scope.locals.size(); ++i) {
    if (cfg.scope.captured.contains(cfg.scope.locals[i]))
      here_.locals[i].object = make_cell(Cell::Kind::Variable, std::move(here_.locals[i].object));
  }
  const Emitter::Place place = emit_.place();
  activation_ = &activation;
  struct Restore {
    Lowering& lowering;
    Activation* activation;
    ~Restore() { lowering.activation_ = activation; }
  };
  std::optional<Object> result;
  {
    const Restore restore{*this, activation.caller};
    go_to(0);
    std::vector<size_t> all(cfg.blocks.size());
    for (size_t b = 0; b < all.size(); ++b) all[b] = b;
    process(all, std::nullopt, activation.root);
    std::vector<State> returns = std::move(activation.edges[kReturn]);
    activation.edges.clear();
    if (!returns.empty()) {
      Set live(activation.result_slot() + 1);
      live.set(activation.result_slot());
      enter_block(std::move(returns), &live, activation.root, closure.function->position.line);
      result = std::move(here_.locals.back().object);
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
  ir::Graph* outer = std::exchange(at.root, root);
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
  at.root = outer;
}

void Lowering::lower_block(size_t b) {
  Activation& at = *activation_;
  const Block& block = at.cfg.blocks[b];
  try {
    for (const Step& step : block.steps) this->step(step);
    if (block.tree)
      emit_.set_place({at.closure.source, block.end == EndKind::HasNext ? block.tree->child("target") : block.tree});
    switch (block.end) {
      case EndKind::Jump: return go_to(block.then);
      case EndKind::Branch:
      case EndKind::HasNext: {
        const Object condition = block.end == EndKind::Branch ? evaluate(*block.tree) : has_next(*block.tree);
        return branch(condition, [&] { go_to(block.then); }, [&] { go_to(block.otherwise); });
      }
      case EndKind::Return: {
        const Tree* value = block.tree ? block.tree->child("value") : nullptr;
        Object result = value ? evaluate(*value) : Object{Constant{NoneValue()}};
        here_.locals.back() = {std::move(result), block.tree};
        return go_to(kReturn);
      }
      case EndKind::Raise: {
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
  if (head.end == EndKind::HasNext && has_known_items(*here_.locals[at.iterator_slot(*head.tree)].object))
    return unroll(header, blocks);
  constexpr int64_t kMostItems = 32, kMostTurns = 256;
  const std::optional<int64_t> turns = known_turns(head, here_);
  // Lists of known length can be taken apart.
  if (turns && *turns <= kMostItems && at.closure.function->text("name") == kComprehension)
    return unroll(header, blocks);
  if (!turns || *turns > kMostTurns) return lower_turns(header, std::move(here_));
  const State entry = here_;
  const auto open = at.edges;
  const Emitter::Place place = emit_.place();
  ir::Graph* root = at.root;
  try {
    lower_turns(header, std::move(here_));
  } catch (const Error&) {  // axes and functions that depend on the turn, for instance
    at.edges = open;
    at.root = root;
    set_state(entry);
    emit_.set_place(place);
    unroll(header, blocks);
  }
}

void Lowering::lower_turns(size_t header, State entry) {
  Activation& at = *activation_;
  const NaturalLoop& loop = at.loops.at(header);
  const Block& head = at.cfg.blocks[header];

  // What the loop assigns may change from turn to turn.
  Changes changes{.slots = Set(entry.locals.size())};
  for (size_t b : loop.blocks) {
    const Set& killed = at.live.var_kill[b];
    for (size_t v = killed.find_first(); v != Set::npos; v = killed.find_next(v)) changes.slots.set(v);
    const Block& block = at.cfg.blocks[b];
    auto update = [&](const std::string& variable) {
      const std::vector<std::string>& names = at.cfg.scope.locals;
      const auto slot = static_cast<size_t>(std::ranges::find(names, variable) - names.begin());
      if (slot < names.size()) changes.slots.set(slot);
    };
    for (const Step& step : block.steps) {
      if (const Tree* target = step.kind == StepKind::Iterate ? nullptr : step.tree->child("target"))
        for_each_updated(*target, update);
      for (const Tree* target : step.tree->list("targets")) for_each_updated(*target, update);
    }
    if (block.end == EndKind::HasNext) changes.slots.set(at.iterator_slot(*block.tree) + 1);
  }

  const auto open = at.edges;
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
    const std::vector<Leaf> leaves = begin_loop(graph, turns, changes);
    const State inside = here_;
    lower_block(header);
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
        auto before = inside.store.find(id);
        const bool is_first_effect = id == 0 && before == inside.store.end();
        if (before == inside.store.end() ? !is_first_effect : !differs(before->second, content)) continue;
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
      at.edges = open;
      seen[0] = entry;
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
        at.leaving.insert(inside);
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
  Activation& at = *activation_;
  ir::Graph* root = at.root;
  for (;;) {
    lower_block(header);
    process(blocks, header, root);
    auto found = at.edges.find(static_cast<int>(header));
    if (found == at.edges.end() || found->second.empty()) return;
    std::vector<State> edges = std::move(found->second);
    at.edges.erase(found);
    enter_block(std::move(edges), &at.live_slots[header], root, at.cfg.blocks[header].tree->position.line);
  }
}

}  // namespace anfora::python
