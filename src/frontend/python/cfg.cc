#include "frontend/python/cfg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "frontend/python/dataflow.h"
#include "frontend/python/exits.h"

namespace anfora::python {
namespace {

std::string_view hint_for(const Tree& statement) {
  struct Hint {
    std::string_view kind, text;
  };
  static constexpr Hint kHints[] = {
      {"TryStar", "test for the condition before, with if"},
      {"AsyncFunctionDef", "write it as def"},
      {"AsyncFor", "write it as for"},
      {"AsyncWith", "call what it does on entry and on exit as functions"},
  };
  auto found = std::ranges::find(kHints, statement.name, &Hint::kind);
  return found == std::end(kHints) ? std::string_view() : found->text;
}

// Keeps what the entry reaches, in reverse postorder.
void order_blocks(Cfg& cfg) {
  std::vector<int> postorder;
  auto block = [&](int i) -> Block& { return cfg.blocks[static_cast<size_t>(i)]; };
  std::vector<bool> seen(cfg.blocks.size());
  std::vector<std::pair<int, size_t>> stack{{0, 0}};
  seen[0] = true;
  while (!stack.empty()) {
    auto& [at, next] = stack.back();
    std::vector<int> to = block(at).successors();
    std::ranges::reverse(to);  // so that `then` comes first
    if (next == to.size()) {
      postorder.push_back(at);
      stack.pop_back();
      continue;
    }
    const int successor = to[next++];
    if (seen[static_cast<size_t>(successor)]) continue;
    seen[static_cast<size_t>(successor)] = true;
    stack.emplace_back(successor, 0);
  }
  std::vector<int> place(cfg.blocks.size(), -1);
  std::vector<Block> ordered;
  for (auto at = postorder.rbegin(); at != postorder.rend(); ++at) {
    place[static_cast<size_t>(*at)] = static_cast<int>(ordered.size());
    ordered.push_back(std::move(block(*at)));
  }
  for (Block& b : ordered) {
    if (b.then >= 0) b.then = place[static_cast<size_t>(b.then)];
    if (b.otherwise >= 0) b.otherwise = place[static_cast<size_t>(b.otherwise)];
  }
  cfg.blocks = std::move(ordered);
  for (Block& b : cfg.blocks) b.predecessors.clear();
  for (size_t i = 0; i < cfg.blocks.size(); ++i) {
    for (int to : block(static_cast<int>(i)).successors()) block(to).predecessors.push_back(static_cast<int>(i));
  }
}

class Builder {
 public:
  explicit Builder(Cfg& cfg) : cfg_(cfg) {}

  void build() {
    current_ = add();
    body(cfg_.function->list("body"));
    finish(EndKind::Return, nullptr);
    skip_empty_blocks();
    order_blocks(cfg_);
    merge_chains();
    for (Block& b : cfg_.blocks) {
      if (b.end == EndKind::Yield) b.resumed = b.then;
      for (const Step& step : b.steps) {
        if (step.kind == StepKind::Iterate) cfg_.iterators.push_back(step.tree);
      }
    }
  }

 private:
  struct LoopTargets {
    int next, done;  // of continue and break
  };

  int add() {
    cfg_.blocks.emplace_back();
    return static_cast<int>(cfg_.blocks.size()) - 1;
  }
  Block& block(int i) { return cfg_.blocks[static_cast<size_t>(i)]; }

  // Ends the current block; what follows is not reached before a block is begun.
  void finish(EndKind end, const Tree* tree, int then = -1, int otherwise = -1) {
    if (current_ < 0) return;
    Block& b = block(current_);
    b.end = end, b.tree = tree, b.then = then, b.otherwise = otherwise, b.guard = guard_;
    current_ = -1;
  }
  void add_step(StepKind kind, const Tree& tree) { block(current_).steps.push_back({kind, &tree, guard_}); }
  void jump(int to) { finish(EndKind::Jump, nullptr, to); }
  // On a constant only one way is taken.
  void branch(const Tree* test, int then, int otherwise) {
    if (test->is(Kind::Constant)) return jump(truth(test->constant) ? then : otherwise);
    finish(EndKind::Branch, test, then, otherwise);
  }

  void body(const Tree::Trees& statements) {
    for (const Tree* statement : statements) {
      if (current_ < 0) current_ = add();  // no path reaches it
      this->statement(*statement);
    }
  }

