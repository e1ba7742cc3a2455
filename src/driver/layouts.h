// How the images of a compiled model lie in memory, and what changing that takes.
#pragma once

#include <cstddef>

#include "runtime/executable.h"

namespace anfora::driver {

// Counts calls in the program; bodies of loops count once. A layout is a permuted shape, so its changes are Transposes; those that only
// give memory another shape are views and no longer there.
struct LayoutSummary {
  size_t images = 0;         // convolutions, poolings, and what else has a form for channels that lie last
  size_t channels_last = 0;  // of them, in that form
  size_t transposes = 0;
  size_t unsized = 0;        // of them, with a size that only a run tells
  double bytes = 0;          // of the tensors that the others write
};
LayoutSummary summarize_layouts(const runtime::Executable& executable);

}  // namespace anfora::driver
