// Counts what is taken from the heap, by any thread and library but oneDNN: the program has a malloc of its own.
#pragma once

#include <cstddef>
#include <functional>

namespace anfora {

// Calls to malloc, and all that stands for it, while work() runs. The first are printed with their callers.
size_t count_allocations(const std::function<void()>& work);

}  // namespace anfora
