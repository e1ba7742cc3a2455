// The processors that this process may use.
#pragma once

namespace anfora {

// Those that it may run on (its affinity).
int allowed_processors();

// As many threads as can run at a time: the allowed processors, or what a quota of the control groups that the process is in grants (cpu.max,
// cpu.cfs_quota_us), rounded down, where that is less; at least 1. Found once.
int usable_processors();

// A quota as a control group's file has it, "200000 100000" or "max 100000": processors, rounded down, at least 1; 0: none.
int processors_of_quota(const char* text);

}  // namespace anfora
