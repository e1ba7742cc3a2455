// Sizes of the processor's caches.
#pragma once

#include <cstdint>

namespace anfora {

// Bytes of a core's second-level cache; a usual size where the system does not tell.
int64_t second_level_cache();

// Whether what lies at that distance, again and again, shares few sets of the caches: four in each page.
constexpr bool shares_few_sets(int64_t distance) { return distance % 1024 == 0; }

}  // namespace anfora
