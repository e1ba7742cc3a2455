// Runs of an optimized executable whose errors speak of the model's own nodes and shapes.
#pragma once

#include <span>
#include <vector>

#include "driver/model.h"

namespace anfora::driver {

// Whether a run does more than to return results: what it prints, it is to print once.
bool has_effects(const ir::Module& module);

// What executable.run() does. Where a kernel refuses its operands, the model of `source` is run once more as it was written: the
// optimizer chooses other layouts, and merges nodes, so that its error would tell shapes that the model's author never wrote.
void run_explained(const runtime::Executable& executable, const ModelSource& source, std::span<const Datum> inputs,
                   std::span<Datum> outputs, const runtime::RunOptions& options = {});
std::vector<Datum> run_explained(const runtime::Executable& executable, const ModelSource& source,
                                 const std::vector<Datum>& inputs, const runtime::RunOptions& options = {});
std::vector<Datum> run_explained(const runtime::Executable& executable, const ModelSource& source,
                                 const runtime::NamedData& inputs, const runtime::RunOptions& options = {});

}  // namespace anfora::driver
