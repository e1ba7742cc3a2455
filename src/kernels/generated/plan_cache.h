// How a kernel runs on inputs of certain shapes, kept for the shapes that it met last.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/input_shapes.h"

namespace anfora::kernels::generated {

// `Plan` has a member `shapes`, those of the inputs. A plan is valid until the next call.
template <class Plan>
class PlanCache {
 public:
  // The plan for the shapes of this invocation; null where there is none yet. Allocates nothing.
  Plan* find(const KernelContext& context) {
    auto found =
        std::ranges::find_if(plans_, [&](const Plan& plan) { return are_input_shapes(plan.shapes, context); });
    if (found == plans_.end()) return nullptr;
    std::rotate(found, found + 1, plans_.end());
    return &plans_.back();
  }

  // The same, or what make(the shapes) gives: an optional plan.
  template <class Make>
  const Plan* find_or_add(const KernelContext& context, const Make& make) {
    if (const Plan* known = find(context)) return known;
    std::optional<Plan> plan = make(input_shapes(context));
    return plan ? &add(std::move(*plan)) : nullptr;
  }

  // The plan used longest ago makes room.
  Plan& add(Plan plan) {
    if (plans_.size() == kMostPlans) plans_.erase(plans_.begin());
    plans_.push_back(std::move(plan));
    return plans_.back();
  }

 private:
  static constexpr size_t kMostPlans = 16;
  std::vector<Plan> plans_;  // the one used last is at the end
};

}  // namespace anfora::kernels::generated
