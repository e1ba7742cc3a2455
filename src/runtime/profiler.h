// Records what the machine does, and writes it in Chrome's trace event format, which https://ui.perfetto.dev opens.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program.h"
#include "support/datum.h"

namespace anfora::runtime {

class Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  // What is measured: the time that passes, or the time for which the calling thread runs, which other processes disturb less.
  enum class Time : uint8_t { Elapsed, OfThread };

  explicit Profiler(Time time = Time::Elapsed) : time_(time) {}
  Clock::time_point now() const;

  // Called by the machine.
  // `inputs` is described before the kernel runs, which may take them over.
  void kernel_ran(const Kernel& kernel, const Origin& origin, Clock::time_point begin, std::string inputs,
                  std::span<const Datum> outputs);
  void function_entered(const Function& function) { calls_.push_back({now(), &function}); }
  void function_left() { calls_.push_back({now(), nullptr}); }

  // Time of kernels, the longest first.
  struct Total {
    std::string op, implementation;
    std::string node;  // of the source, with its location; empty in totals by operator
    size_t calls = 0;
    double milliseconds = 0;
  };
  std::vector<Total> totals() const;          // by operator and implementation
  std::vector<Total> totals_by_node() const;  // by source node: a kernel that stands for several is called after one
  // Of the whole run: from the first call to the end of the last.
  double milliseconds() const;

  // Of one kernel, once.
  struct KernelEvent {
    const Kernel* kernel;
    const Origin* origin;
    Clock::time_point begin, end;
    std::string inputs, outputs;  // "f32[1x64x56x56], f32[64]"
  };
  std::span<const KernelEvent> kernels() const { return kernels_; }  // in the order of time

  // Writes a temporary file and renames it. Throws Io. What was profiled must still exist.
  void write_trace(const std::string& path) const;

 private:
  struct CallEvent {
    Clock::time_point at;
    const Function* function;  // null: the innermost one was left
  };
  double microseconds(Clock::time_point at) const {
    return std::chrono::duration<double, std::micro>(at - start_).count();
  }
  Time time_;
  Clock::time_point start_ = now();
  std::vector<KernelEvent> kernels_;
  std::vector<CallEvent> calls_;
};

// "f32[2x3]", "seq of 3", "none": for traces and messages.
std::string describe(const Datum& datum);
std::string describe_all(std::span<const Datum* const> data);

}  // namespace anfora::runtime
