// How threads share the strips of a convolution.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/generated/strip.h"

namespace anfora::kernels::generated {
namespace {

int64_t rows_of_panels(const StripPieces& pieces, const StripWork& work, int64_t piece) {
  int64_t rows = 0;
  pieces.for_each_segment(piece, [&](int64_t, int64_t block, int64_t begin, int64_t end) { rows += work.panels_of(block) * (end - begin); });
  return rows;
}

// Of each thread: that of its pieces together, which follow each other.
std::vector<int64_t> shares(const StripPieces& pieces, const StripWork& work, int64_t threads) {
  std::vector<int64_t> result(static_cast<size_t>(threads));
  for (int64_t i = 0; i < pieces.count(); ++i) result[static_cast<size_t>(i * threads / pieces.count())] += rows_of_panels(pieces, work, i);
  return result;
}

constexpr int64_t kMuch = 1 << 24;

TEST(StripPieces, CoverEachRowOnce) {
  for (const int64_t threads : {1, 2, 3, 8, 64}) {
    for (const int64_t panels : {1, 2, 5, 9, 30}) {
      for (const int64_t at_once : {1, 2, 4}) {
        for (const int64_t rows : {1, 7, 28, 112}) {
          for (const int64_t images : {1, 3}) {
            const StripWork work{images, panels, at_once, rows, kMuch, 2};
            const StripPieces pieces(work, threads);
            std::map<std::pair<int64_t, int64_t>, int64_t> done;  // rows of each block of each image
            for (int64_t i = 0; i < pieces.count(); ++i) {
              pieces.for_each_segment(i, [&](int64_t image, int64_t block, int64_t begin, int64_t end) {
                EXPECT_EQ(begin, (done[{image, block}]));
                EXPECT_LT(begin, end);
                done[{image, block}] = end;
              });
            }
            EXPECT_EQ(std::ssize(done), images * ceil_div(panels, at_once));
            EXPECT_TRUE(std::ranges::all_of(done, [&](const auto& block) { return block.second == rows; }));
          }
        }
      }
    }
  }
}

TEST(StripPieces, AreSharedAlike) {
  for (const int64_t threads : {2, 3, 8}) {
    for (const int64_t panels : {3, 5, 9, 15}) {
      const StripWork work{.images = 1, .panels = panels, .panels_at_once = 2, .rows = 28, .row_cost = kMuch, .cut_rows = 2};
      const auto of_threads = shares(StripPieces(work, threads), work, threads);
      const int64_t most_moved = 2 * (work.cut_rows + 1) * work.panels_at_once;  // a block's end may be that far away, at both ends
      EXPECT_LE(std::ranges::max(of_threads), panels * work.rows / threads + most_moved) << threads << " threads, " << panels << " panels";
    }
  }
}

TEST(StripPieces, MeetAtTheEndOfABlockNearby) {
  const StripWork work{.images = 1, .panels = 4, .panels_at_once = 1, .rows = 7, .row_cost = kMuch, .cut_rows = 2};
  const StripPieces pieces(work, 2);
  for (int64_t i = 0; i < pieces.count(); ++i) {
    pieces.for_each_segment(i, [&](int64_t, int64_t, int64_t begin, int64_t end) { EXPECT_EQ(end - begin, work.rows); });
  }
}

TEST(StripPieces, LittleWorkIsOfOneThread) { EXPECT_EQ(StripPieces({.images = 1, .panels = 4, .panels_at_once = 1, .rows = 7, .row_cost = 1000}, 8).count(), 1); }

}  // namespace
}  // namespace anfora::kernels::generated
