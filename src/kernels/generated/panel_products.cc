#include "kernels/generated/panel_products.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/generated/fetches.h"
#include "kernels/generated/product_layout.h"
#include "support/cache_size.h"

namespace anfora::kernels::generated {

std::optional<PanelProducts> PanelProducts::prepare(KernelData& data, size_t number, int64_t matrices, int64_t depth, int64_t columns,
                                                    int64_t fewest_rows, ProductGenerator generate) {
  constexpr int64_t kVersion = 1;
  const PackedConstant* packed = find_packed(data, number);
  const std::optional<Isa> isa = TileEntries::isa_of(packed, kVersion);
  if (!isa || (!packed && !generate)) return std::nullopt;
  const Tile tile = product_tile(*isa, columns);
  PanelProducts products;
  products.matrices_ = matrices, products.columns_ = columns;
  products.code_ = {.isa = *isa, .tile = tile, .depth = depth, .block = depth, .a_stride = row_stride(depth, tile), .has_open_sizes = true, .epilogue = {}, .fetches_ahead = true};
  if (!packed) {
    // Tiles of equal rows have half of the largest, where there are as many rows as that.
    std::vector<int> rows;
    for (int64_t i = std::min<int64_t>((tile.rows + 1) / 2, fewest_rows); i <= tile.rows; ++i) rows.push_back(static_cast<int>(i));
    data.packed.push_back(TileEntries::packed(number, kVersion, rows, generate(products.code_, rows)));
    packed = &data.packed.back();
  }
  std::optional<TileEntries> entries = TileEntries::map(*packed, tile.rows);
  if (!entries) return std::nullopt;
  products.entries_ = std::move(*entries);
  return products;
}

void PanelProducts::multiply(const Operands& operands, int64_t first_panel, int64_t last_panel) const {
  const Tiling tiling(operands.rows, code_.tile);
  const int64_t of_panel = depth() * width(), panel_bytes = code_.weight_bytes(depth());
  std::array<int64_t, kProductArguments> arguments{};
  arguments[kYStride] = y_stride();
  arguments[kSteps] = depth();
  arguments[kAStride] = a_stride();
  arguments[kPanelStride] = of_panel;
  arguments[kIsFirst] = arguments[kIsLast] = 1;
  arguments[kColumns] = width();
  // Few weights stay in the second-level cache from block to block.
  const bool fetches_ahead = all_panels() * panel_bytes > second_level_cache() / 2;
  for (int64_t i = first_panel; i < last_panel; ++i) {
    const int64_t matrix = i / panels(), column = i % panels() * width();
    arguments[kB] = address_of(operands.weights + i * of_panel);
    const Fetches fetches = fetches_ahead && i + 1 < all_panels() ? Fetches(arguments[kB] + panel_bytes, depth(), 1, code_, tiling.count) : Fetches();
    for (int64_t tile = 0; tile < tiling.count; ++tile) {
      const int64_t row = tiling.first_row(tile);
      const int rows = tiling.rows_of(tile), at_once = code_.panels_at_once(rows);
      arguments[kA] = address_of(operands.a + matrix * operands.a_distance + row * a_stride());
      arguments[kY] = address_of(operands.y + matrix * operands.y_distance + row * y_stride() + column);
      arguments[kGroups] = 1 / at_once;
      arguments[kRest] = 1 % at_once;
      fetches.give(tile, arguments);
      entries_[rows](arguments.data());
    }
  }
}

}  // namespace anfora::kernels::generated
