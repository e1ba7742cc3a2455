// Data parallelism on the one pool of threads, oneTBB's, shared with oneDNN.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace anfora {

// Of the caller: as many as with_threads() gave it, or one a CPU.
int thread_count();

// with_threads() gives up to `most` threads from here on, where there are fewer CPUs, too: for tests of how work is split. Not beside running loops.
void allow_threads(int most);

// The grain of items that cost `cost` each, when `work` of it is worth a thread; at least 1.
inline int64_t grain_of(int64_t work, int64_t cost) { return std::max<int64_t>(work / std::max<int64_t>(cost, 1), 1); }

namespace detail {
using RangeBody = void (*)(void* state, int64_t begin, int64_t end);
void parallel_ranges(int64_t count, int64_t grain, void* state, RangeBody body);
void with_threads(int threads, void* state, void (*body)(void* state));
void isolated(void* state, void (*body)(void* state));
}  // namespace detail

// Calls body(), in which parallel_for() and oneDNN use `threads` threads, the calling one among them; 0: usable_processors().
// An exception is rethrown here.
template <class Body>
void with_threads(int threads, Body&& body) {
  detail::with_threads(threads, &body, [](void* state) { (*static_cast<std::remove_reference_t<Body>*>(state))(); });
}

// Calls body(begin, end) on disjoint ranges that cover [0, count). Ranges are of at least `grain` items;
// below two grains everything runs on the calling thread. An exception in a body is rethrown here.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  detail::parallel_ranges(count, grain, &body, [](void* state, int64_t begin, int64_t end) {
    (*static_cast<std::remove_reference_t<Body>*>(state))(begin, end);
  });
}

// Ahead of a call that runs on oneTBB's threads by itself, as oneDNN does: those that wait for the caller's next loop go there.
void lend_threads();

// Calls body(), for a caller that holds a lock: waiting for other threads of its own loops, it takes up no work but theirs. An exception
// is rethrown here.
template <class Body>
void isolated(Body&& body) {
  detail::isolated(&body, [](void* state) { (*static_cast<std::remove_reference_t<Body>*>(state))(); });
}

}  // namespace anfora
