// Records what the machine does, and writes it in Chrome's trace event format, which https://ui.perfetto.dev opens.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/roofline.h"
#include "runtime/program.h"
#include "support/datum.h"

namespace anfora::runtime {

// What a call of a kernel takes and gives.
struct OperandType {
  DType dtype = DType::Undefined;  // Undefined: not a tensor
  Shape shape;

  // As they lie in memory; of strings none.
  double bytes() const;
};

// Of a call of a kernel: floating point operations, where they are known, and bytes that it has to read and write.
struct Work {
  std::optional<double> flops;
  double bytes = 0;
};
using CountWork =
    std::function<Work(const Kernel&, std::span<const OperandType> inputs, std::span<const OperandType> outputs)>;

class Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  // What is measured: the time that passes, or the time for which the calling thread runs, which other processes disturb less.
  enum class Time : uint8_t { Elapsed, OfThread };

  explicit Profiler(Time time = Time::Elapsed) : time_(time) {}
  // Also counts the work of each call, beside what the machine can do.
  Profiler(CountWork count, kernels::Roofline roofline) : count_(std::move(count)), roofline_(std::move(roofline)) {}
  Clock::time_point now() const;

  // Called by the machine.
  // Inputs are described before the kernel runs, which may take them over.
  struct Inputs {
    explicit Inputs(std::span<const Datum* const> inputs);
    std::string text;
    std::vector<OperandType> types;
  };
  void kernel_ran(const Kernel& kernel, const Origin& origin, Clock::time_point begin, Inputs inputs,
                  std::span<const Datum> outputs);
  void function_entered(const Function& function) { calls_.push_back({now(), &function}); }
  void function_left() { calls_.push_back({now(), nullptr}); }

  // Time of kernels, the longest first.
  struct Total {
    std::string op, implementation;
    std::string node;  // of the source, with its location; empty in totals by operator
    size_t calls = 0;
    double milliseconds = 0;
    // Where work is counted.
    Work work{.flops = 0, .bytes = 0};
    double least_milliseconds = 0;  // by the roofline, each call by itself

    void add(const Total& other);
    bool has_share() const { return work.flops && milliseconds > 0; }
    double share() const { return least_milliseconds / milliseconds; }  // of the roofline
  };
  const kernels::Roofline& roofline() const { return roofline_; }  // where work is counted
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
    Work work;
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
  Total total_of(const KernelEvent& event) const;
  Time time_ = Time::Elapsed;
  CountWork count_;
  kernels::Roofline roofline_;
  Clock::time_point start_ = now();
  std::vector<KernelEvent> kernels_;
  std::vector<CallEvent> calls_;
};

// "f32[2x3]", "seq of 3", "none": for traces and messages.
std::string describe(const Datum& datum);
std::string describe_all(std::span<const Datum* const> data);

}  // namespace anfora::runtime
