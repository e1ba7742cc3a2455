// The processor time of a thread.
#pragma once

#include <cstdint>

namespace anfora {

// Nanoseconds that the calling thread has run for. A system call of some 0.3 µs.
int64_t thread_nanoseconds();

}  // namespace anfora
