// Runs of an optimized executable whose errors speak of the model's own nodes and shapes.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/executable.h"

namespace anfora::driver {

// What executable.run() does. Where a kernel refuses its operands, the model at `source` is run once more as it was written: the
// optimizer chooses other layouts, and merges nodes, so that its error would tell shapes that the model's author never wrote.
std::vector<Datum> run_explained(runtime::Executable& executable, const std::filesystem::path& source,
                                 const std::vector<Datum>& inputs, const runtime::RunOptions& options = {});
std::vector<Datum> run_explained(runtime::Executable& executable, const std::filesystem::path& source,
                                 const runtime::NamedData& inputs, const runtime::RunOptions& options = {});

}  // namespace anfora::driver
