#include "driver/optimize.h"

#include <fmt/format.h>

#include <utility>

#include "anfora/error.h"
#include "driver/evaluate.h"
#include "driver/rules.h"

namespace anfora::driver {
namespace {

const passes::Pass& pass_named(const std::string& name) {
  if (const passes::Pass* pass = pipeline::find_pass(name)) return *pass;
  std::string known;
  for (const passes::Pass* pass : pipeline::all_passes()) known.append(known.empty() ? "" : ", ").append(pass->name);
  throw Error(ErrorCode::InvalidArgument, fmt::format("there is no pass '{}'", name)).with_hint("known: " + known);
}

}  // namespace

SaveOptions save_options(const OptimizeOptions& options) {
  return {.target = &target_named(options.target), .opset = options.opset};
}

pipeline::OptimizeOptions pass_options(const ir::Module& module, const OptimizeOptions& options) {
  pipeline::OptimizeOptions how = optimizing_for(module, save_options(options));
  how.passes.math = options.math;
  how.passes.assumes_finite = options.assume_finite;
  how.passes.fold_limit = options.fold_limit;
  how.passes.evaluate = fast_evaluator();
  how.passes.outline = options.outline;
  how.expand = options.expand;
  how.keep_remarks = options.keep_remarks;
  if (!options.rules.empty()) how.passes.rules = rules_with(module.context(), options.rules);
  for (const std::string& name : options.passes) how.only.push_back(&pass_named(name));
  return how;
}

pipeline::OptimizeReport optimize(ir::Module& module, const OptimizeOptions& options,
                                  std::function<void(std::string_view, size_t)> on_stage) {
  pipeline::OptimizeOptions how = pass_options(module, options);
  how.on_stage = std::move(on_stage);
  require_dims(module, options.dims);
  if (!options.dims.empty()) pin_dims(module, options.dims);
  pin_shapes(module, options.pins);
  return pipeline::optimize(module, how);
}

}  // namespace anfora::driver
