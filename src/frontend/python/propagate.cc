#include "frontend/python/propagate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "frontend/python/dataflow.h"
#include "frontend/python/fold.h"

namespace anfora::python {
namespace {

// Whether nobody can tell them apart: 1, 1.0 and True are equal, and so are 0.0 and −0.0.
bool identical(const Constant& a, const Constant& b) { return a.value.index() == b.value.index() && repr(a) == repr(b); }

bool is_final(const Tree* annotation) {
  if (!annotation) return false;
  if (annotation->is(Kind::Subscript)) return is_final(annotation->child("value"));
  return annotation->is(Kind::Name) ? annotation->text("id") == "Final" : annotation->text("attr") == "Final";
}

// The names that a statement gives its value to; empty where it is no plain assignment.
std::vector<const Tree*> assigned_names(const Tree& statement) {
  std::vector<const Tree*> names;
  if (statement.is(Kind::Assign)) {
    names.assign(statement.list("targets").begin(), statement.list("targets").end());
  } else if (statement.is(Kind::AnnAssign) && statement.child("value")) {
    names.push_back(statement.child("target"));
  }
  if (!std::ranges::all_of(names, [](const Tree* name) { return name->is(Kind::Name); })) names.clear();
  return names;
}

// The constant that a statement assigns to all of its names; null: none.
const Constant* assigned_constant(const Tree& statement) {
  if (assigned_names(statement).empty()) return nullptr;
  const Tree* value = statement.child("value");
  return value->is(Kind::Constant) ? &value->constant : nullptr;
}

class Propagation {
 public:
  Propagation(Source& source, const Tree& function) : source_(source), function_(function) {
    const Tree::Trees& top = source.root->list("body");
    is_top_level_ = std::ranges::count(top, &function) > 0;
  }

  Cfg run() {
    if (!source_.constants) {  // once, whichever of its functions comes first
      fold(source_);
      source_.constants = std::make_shared<const std::map<std::string, Constant>>(module_constants(source_));
    }
    Cfg cfg = build_cfg(source_, function_);
    while (substitute(cfg)) {
      fold_function();
      cfg = build_cfg(source_, function_);
    }
    require_defined(cfg, find_reaching_definitions(cfg));
    while (remove_dead(cfg)) cfg = build_cfg(source_, function_);
    return cfg;
  }

 private:
  // The tree belongs to the source, which is ours to change.
  static Tree& changeable(const Tree& tree) { return const_cast<Tree&>(tree); }

  static void become(const Tree& tree, Kind kind) {
    Tree& changed = changeable(tree);
    changed.kind = kind;
    changed.name = name_of(kind);
    changed.fields.clear();
  }

  void fold_function() {
    Tree* alone = source_.make(Kind::Module, {});
    alone->fields.emplace_back("body", Tree::Trees{&changeable(function_)});
    Tree* whole = std::exchange(source_.root, alone);
    fold(source_);
    source_.root = whole;
  }

  bool substitute(const Cfg& cfg) {
    const ReachingDefinitions reaching = find_reaching_definitions(cfg);
    std::map<const Tree*, Constant> found;  // by the Name that is read
    std::vector<const Tree*> augmented;
    for (size_t b = 0; b < cfg.blocks.size(); ++b) {
      const Block& block = cfg.blocks[b];
      for (size_t i = 0; i <= block.steps.size(); ++i) {
        auto use = [&](const Tree& name) {
          if (const Constant* constant = known(cfg, reaching, b, i, name.text("id"))) found.emplace(&name, *constant);
        };
        i < block.steps.size() ? for_each_use(block.steps[i], use) : for_each_use_at_end(block, use);
        if (i < block.steps.size() && block.steps[i].tree->is(Kind::AugAssign)) augmented.push_back(block.steps[i].tree);
      }
    }
    const bool changed = !found.empty();
    for (const Tree* statement : augmented) {
      auto target = found.find(statement->child("target"));
      if (target == found.end()) continue;
      spell_out(*statement, target->second);
      found.erase(target);
    }
    for (auto& [name, constant] : found) {
      become(*name, Kind::Constant);
      changeable(*name).constant = std::move(constant);
    }
    return changed;
  }

  // x += y reads x where it binds it: with x known, it is x = … + y.
  void spell_out(const Tree& statement, const Constant& value) {
    Tree *target = statement.child("target"), *op = statement.child("op"), *operand = statement.child("value");
    Tree* sum = source_.make(Kind::BinOp, statement.position);
    sum->fields = {{"left", source_.make_constant(value, target->position)}, {"op", op}, {"right", operand}};
    become(statement, Kind::Assign);
    changeable(statement).fields = {{"targets", Tree::Trees{target}}, {"value", sum}};
  }