  void statement(const Tree& s) {
    switch (s.kind) {
      case Kind::If: return choice(s);
      case Kind::Match: return match(s);
      case Kind::While:
      case Kind::For: return loop(s);
      case Kind::Return: return finish(EndKind::Return, &s);
      case Kind::Raise: return finish(EndKind::Raise, &s);
      case Kind::Break: return jump(loops_.back().done);
      case Kind::Continue: return jump(loops_.back().next);
      case Kind::Pass:
      case Kind::Global:
      case Kind::Nonlocal: return;
      case Kind::Assign:
      case Kind::AnnAssign:
      case Kind::Expr: return simple(s);
      case Kind::AugAssign:
      case Kind::Delete:
      case Kind::Assert:
      case Kind::Import:
      case Kind::ImportFrom:
      case Kind::FunctionDef:
      case Kind::ClassDef: return add_step(StepKind::Run, s);
      case Kind::Region: {
        const int behind = add();
        labels_[s.text("label")] = behind;
        body(s.list("body"));
        jump(behind);
        current_ = behind;
        return;
      }
      case Kind::Leave: return jump(labels_.at(s.text("label")));
      case Kind::Guarded: {
        const Tree* outer = std::exchange(guard_, &s);
        cfg_.outer_guards[&s] = outer;
        body(s.list("body"));
        guard_ = outer;
        return;
      }
      default: {
        Error error = cfg_.source->error(ErrorCode::Unsupported, s, s.name + " is not supported in a compiled function");
        if (std::string_view hint = hint_for(s); !hint.empty()) error.with_hint(std::string(hint));
        throw error;
      }
    }
  }

  // x = yield v: yields v, then x is None.
  void simple(const Tree& s) {
    if (const Tree* value = s.child("value"); value && value->is(Kind::Yield)) {
      const int after = add();
      finish(EndKind::Yield, value, after);
      current_ = after;
      if (s.is(Kind::Expr)) return;
    }
    add_step(StepKind::Run, s);
  }

  void choice(const Tree& s) {
    const int then = add(), otherwise = s.list("orelse").empty() ? -1 : add(), after = add();
    branch(s.child("test"), then, otherwise < 0 ? after : otherwise);
    current_ = then;
    body(s.list("body"));
    jump(after);
    if (otherwise >= 0) {
      current_ = otherwise;
      body(s.list("orelse"));
      jump(after);
    }
    current_ = after;
  }

  // The cases are tested one after the other. A guard sees the names that its pattern has bound.
  void match(const Tree& s) {
    statement(*s.child("entry"));
    const int after = add();
    for (const Tree* part : s.list("cases")) {
      const int inside = add(), next = add();
      const Tree* test = part->child("test");
      always_matches(*test->child("pattern")) ? jump(inside) : finish(EndKind::Branch, test, inside, next);
      current_ = inside;
      if (const Tree* bound = part->child("bound")) add_step(StepKind::Run, *bound);
      if (const Tree* guard = part->child("guard")) {
        const int guarded = add();
        branch(guard, guarded, next);
        current_ = guarded;
      }
      body(part->list("body"));
      jump(after);
      current_ = next;
    }
    jump(after);
    current_ = after;
  }

  static bool always_matches(const Tree& pattern) {
    if (pattern.is(Kind::MatchAs)) return !pattern.child("pattern") || always_matches(*pattern.child("pattern"));
    return pattern.is(Kind::MatchOr) && always_matches(*pattern.list("patterns").back());
  }

  // The `else` of a loop runs where the loop ends without a break.
  void loop(const Tree& s) {
    const bool is_for = s.is(Kind::For);
    if (is_for) add_step(StepKind::Iterate, s);
    const int header = add(), inside = add(), exhausted = s.list("orelse").empty() ? -1 : add(), after = add();
    jump(header);
    current_ = header;
    const int without = exhausted < 0 ? after : exhausted;
    is_for ? finish(EndKind::HasNext, &s, inside, without) : branch(s.child("test"), inside, without);
    current_ = inside;
    if (is_for) add_step(StepKind::Next, s);
    loops_.push_back({header, after});
    body(s.list("body"));
    loops_.pop_back();
    jump(header);
    if (exhausted >= 0) {
      current_ = exhausted;
      body(s.list("orelse"));
      jump(after);
    }
    current_ = after;
  }

