#include "runtime/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "support/atomic_file.h"

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
  if (time_ == Time::Elapsed) return Clock::now();
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Clock::time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

void Profiler::kernel_ran(const Kernel& kernel, const Origin& origin, Clock::time_point begin, std::string inputs,
                          std::span<const Datum> outputs) {
  Clock::time_point end = now();
  std::vector<const Datum*> written;
  for (const Datum& datum : outputs) written.push_back(&datum);
  kernels_.push_back({&kernel, &origin, begin, end, std::move(inputs), describe_all(written)});
}

std::vector<Profiler::Total> Profiler::totals() const {
  std::map<std::pair<std::string_view, std::string_view>, Total> by_op;
  for (const KernelEvent& event : kernels_) {
    Total& total = by_op[{event.kernel->op, event.kernel->implementation}];
    ++total.calls;
    total.milliseconds += std::chrono::duration<double, std::milli>(event.end - event.begin).count();
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
    if (total.calls++ == 0) {
      total.op = event.kernel->op;
      total.implementation = event.kernel->implementation;
      total.node = event.origin->location.empty() ? event.origin->node : event.origin->location;
    }
    total.milliseconds += std::chrono::duration<double, std::milli>(event.end - event.begin).count();
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
    file.write(
        fmt::format(",\n"
                    R"({{"name":{},"cat":"kernel","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":1,"tid":1,"args":{{)"
                    R"("node":{},"location":{},"implementation":{},"inputs":{},"outputs":{}}}}})",
                    json_string(event.kernel->op), begin, microseconds(event.end) - begin,
                    json_string(event.origin->node), json_string(event.origin->location),
                    json_string(event.kernel->implementation), json_string(event.inputs), json_string(event.outputs)));
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace anfora::runtime
