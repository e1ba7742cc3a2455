#include "pipeline/undo.h"

#include <fmt/format.h>

#include "anfora/error.h"
#include "ir/clone.h"

namespace anfora::pipeline {

using passes::Pass;

Undo::Undo(ir::Module& module) : module_(module) {
  if (module.graphs().size() > 1) before_ = ir::snapshot(module);
}

bool Undo::prepare(const Pass& pass, passes::PassContext& context) const {
  context.spared.clear();
  auto found = spared_.find(&pass);
  if (found == spared_.end()) return true;
  for (const auto& [name, why] : found->second) {
    context.spared.insert(name);
    const ir::Graph* graph = module_.find_graph(name);
    if (graph) context.remarks.refused(pass.name, pass.name, *graph->value(), why);
  }
  return !context.spared.contains(module_.main()->name());
}

bool Undo::take_back(const Pass& pass, const analysis::Inference& inference, const Error& error) {
  const ir::Graph* graph = inference.refused() ? inference.refused()->graph() : nullptr;
  if (!before_ || !graph || graph == module_.main()) return false;
  Spared& spared = spared_[&pass];
  while (graph && (spared.contains(graph->name()) || !before_->find_graph(graph->name()))) graph = graph->parent();
  if (!graph) graph = module_.main();  // a function at the top level: what it is called with is decided elsewhere
  std::string why =
      fmt::format("what @{} computes could not be typed: {}: {}", graph->name(), error.node(), error.message());
  if (!spared.emplace(graph->name(), std::move(why)).second) return false;
  ir::restore(module_, *before_);
  return true;
}

}  // namespace anfora::pipeline
