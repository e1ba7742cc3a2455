// The form of loops that differentiation keeps (differentiate.cc). Functions are lambda-lifted, so that it is a matter of calls alone.
#pragma once

#include <optional>
#include <span>

#include "analysis/calls.h"

namespace anfora::passes {

// A loop in which the test chooses between a body, which ends by calling the loop again, and what follows.
struct LoopForm {
  ir::Graph* header;
  ir::Graph *body, *exit;
  bool goes_on_when;
};

// None: what is called is no loop, or one of another form.
std::optional<LoopForm> loop_of(std::span<ir::Graph* const> callees, const analysis::CallOrder& calls);

// By how much an iteration changes a parameter that is an integer; 0: it is not known, or not the same in all. `step`: what an iteration makes
// of the parameters, as a tuple.
int64_t increment_of(const ir::Graph& step, const ir::Parameter& parameter);

}  // namespace anfora::passes
