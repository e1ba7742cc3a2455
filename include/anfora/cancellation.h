// Stopping work that is under way.
//
//     anfora::Cancellation stop;                   // another thread or a signal handler calls stop.cancel()
//     anfora::CancellationScope scope(stop);
//     model.optimize();                            // throws anfora::Cancelled soon after
//
// A scope holds for what its thread calls: loading, optimizing, compiling, running, on whichever threads that works. What is
// cancelled leaves no half-written file; an Executable may be run again, a Model that was being optimized is to be dropped.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>

namespace [[gnu::visibility("default")]] anfora {

// Work ended because somebody asked for it. Not an Error: whoever handles what is wrong with a model lets this pass.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

class Cancellation {
 public:
  Cancellation() = default;
  // `poll` is asked every few milliseconds, by the thread of the scope, whether to stop: for a host that must ask, as an
  // interpreter for its signals. What it throws ends the work as well.
  explicit Cancellation(std::function<bool()> poll) : poll_(std::move(poll)) {}
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // From any thread, and from a signal handler.
  void cancel() noexcept { is_cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const noexcept { return is_cancelled_.load(std::memory_order_relaxed); }

  // Throws Cancelled. For the thread of the scope.
  void check() {
    if (poll_) poll();
    if (is_cancelled()) throw Cancelled();
  }

 private:
  void poll();
  std::atomic<bool> is_cancelled_ = false;
  std::function<bool()> poll_;
  std::chrono::steady_clock::time_point polled_ = {};
};

class CancellationScope {
 public:
  explicit CancellationScope(Cancellation& cancellation);
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;

 private:
  Cancellation* outer_;
};

}  // namespace anfora
