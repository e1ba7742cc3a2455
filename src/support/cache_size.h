// Sizes of the processor's caches.
#pragma once

#include <cstdint>

namespace anfora {

// Bytes of a core's second-level cache; a usual size where the system does not tell.
int64_t second_level_cache();

}  // namespace anfora
