// Memory of this process that is resident, weights in mapped files included. Linux tells it in /proc;
// elsewhere these say 0. (getrusage's maximum is not used: it starts with what the parent process had.)
#pragma once

#include <cstdint>

namespace anfora {

int64_t resident_bytes();
// The most since the start or the last reset.
int64_t peak_resident_bytes();
void reset_peak_resident_bytes();

}  // namespace anfora
