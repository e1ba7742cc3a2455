#include "frontend/python/dataflow.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace anfora::python {
namespace {

using Given = Definition::Kind;

// The least solution of  in(n) = ∪ over the neighbours m before n of  gen(m) ∪ (in(m) ∩ ¬kill(m)).
template <class Before, class After>
std::vector<Set> solve(const Cfg& cfg, const std::vector<Set>& gen, const std::vector<Set>& kill, const Set& entry,
                       std::vector<size_t> worklist, Before&& before, After&& after) {
  std::vector<Set> in(cfg.blocks.size(), Set(entry.size()));
  std::vector<bool> waits(cfg.blocks.size(), true);
  in[0] = entry;
  for (size_t next = 0; next < worklist.size(); ++next) {
    const size_t n = worklist[next];
    waits[n] = false;
    Set joined = n == 0 ? entry : Set(entry.size());
    for (int m : before(cfg.blocks[n])) {
      const auto at = static_cast<size_t>(m);
      joined |= gen[at] | (in[at] - kill[at]);
    }
    if (joined == in[n] && next >= cfg.blocks.size()) continue;
    in[n] = std::move(joined);
    for (int m : after(cfg.blocks[n])) {
      const auto at = static_cast<size_t>(m);
      if (waits[at]) continue;
      waits[at] = true;
      worklist.push_back(at);
    }
  }
  return in;
}

size_t index_of(const Scope& scope, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(scope.locals, name) - scope.locals.begin());
}

// Calls visit(step, name) for each local variable that a block binds, in order; those of its end come last.
template <class F>
void for_each_local_binding(const Cfg& cfg, const Block& block, F&& visit) {
  for (size_t i = 0; i <= block.steps.size(); ++i) {
    auto bind = [&](const Tree& name) {
      if (cfg.scope.is_local(bound_name(name))) visit(i, name);
    };
    if (i < block.steps.size()) {
      for_each_binding(block.steps[i], bind);
    } else {
      for_each_binding_at_end(block, bind);
    }
  }
}

template <class F>
void for_each_local_use(const Cfg& cfg, const Block& block, size_t step, F&& visit) {
  auto use = [&](const Tree& name) {
    if (cfg.scope.is_local(name.text("id"))) visit(name);
  };
  if (step < block.steps.size()) {
    for_each_use(block.steps[step], use);
  } else {
    for_each_use_at_end(block, use);
  }
}

void collect_named(const Tree& tree, bool may_skip, NamedExpressions& found) {
  if (tree.is(Kind::NamedExpr)) found.emplace(tree.child("target"), may_skip);
  const Tree* first = nullptr;  // what is evaluated in any case, of what may end early
  if (tree.is(Kind::BoolOp)) first = tree.list("values")[0];
  if (tree.is(Kind::IfExp)) first = tree.child("test");
  if (tree.is(Kind::Compare)) first = tree.child("left");
  const bool is_own_scope =
      tree.is_any({Kind::Lambda, Kind::ListComp, Kind::SetComp, Kind::DictComp, Kind::GeneratorExp, Kind::FunctionDef});
  for_each_child(tree, [&](const Tree& child) {
    const bool is_second_of_two = tree.is(Kind::Compare) && &child == tree.list("comparators")[0];
    collect_named(child, may_skip || is_own_scope || (first && &child != first && !is_second_of_two), found);
  });
}

}  // namespace

NamedExpressions named_expressions(const Block& block) {
  NamedExpressions found;
  for (const Step& step : block.steps) collect_named(*step.tree, false, found);
  if (block.tree) collect_named(*block.tree, false, found);
  return found;
}

ReachingDefinitions find_reaching_definitions(const Cfg& cfg) {
  ReachingDefinitions found;
  const std::vector<std::string>& locals = cfg.scope.locals;
  for (size_t v = 0; v < locals.size(); ++v) {
    const bool is_parameter = v < cfg.scope.parameters.size();
    found.definitions.push_back({.kind = is_parameter ? Given::Parameter : Given::Undefined, .variable = v});
  }
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    const NamedExpressions amid = named_expressions(cfg.blocks[b]);
    for_each_local_binding(cfg, cfg.blocks[b], [&](size_t step, const Tree& name) {
      auto named = amid.find(&name);
      const bool is_amid = named != amid.end();
      found.definitions.push_back({Given::Statement, index_of(cfg.scope, bound_name(name)), b, step, &name, is_amid, is_amid && named->second});
    });
  }
  const size_t n = found.definitions.size();
  std::vector<Set> of_variable(locals.size(), Set(n));
  for (size_t d = 0; d < n; ++d) of_variable[found.definitions[d].variable].set(d);
  found.de_def.assign(cfg.blocks.size(), Set(n));
  found.def_kill.assign(cfg.blocks.size(), Set(n));
  for (size_t d = locals.size(); d < n; ++d) {
    const Definition& definition = found.definitions[d];
    const Set& all = of_variable[definition.variable];
    if (!definition.is_conditional) {
      found.def_kill[definition.block] |= all;
      found.de_def[definition.block] -= all;
    }
    found.de_def[definition.block].set(d);
  }
  Set entry(n);
  for (size_t v = 0; v < locals.size(); ++v) entry.set(v);
  std::vector<size_t> order(cfg.blocks.size());
  for (size_t b = 0; b < order.size(); ++b) order[b] = b;
  found.reaches = solve(cfg, found.de_def, found.def_kill, entry, order, std::mem_fn(&Block::predecessors), std::mem_fn(&Block::successors));
  return found;
}

