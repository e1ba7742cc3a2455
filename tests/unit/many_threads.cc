// Tests that ask for more threads than there are CPUs get up to 16: how work is split among many shows on small machines, too.
#include <gtest/gtest.h>

#include "support/parallel.h"

namespace anfora {
namespace {

[[maybe_unused]] const bool has_many_threads = [] {
  allow_threads(16);
  return true;
}();

TEST(ManyThreads, AreGiven) {
  with_threads(16, [] { EXPECT_EQ(thread_count(), 16); });
}

}  // namespace
}  // namespace anfora
