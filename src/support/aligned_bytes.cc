#include "support/aligned_bytes.h"

#include <cstdlib>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace anfora {
namespace {

constexpr size_t kCacheLine = 64;  // also the widest vector register
// From this size on a huge page fits. What lies before an aligned address is not touched.
constexpr size_t kLarge = kHugePage;
// What of the last huge page may be taken in vain: the small pages in its place would be hundreds, and take a microsecond or two each.
constexpr size_t kMostUnused = kHugePage / 4;

}  // namespace

void FreeBytes::operator()(std::byte* memory) const { std::free(memory); }

AlignedBytes allocate_bytes(size_t bytes) {
  void* memory = nullptr;
  if (bytes >= kLarge && -bytes % kHugePage <= kMostUnused) bytes += -bytes % kHugePage;
  if (posix_memalign(&memory, bytes >= kLarge ? kHugePage : kCacheLine, bytes == 0 ? 1 : bytes) != 0) return nullptr;
#ifdef __linux__
  // Only whole pages, so that no memory is taken past the end. Where there are no huge pages this does nothing.
  if (bytes >= kLarge) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return AlignedBytes(static_cast<std::byte*>(memory));
}

}  // namespace anfora
