#include "support/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace anfora {
namespace {

TEST(Processors, OfQuotas) {
  EXPECT_EQ(processors_of_quota("200000 100000"), 2);
  EXPECT_EQ(processors_of_quota("250000 100000"), 2);  // three threads would stand still for a part of each period
  EXPECT_EQ(processors_of_quota("50000 100000"), 1);
  for (const char* none : {"max 100000", "", "-1 100000", "100000", "1 0"}) EXPECT_EQ(processors_of_quota(none), 0) << none;
}

TEST(Processors, OfTheThreadsAffinity) {
  EXPECT_LE(usable_processors(), allowed_processors());
  EXPECT_GE(usable_processors(), 1);
  std::thread([] {  // whose affinity is its own
    cpu_set_t all, first;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) ++cpu;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    ASSERT_EQ(sched_setaffinity(0, sizeof first, &first), 0);
    EXPECT_EQ(allowed_processors(), 1);
  }).join();
}

}  // namespace
}  // namespace anfora
