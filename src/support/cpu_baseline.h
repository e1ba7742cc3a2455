// The instruction set that the compiler was told to use everywhere (ANFORA_ARCH), against that of the CPU at hand.
#pragma once

namespace anfora {

// Ends the process with one message where the CPU lacks the baseline; the first illegal instruction would without one.
// Whoever links this runs it ahead of all other initialization.
void check_cpu_baseline();

}  // namespace anfora
