#include "support/awaited_thread.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "support/processors.h"

namespace anfora {
namespace {

// Some sandboxes forbid it; nobody is moved there.
bool threads_may_be_moved() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && sched_setaffinity(0, sizeof allowed, &allowed) == 0;
}

TEST(AwaitedThread, NobodyIsThere) {
  AwaitedThread place;
  EXPECT_FALSE(place.move_here());
}

// A thread that sleeps has no CPU, as one that another process has put off it.
TEST(AwaitedThread, IsMovedAndMayGoOnAnywhere) {
  if (!threads_may_be_moved()) GTEST_SKIP() << "the system lets no thread choose its processors";
  AwaitedThread place;
  std::atomic<bool> is_there = false, may_go = false;
  std::thread late([&] {
    const int before = allowed_processors();
    {
      const AwaitedThread::Scope scope(place);
      is_there = true;
      is_there.notify_one();
      may_go.wait(false);
      EXPECT_EQ(allowed_processors(), 1);
    }
    EXPECT_EQ(allowed_processors(), before);
  });
  is_there.wait(false);
  while (!place.move_here()) std::this_thread::yield();  // as soon as it sleeps
  EXPECT_FALSE(place.move_here());                       // it was moved already
  may_go = true;
  may_go.notify_one();
  late.join();
  EXPECT_FALSE(place.move_here());
}

TEST(AwaitedThread, StaysWhereAnotherOneComesToo) {
  if (!threads_may_be_moved()) GTEST_SKIP() << "the system lets no thread choose its processors";
  const int before = allowed_processors();
  AwaitedThread place;
  {
    const AwaitedThread::Scope first(place);
    { const AwaitedThread::Scope second(place); }
    std::thread([&] {
      while (!place.move_here()) std::this_thread::yield();
    }).join();
  }
  EXPECT_EQ(allowed_processors(), before);
}

}  // namespace
}  // namespace anfora
