#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/output.h"
#include "driver/python_source.h"
#include "frontend/python/dataflow.h"
#include "frontend/python/propagate.h"

namespace anfora::cli {
namespace {

struct CfgOptions {
  std::string function, output, format = "text";
  bool as_written = false;
};

using Json = nlohmann::ordered_json;

Json members(const python::Set& set, const auto& name) {
  Json all = Json::array();
  for (size_t i = set.find_first(); i != python::Set::npos; i = set.find_next(i)) all.push_back(name(i));
  return all;
}

// The blocks with what is found of them, and for each use of a local variable the definitions that reach it.
Json as_json(const python::Cfg& cfg) {
  const python::ReachingDefinitions reaching = python::find_reaching_definitions(cfg);
  const python::LiveVariables live = python::find_live_variables(cfg);
  const std::vector<size_t> dominators = python::find_dominators(cfg);
  auto definition = [&](size_t d) -> Json {
    const python::Definition& found = reaching.definitions[d];
    switch (found.kind) {
      case python::Definition::Kind::Parameter: return "parameter";
      case python::Definition::Kind::Undefined: return "undefined";
      case python::Definition::Kind::Statement: break;
    }
    return {found.tree->position.line, found.tree->position.column};
  };
  auto variable = [&](size_t v) { return cfg.scope.locals[v]; };
  Json blocks = Json::array();
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    const python::Block& block = cfg.blocks[b];
    Json uses = Json::array();
    for (size_t i = 0; i <= block.steps.size(); ++i) {
      auto use = [&](const python::Tree& name) {
        auto local = std::ranges::find(cfg.scope.locals, name.text("id"));
        if (local == cfg.scope.locals.end()) return;
        const python::Set found = reaching.at(cfg, b, i, static_cast<size_t>(local - cfg.scope.locals.begin()));
        uses.push_back({{"name", *local},
                        {"line", name.position.line},
                        {"column", name.position.column},
                        {"definitions", members(found, definition)}});
      };
      i < block.steps.size() ? python::for_each_use(block.steps[i], use) : python::for_each_use_at_end(block, use);
    }
    blocks.push_back({{"successors", block.successors()},
                      {"dominator", dominators[b]},
                      {"live_in", members(live.live_in(b), variable)},
                      {"live_out", members(live.live_out[b], variable)},
                      {"uses", uses}});
  }
  return {{"function", cfg.function->text("name")}, {"locals", cfg.scope.locals}, {"blocks", blocks}};
}

int run_cfg(const CfgOptions& options) {
  const size_t colons = options.function.rfind("::");
  const std::string file = options.function.substr(0, colons);
  Files files;
  files.reads(file).writes("--output", options.output).check();
  python::Source source = driver::load_python(file);
  const std::string_view path = colons == std::string::npos ? std::string_view() : std::string_view(options.function).substr(colons + 2);
  const python::Tree& function = driver::find_function(source, path);
  const python::Cfg cfg = options.as_written ? python::build_cfg(source, function) : python::propagate_constants(source, function);
  std::string text = options.format == "json"   ? as_json(cfg).dump(2) + "\n"
                     : options.format == "text" ? python::print(cfg)
                                                : python::to_dot(cfg);
  if (options.format == "svg") text = draw(text);
  write_text(options.output, text);
  return kSuccess;
}

}  // namespace

Action add_cfg(CLI::App& app) {
  auto options = std::make_shared<CfgOptions>();
  CLI::App* command = app.add_subcommand("cfg", "Show the control flow and the dataflow of a Python function");
  command->add_option("function", options->function, "file.py::function, or file.py::Class.method")->required()->type_name("FILE::NAME");
  command->add_option("--format", options->format, "text (default), json, dot or svg")->check(CLI::IsMember({"text", "json", "dot", "svg"}));
  command->add_flag("--as-written", options->as_written, "before constants are folded and propagated");
  command->add_option("-o,--output", options->output, "a file; standard output otherwise, and for -")->type_name("FILE");
  command->footer("Example:\n  anfora cfg model.py::forward --format svg -o forward.svg");
  return [options] { return run_cfg(*options); };
}

}  // namespace anfora::cli
