#include "support/cache_size.h"

#include <unistd.h>

namespace anfora {

int64_t second_level_cache() {
  static const int64_t bytes = [] {
    constexpr int64_t kUsual = 512 << 10;
    const long known = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return known > 0 ? int64_t{known} : kUsual;
  }();
  return bytes;
}

}  // namespace anfora
