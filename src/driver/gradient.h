// Gradients of a model: what `anfora grad` and the Python package have in common.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace anfora::driver {

struct GradientOptions {
  std::string of;               // the name of a result, or of the only one where it is empty
  std::vector<std::string> by;  // patterns of the names of parameters (NamePatterns); none: all of floats
  int64_t checkpoints = 0;      // see passes::PassOptions::Gradient
};

// The module gets behind its results the gradients of the sum of one of them, by parameters. Throws NotFound for a name or a pattern that
// nothing has, InvalidArgument for what has no derivative, and Unsupported for an operator without a gradient.
void differentiate(ir::Module& module, const GradientOptions& options);
// The same by the numbers of the result and of the parameters.
void differentiate(ir::Module& module, size_t of, std::vector<size_t> by, int64_t checkpoints = 0);

// A result whose rank only a run tells becomes a scalar; a run ends by an error where it has several elements.
void make_scalar(ir::Module& module, size_t of);
// Behind the results comes the sum of products of these, element by element, with parameters of their types, which come behind the parameters:
// its gradient by what they depend on is that of all of them, weighted.
void add_weighted_sum(ir::Module& module, std::span<const size_t> of);
// The parameters from `first` on, as many as `like`, become zeros of the shapes of these results, which do not depend on them.
void set_to_zero(ir::Module& module, size_t first, std::span<const size_t> like);

// Every Gradient becomes what computes it; a module without one stays as it is. Throws Unsupported for an operator without a gradient.
void lower_gradients(ir::Module& module);

// Only these results, in this order.
void keep_results(ir::Module& module, std::span<const size_t> kept);

}  // namespace anfora::driver
