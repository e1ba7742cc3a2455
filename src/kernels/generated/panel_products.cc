#include "kernels/generated/panel_products.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/generated/fetches.h"
#include "kernels/generated/product_layout.h"

namespace anfora::kernels::generated {

namespace {

Tile tile_of_panels(Isa isa, int64_t columns) {
  constexpr int kMostVectors = 2;  // of a panel that is made in the cache
  return product_tile(isa, columns, 1, kMostVectors);
}

}  // namespace

bool PanelProducts::has_whole_panels(Isa isa, const Sizes& sizes) {
  return sizes.groups == 1 || sizes.columns % (tile_of_panels(isa, sizes.columns).vectors * describe(isa).lanes) == 0;
}

std::optional<PanelProducts> PanelProducts::prepare(KernelData& data, size_t number, const Sizes& sizes, int64_t fewest_rows, ProductGenerator generate) {
  constexpr int64_t kVersion = 5;
  const PackedConstant* packed = find_packed(data, number);
  const std::optional<Isa> isa = TileEntries::isa_of(packed, kVersion);
  if (!isa || (!packed && !generate) || !has_whole_panels(*isa, sizes)) return std::nullopt;
  const Tile tile = tile_of_panels(*isa, sizes.columns);
  PanelProducts products;
  products.sizes_ = sizes;
  products.code_ = {.isa = *isa, .tile = tile, .depth = sizes.depth, .block = sizes.depth, .a_stride = row_stride(sizes.groups * sizes.depth, tile), .has_open_sizes = true, .epilogue = {}, .fetches_ahead = true};
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

void PanelProducts::multiply(const Operands& operands) const {
  const Tiling tiling(operands.rows, code_.tile);
  const Fetches fetches(address_of(operands.next.from), operands.next.bytes, depth(), 1, tiling.count);
  std::array<int64_t, kProductArguments> arguments{};
  arguments[kB] = address_of(operands.b);
  arguments[kYStride] = y_stride();
  arguments[kSteps] = depth();
  arguments[kAStride] = a_stride();
  arguments[kPanelStride] = depth() * width();
  arguments[kIsFirst] = arguments[kIsLast] = 1;
  arguments[kColumns] = width();
  for (int64_t tile = 0; tile < tiling.count; ++tile) {
    const int64_t row = tiling.first_row(tile);
    const int rows = tiling.rows_of(tile), at_once = code_.panels_at_once(rows);
    arguments[kA] = address_of(operands.a + row * a_stride());
    arguments[kY] = address_of(operands.y + row * y_stride());
    arguments[kGroups] = 1 / at_once;
    arguments[kRest] = 1 % at_once;
    fetches.give(tile, arguments);
    entries_[rows](arguments.data());
  }
}

}  // namespace anfora::kernels::generated
