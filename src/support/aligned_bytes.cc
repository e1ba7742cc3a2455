#include "support/aligned_bytes.h"

#include <cstdlib>

#ifdef __linux__
#include <sys/mman.h>

#include "support/thread_time.h"
#endif

namespace anfora {
namespace {

constexpr size_t kCacheLine = 64;  // also the widest vector register
// From this size on a huge page fits. What lies before an aligned address is not touched.
constexpr size_t kLarge = kHugePage;
// What of the last huge page may be taken in vain: the small pages in its place would be hundreds, and take a microsecond or two each.
constexpr size_t kMostUnused = kHugePage / 4;
// From this size on, how long a huge page takes decides for the others.
constexpr size_t kManyPages = 2 * kHugePage;

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
  auto* const begin = static_cast<std::byte*>(memory);
  if (bytes >= kManyPages) touch_huge_page(begin, begin + bytes);
  return AlignedBytes(begin);
}

void touch_huge_page([[maybe_unused]] std::byte* page, [[maybe_unused]] std::byte* end) {
#ifdef __linux__
  constexpr int64_t kLong = 1'000'000;  // of the thread alone: another one may have taken its processor meanwhile
  const int64_t before = thread_nanoseconds();
  *static_cast<volatile std::byte*>(page) = std::byte{0};
  if (thread_nanoseconds() - before < kLong) return;
  std::byte* const next = page + kHugePage;
  if (next < end) madvise(next, static_cast<size_t>(end - next) / kHugePage * kHugePage, MADV_NOHUGEPAGE);
#endif
}

void let_pages_be_merged([[maybe_unused]] std::byte* memory, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
}

}  // namespace anfora