Set ReachingDefinitions::at(const Cfg& cfg, size_t block, size_t step, size_t variable) const {
  Set found = reaches[block];
  for (size_t d = 0; d < definitions.size(); ++d) {
    if (definitions[d].variable != variable) found.reset(d);
  }
  for (size_t d = cfg.scope.locals.size(); d < definitions.size(); ++d) {
    const Definition& definition = definitions[d];
    if (definition.variable != variable || definition.block != block) continue;
    if (definition.step > step || (definition.step == step && !definition.is_amid)) continue;
    if (definition.step < step && !definition.is_conditional) found.reset();
    found.set(d);
  }
  return found;
}

LiveVariables find_live_variables(const Cfg& cfg) {
  LiveVariables found;
  const size_t n = cfg.scope.locals.size();
  found.ue_var.assign(cfg.blocks.size(), Set(n));
  found.var_kill.assign(cfg.blocks.size(), Set(n));
  std::vector<size_t> order;
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    const Block& block = cfg.blocks[b];
    const NamedExpressions amid = named_expressions(block);
    order.insert(order.begin(), b);
    for (size_t i = 0; i <= block.steps.size(); ++i) {
      for_each_local_use(cfg, block, i, [&](const Tree& name) {
        const size_t v = index_of(cfg.scope, name.text("id"));
        if (!found.var_kill[b][v]) found.ue_var[b].set(v);
      });
      auto bind = [&](const Tree& name) {
        auto named = amid.find(&name);
        const bool may_skip = named != amid.end() && named->second;
        if (cfg.scope.is_local(bound_name(name)) && !may_skip) found.var_kill[b].set(index_of(cfg.scope, bound_name(name)));
      };
      if (i < block.steps.size()) for_each_binding(block.steps[i], bind);
    }
  }
  found.live_out = solve(cfg, found.ue_var, found.var_kill, Set(n), order, std::mem_fn(&Block::successors), std::mem_fn(&Block::predecessors));
  return found;
}

std::vector<size_t> find_dominators(const Cfg& cfg) {
  constexpr size_t kUnknown = SIZE_MAX;
  std::vector<size_t> dominator(cfg.blocks.size(), kUnknown);
  dominator[0] = 0;
  auto common = [&](size_t a, size_t b) {  // blocks are in reverse postorder
    while (a != b) (a > b ? a : b) = dominator[std::max(a, b)];
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = 1; b < cfg.blocks.size(); ++b) {
      std::optional<size_t> nearest;
      for (int p : cfg.blocks[b].predecessors) {
        const auto at = static_cast<size_t>(p);
        if (dominator[at] != kUnknown) nearest = nearest ? common(*nearest, at) : at;
      }
      if (dominator[b] == *nearest) continue;
      dominator[b] = *nearest;
      changed = true;
    }
  }
  return dominator;
}

std::map<size_t, NaturalLoop> find_natural_loops(const Cfg& cfg) {
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
  std::map<size_t, NaturalLoop> loops;
  for (auto& [header, inside] : members) loops[header] = {header, {inside.begin(), inside.end()}};
  return loops;
}

namespace {

// The lines of a shortest path from the entry to a block on which the variable gets no value.
std::vector<int> path_without(const Cfg& cfg, const ReachingDefinitions& found, size_t variable, size_t target) {
  std::vector<int> from(cfg.blocks.size(), -1);
  std::vector<size_t> queue{0};
  auto defines = [&](size_t b) {
    return std::ranges::any_of(found.definitions, [&](const Definition& d) {
      return d.kind == Given::Statement && d.block == b && d.variable == variable;
    });
  };
  for (size_t next = 0; next < queue.size() && queue[next] != target; ++next) {
    if (defines(queue[next])) continue;
    for (int to : cfg.blocks[queue[next]].successors()) {
      if (to == 0 || from[static_cast<size_t>(to)] >= 0) continue;
      from[static_cast<size_t>(to)] = static_cast<int>(queue[next]);
      queue.push_back(static_cast<size_t>(to));
    }
  }
  std::vector<int> lines;
  for (int b = from[target]; b >= 0; b = from[static_cast<size_t>(b)]) {
    const Tree* end = cfg.blocks[static_cast<size_t>(b)].tree;
    if (end) lines.insert(lines.begin(), end->position.line);
  }
  return lines;
}

}  // namespace

void require_defined(const Cfg& cfg, const ReachingDefinitions& found) {
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    for (size_t i = 0; i <= cfg.blocks[b].steps.size(); ++i) {
      for_each_local_use(cfg, cfg.blocks[b], i, [&](const Tree& name) {
        const std::string& id = name.text("id");
        if (cfg.scope.captured.contains(id)) return;
        const size_t v = index_of(cfg.scope, id);
        Set reaching = found.at(cfg, b, i, v);
        if (!reaching[v] || found.definitions[v].kind != Given::Undefined) return;
        const bool may_be_amid = std::ranges::any_of(found.definitions, [&](const Definition& d) {
          return d.is_amid && d.block == b && d.step == i && d.variable == v;
        });
        if (may_be_amid) return;  // evaluating the step shows
        reaching.reset(v);
        if (reaching.none()) {
          throw cfg.source->error(ErrorCode::InvalidModel, name, fmt::format("'{}' is read before it has a value", id))
              .with_hint(fmt::format("give '{}' a value before", id));
        }
        const std::vector<int> lines = path_without(cfg, found, v, b);
        Error error = cfg.source->error(
            ErrorCode::InvalidModel, name,
            lines.empty() ? fmt::format("'{}' has no value on some path to here", id)
                          : fmt::format("'{}' has no value on the path through line{} {}", id, lines.size() > 1 ? "s" : "", fmt::join(lines, ", ")));
        throw error.with_hint(fmt::format("give '{}' a value before line {}", id, lines.empty() ? name.position.line : lines[0]));
      });
    }
  }
}

}  // namespace anfora::python
