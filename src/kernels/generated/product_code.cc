#include "kernels/generated/product_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>

namespace anfora::kernels::generated {
namespace {

constexpr std::string_view kTiledProduct = "generated:product:";

std::string name_of_tile(const Tile& tile) { return fmt::format("{}{}x{}", kTiledProduct, tile.rows, tile.vectors); }

}  // namespace

// With two loads a cycle, a tile keeps the multipliers busy when it has about twice as many sums as it reads elements of A and
// vectors of B. Eight rows at most fit into one set of the first-level cache, however far they lie apart.
std::span<const Tile> product_tiles(Isa isa) {
  static constexpr Tile kSse2[] = {{4, 2}, {2, 4}};  // a product takes a register of its own before it is added
  static constexpr Tile kAvx2[] = {{6, 2}, {4, 3}, {12, 1}};  // 12 sums, the vectors of the panel, 1 element of A
  static constexpr Tile kAvx512[] = {{8, 3}, {6, 4}, {12, 2}, {12, 1}};
  constexpr auto fits = [](const Tile& tile) { return tile.rows <= kMostTileRows; };
  static_assert(std::ranges::all_of(kSse2, fits) && std::ranges::all_of(kAvx2, fits) && std::ranges::all_of(kAvx512, fits));
  switch (isa) {
    case Isa::Sse2: return kSse2;
    case Isa::Avx2: return kAvx2;
    case Isa::Avx512: return kAvx512;
  }
  return {};
}

// Where the columns are no multiple of a panel's, or the rows of a tile's, another tile computes fewer that nobody needs, or has more sums in flight.
Tile product_tile(Isa isa, int64_t columns, int64_t panels_at_once, int most_vectors, int64_t rows) {
  const std::span<const Tile> tiles = product_tiles(isa);
  if (isa == Isa::Sse2) return tiles[0];
  auto time_of = [&](const Tile& tile) {
    constexpr int64_t kSumsInFlight = 8;
    const int64_t width = panels_at_once * tile.vectors * describe(isa).lanes, panels = (columns + width - 1) / width;
    if (rows == 0) return panels * width * kSumsInFlight;
    const Tiling tiling(rows, tile);
    const int64_t few = tiling.count - tiling.wide;
    auto of_tile = [&](int64_t of_rows) { return std::max(of_rows * tile.vectors, kSumsInFlight); };
    return panels * panels_at_once * describe(isa).lanes * (tiling.wide * of_tile(tiling.rows + 1) + few * of_tile(tiling.rows)) * kSumsInFlight / rows;
  };
  const auto is_narrow = [&](const Tile& tile) { return tile.vectors <= most_vectors; };
  auto narrow = tiles | std::views::filter(is_narrow);
  return *std::ranges::min_element(narrow, [&](const Tile& a, const Tile& b) {
    constexpr int64_t kWorthOf = 16;  // by how much the first may take more
    return time_of(a) + time_of(a) / kWorthOf < time_of(b);
  });
}

std::optional<Tile> tile_named(std::string_view implementation) {
  for (const IsaDescription& isa : instruction_sets()) {
    for (const Tile& tile : product_tiles(isa.isa)) {
      if (implementation == name_of_tile(tile)) return tile;
    }
  }
  return std::nullopt;
}

std::span<const std::string> names_of_product_tiles() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all;
    for (const IsaDescription& isa : instruction_sets()) {
      for (const Tile& tile : product_tiles(isa.isa)) all.push_back(name_of_tile(tile));
    }
    return all;
  }());
  return names;
}

std::vector<int> rows_of_many(const Tile& tile) {
  if (tile.rows == 1) return {1};
  return {tile.rows - 1, tile.rows};
}

std::vector<int> rows_up_to(const Tile& tile, int fewest) {
  std::vector<int> all(static_cast<size_t>(tile.rows - fewest + 1));
  std::iota(all.begin(), all.end(), fewest);
  return all;
}

std::vector<int64_t> ProductCode::numbers() const {
  std::vector<int64_t> all{static_cast<int64_t>(isa), static_cast<int64_t>(factors), tile.rows, tile.vectors, int64_t{has_edge}};
  const std::vector<int64_t> of_integers{int64_t{has_blocks()}, int64_t{has_column_zeros}, static_cast<int64_t>(scale),
                                         static_cast<int64_t>(result), int64_t{divides}},
      of_floats = has_open_sizes ? std::vector<int64_t>{int64_t{has_blocks()}, int64_t{has_windows}} : std::vector<int64_t>{depth, block, a_stride}, last = epilogue.numbers();
  const std::vector<int64_t>& own = is_integer() ? of_integers : of_floats;
  all.insert(all.end(), own.begin(), own.end());
  all.insert(all.end(), last.begin(), last.end());
  if (residual) all.push_back(static_cast<int64_t>(*residual));
  if (weights != DType::F32) all.push_back(static_cast<int64_t>(weights));
  if (fetches_ahead) all.push_back(kStepsOfFetch);
  if (forms_weights) all.push_back(1);
  if (has_fixed_stride) all.insert(all.end(), {a_stride, line_steps});
  if (has_half_vectors) all.push_back(lanes());
  if (has_packed_rows) all.push_back(tile.rows * tile.vectors);
  if (has_few_bits()) all.insert(all.end(), {scale_block, int64_t{has_zeros}});
  if (gather) {
    const std::vector<int64_t> of_gather = gather->numbers();
    all.insert(all.end(), of_gather.begin(), of_gather.end());
  }
  return all;
}

bool reads_weights(Isa isa, DType dtype) {
  // What converts f16 came before the rest of AVX2, and is part of x86-64-v3.
  return dtype == DType::F32 || dtype == DType::BF16 || (dtype == DType::F16 && isa != Isa::Sse2) || is_of_few_bits(dtype);
}

bool is_of_few_bits(DType dtype) {
  return dtype == DType::I4 || dtype == DType::U4 || dtype == DType::I8 || dtype == DType::U8;
}

int64_t ProductCode::weight_bytes(int64_t steps) const {
  constexpr int64_t kWord = 4;
  const int64_t element = is_integer() || weights == DType::I4 ? kWord : static_cast<int64_t>(element_bytes(weights));
  return steps / steps_of_word() * panel_columns() * element;
}

ProductCode ProductCode::dequantized() const {
  ProductCode code = *this;
  code.weights = DType::F32, code.scale_block = 0, code.has_zeros = false;
  return code;
}

int64_t product_block(int64_t depth) {
  constexpr int64_t kMost = 1024;
  const int64_t blocks = (depth + kMost - 1) / kMost;
  return (depth + blocks - 1) / blocks;
}

}  // namespace anfora::kernels::generated
