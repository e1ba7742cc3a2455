#include "support/awaited_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/processors.h"

namespace anfora {
namespace {

TEST(AwaitedThread, NobodyIsThere) {
  AwaitedThread place;
  EXPECT_FALSE(place.move_here());
}

// A thread that sleeps has no CPU, as one that another process has put off it.
TEST(AwaitedThread, IsMovedAndMayGoOnAnywhere) {
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
