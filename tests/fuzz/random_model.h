// Random valid models for all that shall hold of every model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuzz/grower.h"
#include "rewrite/rule_set.h"

namespace anfora::fuzz {

struct RandomModel {
  std::unique_ptr<ir::Module> module;    // typed, without dead nodes
  std::map<size_t, Bounds> bounds;       // of the elements of main's parameters, by their number
  std::map<std::string, int64_t> sizes;  // of the symbols in their types, as the model grew
  int64_t least_size = 0;                // that a symbol may have
  Values values = Values::Normal;        // what inputs are like
  std::set<std::string_view> operators;
  std::string complaint;  // what inference said of an application and evaluation denied; empty: nothing
};

// A model is a dozen or so of applications. Half of the models have a theme, the operators of one kind of network or of rule,
// since what rewrites each other must meet: among 200 operators a Transpose seldom follows another. A third of the steps puts in
// an instance of the left side of some rule, its variables being values that are there, and its inner values being there for
// others afterwards. `common_types` leaves out what few runtimes have kernels for. Empty: what was drawn does not make a model.
std::optional<RandomModel> random_model(ir::Context& context, const rewrite::RuleSet& rules, bool common_types,
                                        Draw& draw);

// Inputs for it, of the sizes given.
std::vector<Datum> random_inputs(const RandomModel& model, const std::map<std::string, int64_t>& sizes, Draw& draw);

// Operators that models may have: those with a kernel, a result that depends on the inputs alone, and a name in ONNX.
std::vector<const ir::Operator*> operators_of_models(const ir::Context& context);

}  // namespace anfora::fuzz
