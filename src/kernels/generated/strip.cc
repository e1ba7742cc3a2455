#include "kernels/generated/strip.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace anfora::kernels::generated {
namespace {

constexpr int64_t kPiecesOfAShare = 8;

int64_t num_pieces(const StripWork& work, int64_t threads) {
  constexpr int64_t kOfThread = 1 << 16, kOfPiece = 1 << 20;  // multiply-adds: some microseconds, and some ten
  if (threads == 1) return 1;
  const int64_t all = work.images * work.panels * work.rows * work.row_cost, most = std::max<int64_t>(all / kOfThread, 1);
  return most < threads ? most : std::clamp<int64_t>(all / kOfPiece / threads, 1, kPiecesOfAShare) * threads;
}

}  // namespace

StripPieces::StripPieces(const StripWork& work, int64_t threads) : work_(work), ends_(static_cast<size_t>(num_pieces(work, threads))) {
  constexpr int64_t kAnyFar = std::numeric_limits<int64_t>::max();
  const int64_t rows = work.images * work.panels * work.rows;
  const int64_t pieces = count(), of_share = std::max<int64_t>(pieces / threads, 1), rows_of_half = rows * of_share / pieces / 2;
  int64_t last = 0;
  for (int64_t first = 0; first < pieces; first += of_share) {
    const int64_t end = first + of_share == pieces ? rows : std::max(cut(rows * (first + of_share) / pieces, work.cut_rows), last);
    for (int64_t i = 1; i < of_share; ++i) {
      const int64_t at = rows * (first + i) / pieces;
      const int64_t most_rows = i == of_share / 2 ? std::max(work.cut_rows, rows_of_half / 2 / work.panels_at_once) : kAnyFar;
      last = std::clamp(cut(at, most_rows), last, end);
      ends_[static_cast<size_t>(first + i - 1)] = last;
    }
    last = ends_[static_cast<size_t>(first + of_share - 1)] = end;
  }
}

StripPieces::Block StripPieces::block_at(int64_t row) const {
  const int64_t of_image = work_.panels * work_.rows, of_block = work_.panels_at_once * work_.rows;
  const int64_t image = row / of_image, number = row % of_image / of_block, panels = work_.panels_of(number);
  const int64_t begin = image * of_image + number * of_block;
  return {image, number, panels, begin, begin + panels * work_.rows};
}

// The end of a block, where it is not more than so many rows of it away, or else whole rows.
int64_t StripPieces::cut(int64_t at, int64_t most_rows) const {
  const Block block = block_at(at);
  const int64_t nearest = at - block.begin <= block.end - at ? block.begin : block.end;
  if (std::abs(at - nearest) / block.panels <= most_rows) return nearest;
  return block.begin + (at - block.begin + block.panels / 2) / block.panels * block.panels;
}

}  // namespace anfora::kernels::generated