  // The block where control really goes on: what does nothing but jump is skipped.
  int target_of(int at) {
    for (size_t steps = 0; at > 0 && steps < cfg_.blocks.size(); ++steps) {  // an empty loop goes on for ever
      const Block& b = block(at);
      if (!b.steps.empty() || b.end != EndKind::Jump) break;
      at = b.then;
    }
    return at;
  }
  void skip_empty_blocks() {
    for (Block& b : cfg_.blocks) {
      if (b.then >= 0) b.then = target_of(b.then);
      if (b.otherwise >= 0) b.otherwise = target_of(b.otherwise);
    }
  }

  // A block and the only one that it leads to, which nothing else does, are one.
  void merge_chains() {
    for (size_t i = 0; i < cfg_.blocks.size(); ++i) {
      for (Block* b = &cfg_.blocks[i]; b->end == EndKind::Jump && b->then > static_cast<int>(i);) {
        Block& next = block(b->then);
        if (next.predecessors.size() != 1) break;
        b->steps.insert(b->steps.end(), next.steps.begin(), next.steps.end());
        b->end = next.end, b->tree = next.tree, b->then = next.then, b->otherwise = next.otherwise, b->guard = next.guard;
        next.then = next.otherwise = -1;
      }
    }
    order_blocks(cfg_);
  }

