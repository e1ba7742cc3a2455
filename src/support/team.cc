#include "support/team.h"

#include <sched.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "support/thread_sanitizer.h"

namespace anfora {
namespace {

// Longer than from one layer to the next; a sleeping thread wakes up in five to fifty microseconds.
constexpr std::chrono::microseconds kPatience{50};

thread_local bool is_engaged = false;

// Waits for a moment, as often as patience lasts.
class Patience {
 public:
  bool lasts() {
    constexpr int kPausesBetweenLooks = 32;
    __builtin_ia32_pause();
    if (++pauses_ % kPausesBetweenLooks != 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (pauses_ == kPausesBetweenLooks) began_ = now;
    return now - began_ < kPatience;
  }

 private:
  int pauses_ = 0;
  std::chrono::steady_clock::time_point began_;
};

constexpr uint64_t share_of(uint32_t loop, uint64_t next, uint64_t end) { return uint64_t{loop} << 32 | next << 16 | end; }

}  // namespace

void Callers::come() {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
}

void Callers::go() {
  if (are_many()) last_many_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

bool Callers::want_threads_soon() const {
  constexpr std::chrono::milliseconds kSoon{1};
  return want_threads() || std::chrono::steady_clock::now() - last_many_.load(std::memory_order_relaxed) < kSoon;
}

LastingObjects<Team>& Team::teams() {
  static auto& all = *new LastingObjects<Team>;
  return all;
}

Team::Handle Team::take(const Callers* callers) {
  Handle team(teams().take(1, [] { return std::make_unique<Team>(); }));
  team->holders_.store(1, std::memory_order_relaxed);
  team->callers_ = callers;
  return team;
}

void Team::leave() {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  release();
  teams().give_back(this);
}

EngagedThread::EngagedThread() : was_engaged_(std::exchange(is_engaged, true)) {}
EngagedThread::~EngagedThread() { is_engaged = was_engaged_; }

void Team::run(int64_t threads, int64_t ranges, void* state, Body body) {
  const auto shares = static_cast<size_t>(std::min({threads, ranges, static_cast<int64_t>(kMostShares)}));
  if (++loop_ == kNone) ++loop_;
  done_.store(0, std::memory_order_relaxed);
  has_failed_.store(false, std::memory_order_relaxed);
  state_.store(state, std::memory_order_relaxed);
  body_.store(body, std::memory_order_relaxed);
  ranges_.store(ranges, std::memory_order_relaxed);
  shares_in_use_.store(shares, std::memory_order_relaxed);
  processor_.store(sched_getcpu(), std::memory_order_relaxed);
  for (size_t i = 0; i < shares; ++i) {
    const auto begin = static_cast<uint64_t>(ranges) * i / shares, end = static_cast<uint64_t>(ranges) * (i + 1) / shares;
    shares_[i].left.store(share_of(loop_, begin, end), std::memory_order_relaxed);
  }
  published_.store(loop_, std::memory_order_seq_cst);
  try {
    enlist(std::min(threads, ranges) - 1);
  } catch (...) {
    fail();
  }

  while (take_range(loop_, 0)) continue;
  wait_for_helpers();
  if (has_failed_.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Team::wait_for_helpers() {
  Patience patience;
  while (!is_done()) {
    if (patience.lasts()) continue;
    for (AwaitedThread& helper : helpers_) helper.move_here();
    std::unique_lock lock(mutex_);
    caller_sleeps_.store(true, std::memory_order_seq_cst);
    woken_.wait_for(lock, kPatience, [&] { return is_done(); });
    caller_sleeps_.store(false, std::memory_order_relaxed);
  }
}

void Team::enlist(int64_t count) {
  int64_t staff = staff_.load(std::memory_order_seq_cst);
  if (staff >= count || (callers_ && callers_->want_threads_soon())) return;
  for (; staff < count; ++staff) {
    staff_.fetch_add(1, std::memory_order_relaxed);
    holders_.fetch_add(1, std::memory_order_relaxed);
    happens_before(this);
    try {
      tbb::this_task_arena::enqueue([this] {
        happens_after(this);
        const Handle held(this);
        help();
      });
    } catch (...) {
      staff_.fetch_sub(1, std::memory_order_relaxed);
      leave();
      throw;
    }
  }
}

void Team::help() {
  static std::atomic<size_t> helpers{0};
  thread_local const size_t member = helpers.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool is_free = !is_engaged;
  uint32_t last = kNone;
  for (;;) {
    if (is_free) {
      const EngagedThread engaged;
      last = help_for_a_while(member, last);
    }
    staff_.fetch_sub(1, std::memory_order_seq_cst);
    // The caller may have seen it as one of the staff still.
    const uint32_t loop = published_.load(std::memory_order_seq_cst);
    if (!is_free || loop == last || !is_wanted()) return;
    staff_.fetch_add(1, std::memory_order_relaxed);
  }
}

uint32_t Team::help_for_a_while(size_t member, uint32_t last) {
  for (Patience patience; patience.lasts();) {
    const uint32_t loop = published_.load(std::memory_order_acquire);
    if (!is_wanted()) break;
    if (loop == kNone || loop == last) continue;
    last = loop;
    const AwaitedThread::Scope is_awaited(helpers_[member % kMostShares]);
    do {
      leave_processor(processor_.load(std::memory_order_relaxed));
    } while (take_range(loop, member));
    patience = {};
  }
  return last;
}

bool Team::take_range(uint32_t loop, size_t member) {
  void* const state = state_.load(std::memory_order_relaxed);
  const Body body = body_.load(std::memory_order_relaxed);
  const size_t shares = shares_in_use_.load(std::memory_order_relaxed);
  const size_t own = member == 0 || shares < 2 ? 0 : 1 + (member - 1) % (shares - 1);  // the first one is the caller's
  for (size_t i = 0; i < shares; ++i) {
    std::atomic<uint64_t>& share = shares_[(own + i) % shares].left;
    uint64_t left = share.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t next = left >> 16 & 0xffff, end = left & 0xffff;
      if (left >> 32 != loop || next == end) break;
      if (!share.compare_exchange_weak(left, share_of(loop, next + 1, end), std::memory_order_acq_rel)) continue;
      if (!has_failed_.load(std::memory_order_relaxed)) {
        try {
          body(state, static_cast<int64_t>(next));
        } catch (...) {
          fail();
        }
      }
      finish_range();
      return true;
    }
  }
  return false;
}

void Team::fail() {
  if (!has_failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
}

void Team::finish_range() {
  const int64_t ranges = ranges_.load(std::memory_order_relaxed);
  if (done_.fetch_add(1, std::memory_order_seq_cst) + 1 != ranges || !caller_sleeps_.load(std::memory_order_seq_cst)) return;
  { std::lock_guard lock(mutex_); }
  woken_.notify_one();
}

}  // namespace anfora
