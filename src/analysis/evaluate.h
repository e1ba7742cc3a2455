// Evaluation with the reference kernels: of one application (what folding uses), and of whole modules (the oracle that
// optimized and compiled results are compared with). Slow and plain on purpose.
#pragma once

#include <functional>
#include <random>
#include <span>
#include <vector>

#include "ir/module.h"
#include "support/datum.h"

namespace anfora::analysis {

// The results of an operator on data. Throws Unsupported when it has no kernel.
std::vector<Datum> evaluate_operator(const ir::Operator& op, const AttributeSet& attributes,
                                     std::span<const Datum> inputs, size_t num_outputs,
                                     std::mt19937_64* random = nullptr);

// What a constant that is no function is while a model runs: its tensor, nothing, and of a type an empty tensor of its elements.
Datum datum_of(const ir::Value& constant);

// Evaluates main. `inputs` are main's parameters in order; None takes the parameter's default. Values are computed when
// they are needed; tail calls run in constant space.
// `observe` sees each application and parameter with its value, once an invocation of its graph.
using Observer = std::function<void(const ir::Node& node, const Datum& value)>;
std::vector<Datum> interpret(const ir::Module& module, std::span<const Datum> inputs, uint64_t seed = 0,
                             const Observer& observe = nullptr);

}  // namespace anfora::analysis
