// Loops that a team of threads shares.
#include "support/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/parallel.h"

namespace anfora {
namespace {

constexpr int kThreads = 4;

// A loop comes to each item once.
void expect_each_item_once(int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  });
  for (const std::atomic<int>& times : seen) ASSERT_EQ(times.load(), 1);
}

TEST(Team, ComputesEachItemOnce) {
  with_threads(kThreads, [] {
    for (int64_t round = 0; round < 2000; ++round) expect_each_item_once(round % 97, 1 + round % 5);
  });
}

// Helpers leave for other work, or because they have waited for long, and come back.
TEST(Team, GoesOnAfterAPause) {
  with_threads(kThreads, [] {
    for (int64_t round = 0; round < 200; ++round) {
      expect_each_item_once(50, 1);
      if (round % 2 == 0) lend_threads();
      if (round % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
}

TEST(Team, WaitsForALateHelper) {
  with_threads(kThreads, [] {
    std::atomic<int> done = 0;
    parallel_for(2 * kThreads, 1, [&](int64_t begin, int64_t end) {
      if (begin > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      done.fetch_add(static_cast<int>(end - begin));
    });
    EXPECT_EQ(done.load(), 2 * kThreads);
  });
}

// Each of two ranges waits until the other has begun, which takes two threads.
void expect_two_threads() {
  std::atomic<int> begun = 0;
  parallel_for(2, 1, [&](int64_t, int64_t) {
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (++begun; begun.load() < 2 && std::chrono::steady_clock::now() < latest;) std::this_thread::yield();
    EXPECT_EQ(begun.load(), 2);
  });
}

TEST(Team, HasHelpersWhereScopesNest) {
  with_threads(2, [] {
    expect_two_threads();
    with_threads(2, [] { expect_two_threads(); });
    with_threads(3, [] { expect_two_threads(); });
    expect_two_threads();
  });
}

TEST(Team, RethrowsAnExceptionAndGoesOn) {
  with_threads(kThreads, [] {
    for (int64_t round = 0; round < 100; ++round) {
      EXPECT_THROW(parallel_for(40, 1, [&](int64_t begin, int64_t) {
        if (begin % 3 == round % 3) throw std::out_of_range("of a body");
      }), std::out_of_range);
      expect_each_item_once(40, 1);
    }
  });
}

TEST(Team, RunsNestedLoopsOnTheThreadThatMeetsThem) {
  with_threads(kThreads, [] {
    std::atomic<int64_t> sum = 0;
    parallel_for(20, 1, [&](int64_t begin, int64_t end) {
      const std::thread::id outer = std::this_thread::get_id();
      for (int64_t i = begin; i < end; ++i) {
        parallel_for(10, 1, [&](int64_t first, int64_t last) {
          EXPECT_EQ(std::this_thread::get_id(), outer);
          sum += last - first;
        });
      }
    });
    EXPECT_EQ(sum.load(), 200);
  });
}

TEST(Team, HasNoMoreThreadsThanItsCallerMayUse) {
  with_threads(kThreads, [] {
    expect_each_item_once(100, 1);
    with_threads(2, [] {
      std::atomic<int> now = 0, most = 0;
      for (int round = 0; round < 200; ++round) {
        parallel_for(32, 1, [&](int64_t, int64_t) {
          const int running = ++now;
          int before = most.load();
          while (before < running && !most.compare_exchange_weak(before, running)) continue;
          --now;
        });
      }
      EXPECT_LE(most.load(), 2);
    });
    expect_each_item_once(100, 1);
  });
}

TEST(Team, SharesThePoolWithOtherCallers) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 2 * kThreads; ++caller) {
    callers.emplace_back([caller] {
      for (int run = 0; run < 20; ++run) {
        with_threads(2 + caller % 3, [] {
          for (int64_t round = 0; round < 20; ++round) expect_each_item_once(64, 1);
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace anfora
