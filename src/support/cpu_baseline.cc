// Compiled for any x86-64 CPU (cmake/options.cmake), and therefore without C++ headers: an inline function that this file
// shares with others could be linked in this version for all of them, or in theirs for this one.
#include "support/cpu_baseline.h"

#include <unistd.h>

namespace anfora {
namespace {

constexpr int kExitUnsupported = 4;

// Numbers up to 100 are the implementation's: no initialization of a program comes earlier.
__attribute__((constructor(101))) void check_first() { check_cpu_baseline(); }

}  // namespace

void check_cpu_baseline() {
#ifdef ANFORA_BASELINE
  constexpr char kMessage[] =
      "anfora: error: this build needs a CPU of level " ANFORA_BASELINE
      " (v3: AVX2, FMA, F16C)\n"
      "  hint: compile it for this one: cmake --preset release -DANFORA_ARCH=x86-64\n";
  __builtin_cpu_init();  // its own constructor may come later
  if (__builtin_cpu_supports(ANFORA_BASELINE)) return;
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(kExitUnsupported);
#endif
}

}  // namespace anfora
