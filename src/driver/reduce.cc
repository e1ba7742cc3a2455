#include "driver/reduce.h"

#include <algorithm>
#include <span>
#include <vector>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "pipeline/pipeline.h"
#include "support/cancellation.h"

namespace anfora::driver {
namespace {

using namespace ir;

// Values of main that can be a result or a parameter, operands before users.
std::vector<Apply*> cuttable(const Module& module) {
  std::vector<Apply*> nodes;
  for (Apply* node : topological_order(*module.main())) {
    const Type* type = node->type();
    bool value = type && (type->is_tensor() || type->kind() == TypeKind::Sequence);
    if (value && node->primitive() != Primitive::Return) nodes.push_back(node);
  }
  return nodes;
}

class Reducer {
 public:
  Reducer(const Module& module, const ShowsDefect& shows_defect, const ReduceOptions& options)
      : shows_defect_(shows_defect), options_(options), best_(clone(module)) {
    for (Parameter* parameter : best_->main()->parameters()) best_->set_default(parameter, nullptr);
    analysis::infer_types(*best_);
  }

  std::unique_ptr<Module> run() {
    if (!shows(*best_)) throw Error(ErrorCode::InvalidArgument, "the model does not show the defect");
    for (size_t before = 0; before != size(*best_) && trials_ < options_.most_trials;) {
      before = size(*best_);
      cut_behind();
      cut_before();
    }
    return std::move(best_);
  }

 private:
  static size_t size(const Module& module) { return module.num_operations(); }

  bool shows(const Module& module) {
    ++trials_;
    try {
      return shows_defect_(module);
    } catch (const Cancelled&) {
      throw;
    } catch (const std::exception&) {
      return false;
    }
  }

  // Takes the candidate if it is smaller, valid and still shows the defect.
  template <class Change>
  bool attempt(Change change) {
    if (trials_ >= options_.most_trials) return false;
    check_cancelled();
    std::unique_ptr<Module> candidate = clone(*best_);
    try {
      change(*candidate);
      drop_unused(*candidate);
      analysis::infer_types(*candidate);
      verify_or_throw(*candidate);
    } catch (const Error&) {
      return false;
    }
    if (size(*candidate) >= size(*best_) || !shows(*candidate)) return false;
    best_ = std::move(candidate);
    if (options_.on_smaller) options_.on_smaller(size(*best_));
    return true;
  }

  static void drop_unused(Module& module) {
    analysis::infer_types(module);
    pipeline::run_pass("dce", module);
    for (size_t i = module.main()->parameters().size(); i-- > 0;) {
      Parameter* parameter = module.main()->parameter(i);
      if (!parameter->has_uses()) module.remove_parameter(parameter);
    }
  }

  // One value as the only result: the first in topological order that shows the defect, found by halving (that a value after it
  // shows the defect too is likely, not certain), then by single steps.
  void cut_behind() {
    auto result_is = [&](size_t index) {
      return attempt([&](Module& candidate) {
        Apply* node = cuttable(candidate)[index];
        candidate.set_result(candidate.main(), node);
        candidate.output_names() = {"result"};
        candidate.metadata().output_types.clear();
      });
    };
    for (size_t low = 0, high = cuttable(*best_).size(); low < high;) {
      size_t middle = low + (high - low) / 2;
      if (result_is(middle)) {
        high = std::min(middle, cuttable(*best_).size());
        low = 0;
      } else {
        low = middle + 1;
      }
    }
  }

  // Stretches of values become parameters, long ones first.
  void cut_before() {
    for (size_t length = std::max<size_t>(cuttable(*best_).size() / 2, 1); length > 0; length /= 2) {
      for (size_t from = 0; from < cuttable(*best_).size();) {
        bool cut = attempt([&](Module& candidate) {
          std::vector<Apply*> nodes = cuttable(candidate);
          size_t to = std::min(from + length, nodes.size());
          for (Apply* node : std::span(nodes).subspan(from, to - from)) become_parameter(candidate, node);
        });
        if (!cut) from += length;
      }
    }
  }

  static void become_parameter(Module& module, Apply* node) {
    if (node == module.main()->result()) return;
    module.replace(node, module.add_parameter(module.main(), node->type(), node->name()));
    module.erase_with_dead_operands(node);
  }

  const ShowsDefect& shows_defect_;
  const ReduceOptions& options_;
  std::unique_ptr<Module> best_;
  size_t trials_ = 0;
};

}  // namespace

std::unique_ptr<Module> reduce(const Module& module, const ShowsDefect& shows_defect, const ReduceOptions& options) {
  return Reducer(module, shows_defect, options).run();
}

}  // namespace anfora::driver