  Cfg& cfg_;
  int current_ = -1;  // −1: no path reaches this place
  std::vector<LoopTargets> loops_;
  std::map<std::string, int> labels_;  // of regions: the blocks behind them
  const Tree* guard_ = nullptr;
};

}  // namespace

std::vector<int> Block::successors() const {
  std::vector<int> to;
  if (then >= 0) to.push_back(then);
  if (otherwise >= 0 && otherwise != then) to.push_back(otherwise);
  return to;
}

namespace {

// `yield from items` is `for item in items: yield item`.
void expand_delegations(Source& source, const Tree& function) {
  std::vector<Tree*> found;
  for_each_own(function, [&](const Tree& tree) {
    if (tree.is(Kind::Expr) && tree.child("value")->is(Kind::YieldFrom)) found.push_back(const_cast<Tree*>(&tree));
  });
  const std::string item(kDelegated);
  for (Tree* statement : found) {
    const Position& at = statement->position;
    auto name = [&](Kind context) {
      Tree* made = source.make(Kind::Name, at);
      made->fields = {{"id", item}, {"ctx", source.make(context, at)}};
      return made;
    };
    Tree *yield = source.make(Kind::Yield, at), *step = source.make(Kind::Expr, at);
    yield->fields = {{"value", name(Kind::Load)}};
    step->fields = {{"value", yield}};
    Tree* items = statement->child("value")->child("value");
    statement->kind = Kind::For;
    statement->name = name_of(Kind::For);
    statement->fields = {
        {"target", name(Kind::Store)}, {"iter", items}, {"body", Tree::Trees{step}}, {"orelse", Tree::Trees{}}};
  }
}

// Of `match value: case pattern: …` the parts that blocks are made of:
//
//     entry            .subject7 = value
//     test of a case   whether .subject7 has the form of the pattern
//     bound            the names in the pattern become parts of .subject7; null: there are none
void expand_matches(Source& source, const Tree& function) {
  for_each_own(function, [&](const Tree& tree) {
    if (!tree.is(Kind::Match) || tree.child("entry")) return;
    Tree& match = const_cast<Tree&>(tree);
    const std::string subject = fmt::format(".subject{}", match.position.line);
    auto name = [&](Kind context, const Position& at) {
      Tree* made = source.make(Kind::Name, at);
      made->fields = {{"id", subject}, {"ctx", source.make(context, at)}};
      return made;
    };
    Tree* value = match.child("subject");
    Tree* entry = source.make(Kind::Assign, value->position);
    entry->fields = {{"targets", Tree::Trees{name(Kind::Store, value->position)}}, {"value", value}};
    for (Tree* part : match.list("cases")) {
      Tree *pattern = part->child("pattern"), *guard = part->child("guard");
      const Position& at = pattern->position;
      auto of_subject = [&](Kind kind) {
        Tree* made = source.make(kind, at);
        made->fields = {{"subject", name(Kind::Load, at)}, {"pattern", pattern}};
        return made;
      };
      bool has_names = false;
      for_each_binding(*pattern, [&](const Tree&) { has_names = true; });
      const Tree::Trees body = part->list("body");
      part->position = at;
      part->fields = {{"test", of_subject(Kind::MatchTest)}, {"body", body}};
      if (guard) part->fields.emplace_back("guard", guard);
      if (has_names) part->fields.emplace_back("bound", of_subject(Kind::MatchBind));
    }
    const Tree::Trees cases = match.list("cases");
    match.fields = {{"entry", entry}, {"cases", cases}};
  });
}

void require_plain_yields(const Source& source, const Tree& function) {
  std::set<const Tree*> plain;
  for_each_own(function, [&](const Tree& tree) {
    if (tree.is_any({Kind::Expr, Kind::Assign, Kind::AnnAssign})) plain.insert(tree.child("value"));
    if (!tree.is(Kind::YieldFrom) && (!tree.is(Kind::Yield) || plain.contains(&tree))) return;
    throw source.error(ErrorCode::Unsupported, tree, fmt::format("{} inside of an expression is not supported", unparse(tree)))
        .with_hint("write it as a statement of its own");
  });
}

}  // namespace

Cfg build_cfg(Source& source, const Tree& function) {
  if (!function.is(Kind::FunctionDef)) throw source.error(ErrorCode::InvalidArgument, function, "only a function has control flow");
  expand_exits(source, function);
  expand_delegations(source, function);
  expand_matches(source, function);
  require_plain_yields(source, function);
  Cfg cfg{.source = &source, .function = &function, .scope = scope_of(source, function), .blocks = {}, .iterators = {}, .outer_guards = {}};
  Builder(cfg).build();
  return cfg;
}

// With the loops around the block from the inside out, L₀ ⊂ L₁ ⊂ …, a copy of the blocks for each: copy k runs the rest of the turn of Lₖ
// that the generator is in, with all turns of the loops inside. What leads to the header of Lₖ, or out of it, goes on in copy k + 1. So the
// graph stays reducible: no loop is entered but at its header.
Cfg resumed_cfg(const Cfg& cfg, size_t at, bool one_item) {
  std::vector<const NaturalLoop*> around;
  const std::map<size_t, NaturalLoop> loops = find_natural_loops(cfg);
  for (const auto& [header, loop] : loops) {
    if (std::ranges::count(loop.blocks, at)) around.push_back(&loop);
  }
  std::ranges::sort(around, {}, [](const NaturalLoop* loop) { return loop->blocks.size(); });
  using Place = std::pair<size_t, size_t>;  // a block, and which copy
  std::map<Place, int> places;
  std::vector<Place> worklist;
  auto go_to = [&](size_t block, size_t copy) {
    while (copy < around.size() && (block == around[copy]->header || !std::ranges::count(around[copy]->blocks, block))) ++copy;
    auto [place, is_new] = places.emplace(Place{block, copy}, static_cast<int>(places.size()));
    if (is_new) worklist.emplace_back(block, copy);
    return place->second;
  };
  Cfg rest{.source = cfg.source, .function = cfg.function, .scope = cfg.scope, .blocks = {}, .iterators = cfg.iterators, .outer_guards = cfg.outer_guards};
  go_to(at, 0);
  for (size_t next = 0; next < worklist.size(); ++next) {
    const auto [from, copy] = worklist[next];
    Block block = cfg.blocks[from];
    if (block.end == EndKind::Yield && one_item) block.then = -1;
    if (block.then >= 0) block.then = go_to(static_cast<size_t>(block.then), copy);
    if (block.otherwise >= 0) block.otherwise = go_to(static_cast<size_t>(block.otherwise), copy);
    rest.blocks.push_back(std::move(block));
  }
  order_blocks(rest);
  return rest;
}

void for_each_use(const Step& step, const Visit& visit) {
  switch (step.kind) {
    case StepKind::Run: return for_each_use(*step.tree, visit);
    case StepKind::Iterate: return for_each_use(*step.tree->child("iter"), visit);
    case StepKind::Next: return for_each_use(*step.tree->child("target"), visit);  // "x[i]" reads both
  }
}

void for_each_binding(const Step& step, const Visit& visit) {
  switch (step.kind) {
    case StepKind::Run: return for_each_binding(*step.tree, visit);
    case StepKind::Iterate: return for_each_binding(*step.tree->child("iter"), visit);
    case StepKind::Next: return for_each_binding(*step.tree->child("target"), visit);
  }
}

void for_each_use_at_end(const Block& block, const Visit& visit) {
  if (block.tree && block.end != EndKind::HasNext) for_each_use(*block.tree, visit);
}
void for_each_binding_at_end(const Block& block, const Visit& visit) {
  if (block.tree && block.end != EndKind::HasNext) for_each_binding(*block.tree, visit);
}

}  // namespace anfora::python
