#include "codegen/roofline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "codegen/loop_ir.h"
#include "codegen/machine_code.h"
#include "kernels/generated/machine_code.h"
#include "support/aligned_bytes.h"
#include "support/parallel.h"

namespace anfora::codegen {
namespace {

namespace generated = kernels::generated;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Registers of a tile that carries sums; the others hold operands.
int registers_of_sums(const IsaDescription& isa) { return isa.registers - 4; }

// What all threads run at once.
struct RateCode {
  generated::MachineCode code;
  std::shared_ptr<const generated::ExecutableCode> mapped;

  explicit RateCode(const Function& function, Isa isa)
      : code(compile({&function, 1}, isa)), mapped(generated::ExecutableCode::map(code)) {}
  void operator()(const int64_t* arguments) const { mapped->entry(code.entries[0])(arguments); }
};

RateCode code_of_reads(const IsaDescription& isa) {
  Builder b("reads");
  const Value memory = b.parameter("memory", Element::Pointer), count = b.parameter("count", Element::Index);
  const Value sums = b.parameter("sums", Element::Pointer), row = b.integer(isa.lanes);
  const Type type{Element::F32, registers_of_sums(isa), 1, isa.lanes};
  const Value size = b.integer(int64_t{registers_of_sums(isa)} * isa.lanes);
  const auto results = b.loop(0, count, 1, std::array{type}, std::array{b.load(type, sums, row)},
                              [&](Value tile, std::span<const Value> sum) {
                                const Value at = b.offset(memory, b.multiply(tile, size));
                                return std::vector{b.add(sum[0], b.load(type, at, row))};
                              });
  b.store(sums, row, results[0]);
  return RateCode(b.finish(), isa.isa);
}

// Of all registers of sums, and no register is larger than 64 bytes.
struct alignas(64) Sums {
  float numbers[32 * 16] = {};
};

// Of one run whose parts begin together. Where other processes hold the processors for long, a thread does not wait for the others any more,
// and perhaps runs their parts itself: then false.
std::pair<double, bool> seconds_of_run(const RateLoop& loop) {
  constexpr auto kLongestWait = std::chrono::milliseconds(5);
  std::atomic<int> arrived = 0;
  std::atomic<bool> all_at_once = true;
  std::vector<Clock::time_point> begins(static_cast<size_t>(loop.threads)), ends(begins);
  const Clock::time_point latest = Clock::now() + kLongestWait;
  parallel_for(loop.threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ++arrived;
      while (arrived < loop.threads && Clock::now() < latest) {
      }
      if (arrived < loop.threads) all_at_once = false;
      begins[static_cast<size_t>(i)] = Clock::now();
      loop.part(i);
      ends[static_cast<size_t>(i)] = Clock::now();
    }
  });
  return {Seconds(*std::ranges::max_element(ends) - *std::ranges::min_element(begins)).count(), all_at_once};
}

// The best rate of several runs, as other processes disturb some, within a time. One run comes first, for the caches. `all_at_once`
// becomes false where no run was so.
double rate_of(const RateLoop& loop, double seconds, bool& all_at_once) {
  loop.run();
  const Clock::time_point begin = Clock::now();
  auto [least, once] = seconds_of_run(loop);
  while (Seconds(Clock::now() - begin).count() < seconds) {
    const auto [taken, at_once] = seconds_of_run(loop);
    least = std::min(least, taken);
    once = once || at_once;
  }
  all_at_once = all_at_once && once;
  return loop.amount / least;
}

}  // namespace

void RateLoop::run() const {
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) part(i);
  });
}

RateLoop multiply_adds() {
  const IsaDescription& isa = generated::describe(generated::best_isa());
  constexpr int64_t kSteps = 100'000;
  const int chains = registers_of_sums(isa);
  Builder b("peak");
  const Value memory = b.parameter("memory", Element::Pointer), row = b.integer(isa.lanes);
  const Value x = b.load({Element::F32, 1, 1, isa.lanes}, memory, b.integer(0));
  const Type type{Element::F32, chains, 1, isa.lanes};
  const auto sums = b.loop(0, b.integer(kSteps), 1, std::array{type}, std::array{b.load(type, memory, row)},
                           [&](Value, std::span<const Value> sum) {
                             return std::vector{isa.has_fma ? b.fma(x, x, sum[0]) : b.add(b.multiply(x, x), sum[0])};
                           });
  b.store(memory, row, sums[0]);
  auto code = std::make_shared<RateCode>(b.finish(), isa.isa);
  const int threads = thread_count();
  return {threads,
          [=](int64_t) {
            Sums sums;
            const int64_t argument = generated::address_of(&sums);
            (*code)(&argument);
          },
          2.0 * chains * isa.lanes * kSteps * threads};
}

RateLoop reads(double bytes) {
  // Of a thread and run, so that starting the threads does not count.
  constexpr int64_t kLeastBytes = int64_t{4} << 20;
  const IsaDescription& isa = generated::describe(generated::best_isa());
  static const RateCode code = code_of_reads(isa);
  const int64_t tile_bytes = int64_t{registers_of_sums(isa)} * isa.lanes * 4;
  const int threads = thread_count();
  const int64_t tiles = std::max<int64_t>(static_cast<int64_t>(bytes) / threads / tile_bytes, 1);
  const int64_t part = tiles * tile_bytes, rounds = std::max<int64_t>(kLeastBytes / part, 1);
  const std::shared_ptr<std::byte> memory = allocate_bytes(static_cast<size_t>(part * threads));
  if (!memory) throw std::bad_alloc();
  // Written once: untouched pages would all be the one page of zeros.
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    std::fill(memory.get() + begin * part, memory.get() + end * part, std::byte{0});
  });
  return {threads,
          [=](int64_t thread) {
            Sums sums;
            const int64_t arguments[] = {generated::address_of(memory.get() + thread * part), tiles,
                                         generated::address_of(&sums)};
            for (int64_t round = 0; round < rounds; ++round) code(arguments);
          },
          static_cast<double>(part * threads * rounds)};
}

MeasuredRoofline measure_roofline() {
  constexpr double kSecondsForPeak = 0.03, kSecondsForReading = 0.01;
  // From a first cache to memory that no cache holds.
  constexpr double kSmallest = 16 << 10, kLargest = 64 << 20, kStep = 4;
  MeasuredRoofline measured;
  kernels::Roofline& roofline = measured.roofline;
  roofline.flops_per_second = rate_of(multiply_adds(), kSecondsForPeak, measured.all_ran_at_once);
  for (double bytes = kSmallest; bytes <= kLargest; bytes *= kStep) {
    roofline.readings.push_back({bytes, rate_of(reads(bytes), kSecondsForReading, measured.all_ran_at_once)});
  }
  // A larger working set is not read faster: where it seems so, others have disturbed the measurement of the smaller one.
  for (size_t i = roofline.readings.size() - 1; i-- > 0;) {
    double& rate = roofline.readings[i].bytes_per_second;
    rate = std::max(rate, roofline.readings[i + 1].bytes_per_second);
  }
  return measured;
}

}  // namespace anfora::codegen
