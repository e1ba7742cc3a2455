// Hashing: a fast 64-bit hash of bytes for tables, a 128-bit one where equality of hash stands for equality of content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace anfora {

inline uint64_t hash_mix(uint64_t h) {  // MurmurHash3's finalizer
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ull;
  return h ^ (h >> 33);
}
inline uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return hash_mix(seed * 0x9e3779b97f4a7c15ull + value + 0x2545f4914f6cdd1dull);
}
template <class T>
uint64_t hash_pointer(const T* pointer) {
  return hash_mix(reinterpret_cast<uintptr_t>(pointer));
}

// XXH3.
uint64_t hash_bytes(const void* data, size_t size);

struct ContentHash {
  uint64_t low = 0, high = 0;
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
};
ContentHash content_hash(const void* data, size_t size);
std::string to_string(const ContentHash& hash);  // 32 hexadecimal digits

}  // namespace anfora