  // The constant that a variable is where it is read; null: not known.
  const Constant* known(const Cfg& cfg, const ReachingDefinitions& reaching, size_t block, size_t step, const std::string& name) const {
    if (!cfg.scope.is_local(name)) {
      auto global = source_.constants->find(name);
      return is_top_level_ && global != source_.constants->end() ? &global->second : nullptr;
    }
    if (cfg.scope.captured.contains(name)) return nullptr;
    const auto variable = static_cast<size_t>(std::ranges::find(cfg.scope.locals, name) - cfg.scope.locals.begin());
    const Set definitions = reaching.at(cfg, block, step, variable);
    const Constant* value = nullptr;
    for (size_t d = definitions.find_first(); d != Set::npos; d = definitions.find_next(d)) {
      const Definition& definition = reaching.definitions[d];
      if (definition.kind != Definition::Kind::Statement) return nullptr;
      const std::vector<Step>& steps = cfg.blocks[definition.block].steps;
      const bool is_statement = definition.step < steps.size() && steps[definition.step].kind == StepKind::Run;
      const Constant* assigned = is_statement ? assigned_constant(*steps[definition.step].tree) : nullptr;
      if (!assigned || (value && !identical(*value, *assigned))) return nullptr;
      value = assigned;
    }
    return value;
  }

  // Assignments of what has no effect, to what nobody reads.
  bool remove_dead(const Cfg& cfg) {
    const LiveVariables live = find_live_variables(cfg);
    bool changed = false;
    for (size_t b = 0; b < cfg.blocks.size(); ++b) {
      const Block& block = cfg.blocks[b];
      std::set<std::string> read;
      for (size_t v = live.live_out[b].find_first(); v != Set::npos; v = live.live_out[b].find_next(v)) {
        read.insert(cfg.scope.locals[v]);
      }
      auto use = [&](const Tree& name) { read.insert(name.text("id")); };
      for_each_use_at_end(block, use);
      const NamedExpressions amid = named_expressions(block);
      for (auto step = block.steps.rbegin(); step != block.steps.rend(); ++step) {
        const std::vector<const Tree*> names = step->kind == StepKind::Run ? assigned_names(*step->tree) : std::vector<const Tree*>();
        auto is_read = [&](const Tree* name) {
          const std::string& id = name->text("id");
          return !cfg.scope.is_local(id) || cfg.scope.captured.contains(id) || read.contains(id);
        };
        if (!names.empty() && step->tree->child("value")->is_any({Kind::Constant, Kind::Name}) && std::ranges::none_of(names, is_read)) {
          become(*step->tree, Kind::Pass);
          changed = true;
          continue;
        }
        for_each_binding(*step, [&](const Tree& name) {
          auto named = amid.find(&name);
          if (named == amid.end() || !named->second) read.erase(bound_name(name));
        });
        for_each_use(*step, use);
      }
    }
    return changed;
  }

  Source& source_;
  const Tree& function_;
  bool is_top_level_ = false;
};

}  // namespace

std::map<std::string, Constant> module_constants(const Source& source) {
  struct Assigned {
    size_t times = 0;
    const Constant* value = nullptr;
    const Tree* final = nullptr;  // where it is annotated so
  };
  std::map<std::string, Assigned> assigned;
  std::function<void(const Tree::Trees&, bool)> visit = [&](const Tree::Trees& body, bool once) {
    for (const Tree* statement : body) {
      const Constant* value = assigned_constant(*statement);
      const bool is_marked = statement->is(Kind::AnnAssign) && is_final(statement->child("annotation"));
      for_each_binding(*statement, [&](const Tree& name) {
        Assigned& a = assigned[bound_name(name)];
        if (statement->is(Kind::AnnAssign) && !statement->child("value")) return;
        if (a.final || (is_marked && a.times > 0)) {
          const Tree& first = a.final ? *a.final : *statement;
          throw source.error(ErrorCode::InvalidModel, *statement,
                             a.final ? fmt::format("'{}' is Final since line {}, and is assigned again", bound_name(name), first.position.line)
                                     : fmt::format("'{}' is made Final, but was assigned before", bound_name(name)));
        }
        ++a.times;
        a.value = once ? value : nullptr;
        if (is_marked) a.final = statement;
      });
      for (const std::string& name : statement->texts("names")) assigned[name].times += 2;
      const bool is_scope = statement->is_any({Kind::FunctionDef, Kind::ClassDef});
      if (is_scope) continue;
      for_each_body(*statement, [&](const Tree::Trees& inside) { visit(inside, false); });
    }
  };
  visit(source.root->list("body"), true);
  // What any function declares global, it may assign.
  std::function<void(const Tree&)> find_globals = [&](const Tree& tree) {
    if (tree.is(Kind::Global)) {
      for (const std::string& name : tree.texts("names")) assigned[name].times += 2;
    }
    for_each_child(tree, find_globals);
  };
  find_globals(*source.root);
  std::map<std::string, Constant> constants;
  for (const auto& [name, a] : assigned) {
    if (a.times == 1 && a.value) constants.emplace(name, *a.value);
  }
  return constants;
}

Cfg propagate_constants(Source& source, const Tree& function) { return Propagation(source, function).run(); }

}  // namespace anfora::python
