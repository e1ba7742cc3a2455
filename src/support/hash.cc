#include "support/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace anfora {

uint64_t hash_bytes(const void* data, size_t size) { return XXH3_64bits(data, size); }

ContentHash content_hash(const void* data, size_t size) {
  XXH128_hash_t h = XXH3_128bits(data, size);
  return {h.low64, h.high64};
}

std::string to_string(const ContentHash& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

}  // namespace anfora
