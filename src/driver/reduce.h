// Shrinking a model that shows a defect to a small one that still shows it.
//
// Delta debugging (A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input", 2002) on the graph:
//
//     main(x) ─ a ─ b ─ c ─ d ─▶ result        what comes after the defect goes: the result becomes c
//                   main(b) ─ c ─▶ result      what comes before it goes: b becomes a parameter
//
// Every step that the predicate does not confirm is taken back, so the result always shows the defect.
#pragma once

#include <functional>
#include <memory>

#include "ir/module.h"

namespace anfora::driver {

// Whether a module still shows the defect. It is typed and valid; what the predicate throws counts as no.
using ShowsDefect = std::function<bool(const ir::Module& module)>;
// Told of each smaller module that shows it, for progress.
using OnSmaller = std::function<void(size_t operators)>;

struct ReduceOptions {
  // How often the predicate may be asked; each time may be a run of the whole pipeline.
  size_t most_trials = 2000;
  OnSmaller on_smaller;
};

// The smallest module that was found; the given one, copied, where nothing can go. Cuts main only: functions that main calls
// stay whole. Throws InvalidArgument when the given module does not show the defect.
std::unique_ptr<ir::Module> reduce(const ir::Module& module, const ShowsDefect& shows_defect,
                                   const ReduceOptions& options = {});

}  // namespace anfora::driver
