#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdio>

#include "cli/command.h"
#include "cli/command_line.h"
#include "support/cpu_baseline.h"

namespace {

constexpr size_t kStack = size_t{1} << 20;  // more than is used without deep recursion

bool has_room_for_stack() {
  constexpr size_t kNeeded = kStack + kStack / 4;
  void* room = mmap(nullptr, kNeeded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return room != MAP_FAILED && munmap(room, kNeeded) == 0;
}

// Where the stack itself is limited to little, it is left alone.
bool may_stack_grow() {
  rlimit limit{};
  return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= 4 * kStack;
}

// The stack grows as it is used; where a limit of memory (ulimit -v) lets it grow no more, the program ends by a signal instead of a message.
// So it grows at once.
[[gnu::noinline]] void grow_stack() {
  constexpr size_t kPage = 4096;
  [[maybe_unused]] volatile std::byte stack[kStack];
  for (size_t i = kStack; i >= kPage; i -= kPage) stack[i - 1] = std::byte{};
}

}  // namespace

int main(int argc, char** argv) {
  anfora::check_cpu_baseline();  // before this, in fact: see there
  if (!has_room_for_stack()) {
    std::fputs("anfora: out of memory\n", stderr);
    return anfora::cli::kBadInput;
  }
  if (may_stack_grow()) grow_stack();
  return anfora::cli::run_command_line(argc, argv);
}
