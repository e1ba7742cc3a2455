#include "support/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>

namespace anfora {

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int threads) { omp_set_num_threads(std::max(threads, 1)); }

namespace detail {

void parallel_ranges(int64_t count, int64_t grain, void* state, RangeBody body) {
  if (count <= 0) return;
  int64_t pieces = std::min<int64_t>(count / std::max<int64_t>(grain, 1), thread_count());
  if (pieces <= 1 || omp_in_parallel()) return body(state, 0, count);
  std::exception_ptr failure;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(pieces))
  for (int64_t i = 0; i < pieces; ++i) {
    try {
      body(state, count * i / pieces, count * (i + 1) / pieces);
    } catch (...) {
#pragma omp critical(anfora_parallel_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace detail
}  // namespace anfora
