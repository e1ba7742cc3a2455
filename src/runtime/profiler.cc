#include "runtime/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "support/atomic_file.h"
#include "support/thread_time.h"

namespace anfora::runtime {
namespace {

std::string json_string(std::string_view text) {  // names come from models and need not be UTF-8
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string describe(const Datum& datum) {
  switch (datum.kind()) {
    case Datum::Kind::None: return "none";
    case Datum::Kind::Tensor: {
      const Tensor& t = datum.tensor();
      return fmt::format("{}[{}]", name(t.dtype()), t.rank() == 0 ? "" : to_string(t.shape()));
    }
    case Datum::Kind::Sequence: return fmt::format("sequence of {}", datum.items().size());
    case Datum::Kind::Tuple: return fmt::format("tuple of {}", datum.items().size());
    case Datum::Kind::Map: return "map";
    case Datum::Kind::Function: return "function";
  }
  return "";
}

std::string describe_all(std::span<const Datum* const> data) {
  std::string text;
  for (const Datum* datum : data) text += (text.empty() ? "" : ", ") + describe(*datum);
  return text;
}

Profiler::Clock::time_point Profiler::now() const {
  return time_ == Time::Elapsed ? Clock::now() : Clock::time_point(std::chrono::nanoseconds(thread_nanoseconds()));
}

double OperandType::bytes() const {
  if (dtype == DType::Undefined || dtype == DType::String) return 0;
  return static_cast<double>(element_count(shape)) * static_cast<double>(element_bytes(dtype));
}

namespace {

std::vector<OperandType> types_of(std::span<const Datum* const> data) {
  std::vector<OperandType> types;
  for (const Datum* datum : data) {
    OperandType& type = types.emplace_back();
    if (datum->is_tensor()) type = {datum->tensor().dtype(), datum->tensor().shape()};
  }
  return types;
}

}  // namespace

Profiler::Inputs::Inputs(std::span<const Datum* const> inputs) : text(describe_all(inputs)), types(types_of(inputs)) {}

void Profiler::kernel_ran(const Kernel& kernel, const Origin& origin, Clock::time_point begin, Inputs inputs,
                          std::span<const Datum> outputs) {
  Clock::time_point end = now();
  std::vector<const Datum*> written;
  for (const Datum& datum : outputs) written.push_back(&datum);
  kernels_.push_back({&kernel, &origin, begin, end, std::move(inputs.text), describe_all(written), {}});
  if (count_) kernels_.back().work = count_(kernel, inputs.types, types_of(written));
}

void Profiler::Total::add(const Total& other) {
  calls += other.calls;
  milliseconds += other.milliseconds;
  work.flops = work.flops && other.work.flops ? std::optional(*work.flops + *other.work.flops) : std::nullopt;
  work.bytes += other.work.bytes;
  least_milliseconds += other.least_milliseconds;
}

Profiler::Total Profiler::total_of(const KernelEvent& event) const {
  Total total;
  total.calls = 1;
  total.milliseconds = std::chrono::duration<double, std::milli>(event.end - event.begin).count();
  if (!count_) return total;
  total.work = event.work;
  total.least_milliseconds = 1e3 * roofline_.least_seconds(event.work.flops.value_or(0), event.work.bytes);
  return total;
}

std::vector<Profiler::Total> Profiler::totals() const {
  std::map<std::pair<std::string_view, std::string_view>, Total> by_op;
  for (const KernelEvent& event : kernels_) {
    by_op[{event.kernel->op, event.kernel->implementation}].add(total_of(event));
  }
  std::vector<Total> totals;
  for (auto& [key, total] : by_op) {
    total.op = key.first;
    total.implementation = key.second;
    totals.push_back(std::move(total));
  }
  std::ranges::stable_sort(totals, std::ranges::greater(), &Total::milliseconds);
  return totals;
}

std::vector<Profiler::Total> Profiler::totals_by_node() const {
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, Total> by_node;
  for (const KernelEvent& event : kernels_) {
    Total& total = by_node[{event.origin->location, event.origin->node, event.kernel->op}];
    if (total.calls == 0) {
      total.op = event.kernel->op;
      total.implementation = event.kernel->implementation;
      total.node = event.origin->location.empty() ? event.origin->node : event.origin->location;
    }
    total.add(total_of(event));
  }
  std::vector<Total> totals;
  for (auto& [key, total] : by_node) totals.push_back(std::move(total));
  std::ranges::stable_sort(totals, std::ranges::greater(), &Total::milliseconds);
  return totals;
}

double Profiler::milliseconds() const {
  Clock::time_point first = Clock::time_point::max(), last = Clock::time_point::min();
  for (const CallEvent& event : calls_) first = std::min(first, event.at), last = std::max(last, event.at);
  for (const KernelEvent& event : kernels_) first = std::min(first, event.begin), last = std::max(last, event.end);
  return last < first ? 0 : std::chrono::duration<double, std::milli>(last - first).count();
}

void Profiler::write_trace(const std::string& path) const {
  AtomicFile file(path);
  // Perfetto nests B/E pairs by time; everything runs on the machine's one thread, kernels use the others inside.
  file.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  file.write(R"({"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"machine"}})");
  for (const CallEvent& event : calls_) {
    if (event.function) {
      file.write(
          fmt::format(",\n"
                      R"({{"name":{},"cat":"function","ph":"B","ts":{:.3f},"pid":1,"tid":1}})",
                      json_string("@" + event.function->name), microseconds(event.at)));
    } else {
      file.write(
          fmt::format(",\n"
                      R"({{"ph":"E","ts":{:.3f},"pid":1,"tid":1}})",
                      microseconds(event.at)));
    }
  }
  for (const KernelEvent& event : kernels_) {
    double begin = microseconds(event.begin);
    std::string work;
    if (count_) {
      const Total total = total_of(event);
      work += fmt::format(R"(,"bytes":{:.0f})", total.work.bytes);
      if (total.work.flops) work += fmt::format(R"(,"flops":{:.0f})", *total.work.flops);
      if (total.has_share()) work += fmt::format(R"(,"share_of_roofline":{:.4f})", total.share());
    }
    file.write(
        fmt::format(",\n"
                    R"({{"name":{},"cat":"kernel","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":1,"tid":1,"args":{{)"
                    R"("node":{},"location":{},"implementation":{},"inputs":{},"outputs":{}{}}}}})",
                    json_string(event.kernel->op), begin, microseconds(event.end) - begin,
                    json_string(event.origin->node), json_string(event.origin->location),
                    json_string(event.kernel->implementation), json_string(event.inputs), json_string(event.outputs),
                    work));
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace anfora::runtime
