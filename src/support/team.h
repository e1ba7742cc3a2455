// The threads that divide one thread's loops among them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

#include "support/awaited_thread.h"
#include "support/lasting_objects.h"

namespace anfora {

// Those who have work in an arena of threads. Where they are as many, each is best off with a thread of its own.
class Callers {
 public:
  explicit Callers(int threads) : threads_(threads) {}

  // A caller comes, enters the arena as soon as it has a place, and goes.
  void come();
  void enter() { waiting_.fetch_sub(1, std::memory_order_relaxed); }
  void go();

  // Whether helpers are wanted elsewhere.
  bool want_threads() const { return waiting_.load(std::memory_order_relaxed) > 0 || are_many(); }
  // Whether they are, or soon will be: a caller who runs one model after another is away for a moment.
  bool want_threads_soon() const;

 private:
  bool are_many() const { return count_.load(std::memory_order_relaxed) >= threads_; }

  const int threads_;
  std::atomic<int> count_{0}, waiting_{0};
  std::atomic<std::chrono::steady_clock::time_point> last_many_{};
};

// Helpers come from oneTBB's pool, and stay from loop to loop: between two they spin, and after some time without one, or when their thread
// is asked for, go back to it. A thread that waited in oneTBB itself would soon call sched_yield(), by which it loses some milliseconds
// where another process wants its CPU. A helper that the system has put on its caller's CPU, as it does where there are more threads than
// CPUs, leaves it: the two would take turns, and each wait for the other.
//
// Its caller has it, and helpers that come late; then it is another caller's.
class Team {
 public:
  struct Leave {
    void operator()(Team* team) const { team->leave(); }
  };
  using Handle = std::unique_ptr<Team, Leave>;

  using Body = void (*)(void* state, int64_t range);
  static constexpr int64_t kMostRanges = (1 << 16) - 1;

  // Helpers leave, too, where callers want their threads; null: nobody does.
  static Handle take(const Callers* callers);

  // Calls body(state, i) for each i in [0, ranges), at most kMostRanges, on the caller and on up to `threads` - 1 helpers from its arena.
  // A thread takes ranges of its own share in order, then those that are left of others: the same ones in each loop of as many ranges,
  // unless a thread is late. Nobody waits for a helper that has taken none. The first exception of a body is rethrown, and the ranges behind
  // it are skipped. For one thread at a time.
  void run(int64_t threads, int64_t ranges, void* state, Body body);

  // Lets the helpers go.
  void release() { published_.store(kNone, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kNone = 0;
  static constexpr size_t kMostShares = 64;

  // Of a loop: what is left of it. In one word with the loop's number, so that whoever comes late takes no range of another loop.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};
  };

  static LastingObjects<Team>& teams();

  void leave();
  void wait_for_helpers();
  void enlist(int64_t count);
  void help();
  uint32_t help_for_a_while(size_t member, uint32_t last);  // the last loop it has seen
  bool is_wanted() const { return published_.load(std::memory_order_relaxed) != kNone && !(callers_ && callers_->want_threads()); }
  bool take_range(uint32_t loop, size_t member);  // false: there is none
  void finish_range();
  void fail();  // by the current exception
  bool is_done() const { return done_.load(std::memory_order_seq_cst) == ranges_.load(std::memory_order_relaxed); }

  alignas(64) std::atomic<uint32_t> published_{kNone};  // the running or the last loop
  const Callers* callers_ = nullptr;
  std::atomic<void*> state_{nullptr};
  std::atomic<Body> body_{nullptr};
  std::atomic<size_t> shares_in_use_{0};
  std::atomic<int64_t> ranges_{0};
  std::atomic<int> processor_{-1};  // the caller's
  uint32_t loop_ = kNone;           // the caller's last

  alignas(64) std::atomic<int64_t> done_{0};
  std::atomic<int64_t> staff_{0};  // helpers, and those called for
  std::atomic<int64_t> holders_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> has_failed_{false};
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable woken_;

  std::array<Share, kMostShares> shares_;
  std::array<AwaitedThread, kMostShares> helpers_;  // as long as they have ranges of a loop
};

// As long as this lives, the calling thread has work of its own: where it waits in oneTBB, it does not become a helper.
class EngagedThread {
 public:
  EngagedThread();
  ~EngagedThread();
  EngagedThread(const EngagedThread&) = delete;
  EngagedThread& operator=(const EngagedThread&) = delete;

 private:
  bool was_engaged_;
};

}  // namespace anfora
