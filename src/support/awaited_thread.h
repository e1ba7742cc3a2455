// Which CPU a thread is on, where another thread waits for it.
#pragma once

#include <sched.h>

#include <atomic>
#include <ctime>
#include <mutex>

namespace anfora {

// Has the system move the calling thread off the CPU, if it is on it and may be on another.
void leave_processor(int processor);

// The place of a thread that another one may wait for. The system may have taken the CPU away from it, for some milliseconds, for another
// process; the thread that waits has no use for its own CPU then, and gives it.
class AwaitedThread {
 public:
  // The calling thread is there as long as this lives, unless another one is. Where it was moved, it may be on all CPUs again that it could
  // be on before.
  class Scope {
   public:
    explicit Scope(AwaitedThread& place) : place_(place.come() ? &place : nullptr) {}
    ~Scope() {
      if (place_) place_->go();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    AwaitedThread* place_;
  };

  // Moves the thread that is there to the caller's CPU if it has none, and may be on that. The caller is to sleep if it was moved (true).
  bool move_here();

 private:
  bool come();
  void go();
  bool has_processor() const;

  std::mutex mutex_;
  std::atomic<pid_t> thread_{0};  // 0: nobody is there
  clockid_t clock_{};             // the thread's time on CPUs
  bool is_moved_ = false;
  cpu_set_t allowed_{};  // ahead of that
};

}  // namespace anfora
