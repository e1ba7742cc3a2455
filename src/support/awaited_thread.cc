#include "support/awaited_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace anfora {

void leave_processor(int processor) {
  if (sched_getcpu() != processor || processor < 0 || processor >= CPU_SETSIZE) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<size_t>(processor), &others);
  if (CPU_COUNT(&others) == 0) return;
  sched_setaffinity(0, sizeof others, &others);
  sched_setaffinity(0, sizeof allowed, &allowed);
}

bool AwaitedThread::come() {
  static thread_local const pid_t self = gettid();
  std::lock_guard lock(mutex_);
  if (thread_.load(std::memory_order_relaxed) != 0 || pthread_getcpuclockid(pthread_self(), &clock_) != 0) return false;
  thread_.store(self, std::memory_order_relaxed);
  return true;
}

void AwaitedThread::go() {
  std::lock_guard lock(mutex_);
  thread_.store(0, std::memory_order_relaxed);
  if (std::exchange(is_moved_, false)) sched_setaffinity(0, sizeof allowed_, &allowed_);
}

bool AwaitedThread::move_here() {
  if (thread_.load(std::memory_order_relaxed) == 0) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);  // the thread may have been put off while it holds it
  const pid_t thread = thread_.load(std::memory_order_relaxed);
  if (!lock || thread == 0 || is_moved_ || has_processor()) return false;
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(thread, sizeof allowed_, &allowed_) != 0) return false;
  if (!CPU_ISSET(static_cast<size_t>(here), &allowed_)) return false;
  cpu_set_t only_here;
  CPU_ZERO(&only_here);
  CPU_SET(static_cast<size_t>(here), &only_here);
  return is_moved_ = sched_setaffinity(thread, sizeof only_here, &only_here) == 0;
}

// Its time goes on while it has one.
bool AwaitedThread::has_processor() const {
  timespec before, after;
  if (clock_gettime(clock_, &before) != 0) return true;
  for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
  return clock_gettime(clock_, &after) != 0 || before.tv_sec != after.tv_sec || before.tv_nsec != after.tv_nsec;
}

}  // namespace anfora
