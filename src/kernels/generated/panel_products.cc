#include "kernels/generated/panel_products.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/generated/fetches.h"
#include "kernels/generated/product_layout.h"

namespace anfora::kernels::generated {

namespace {

constexpr int64_t kPanelVersion = 5;  // of the layout of code

Tile tile_of_panels(Isa isa, int64_t columns) {
  constexpr int kMostVectors = 2;  // of a panel that is made in the cache
  return product_tile(isa, columns, 1, kMostVectors);
}

}  // namespace

bool PanelProducts::has_whole_panels(Isa isa, const Sizes& sizes) {
  return sizes.groups == 1 || sizes.columns % (tile_of_panels(isa, sizes.columns).vectors * describe(isa).lanes) == 0;
}

std::optional<PanelProducts> PanelProducts::lay_out(const KernelData& data, size_t number, const Sizes& sizes) {
  const std::optional<Isa> isa = CodeEntries::isa_of(find_packed(data, number), kPanelVersion);
  if (!isa || !has_whole_panels(*isa, sizes)) return std::nullopt;
  const Tile tile = tile_of_panels(*isa, sizes.columns);
  PanelProducts products;
  products.sizes_ = sizes;
  products.code_ = {.isa = *isa, .tile = tile, .depth = sizes.depth, .block = sizes.depth, .a_stride = row_stride(sizes.groups * sizes.depth, tile), .has_open_sizes = true, .epilogue = {}, .fetches_ahead = true};
  return products;
}

bool PanelProducts::prepare(KernelData& data, size_t number, int64_t rows, ProductGenerator generate) {
  CodeEntries::Wanted wanted{.first = rows_of_many(code_.tile), .all = rows_up_to(code_.tile)};
  if (rows > 0) wanted = CodeEntries::Wanted::exactly(tiling(rows).rows_of_tiles());
  return entries_.prepare(data, number, {{kPanelVersion, static_cast<int64_t>(code_.isa)}}, std::move(wanted), CodeEntries::made_by(generate, code_));
}

void PanelProducts::multiply(const Operands& operands) const {
  const Tiling tiles = tiling(operands.rows);
  const Fetches fetches(address_of(operands.next.from), operands.next.bytes, depth(), 1, tiles.count);
  std::array<int64_t, kProductArguments> arguments{};
  arguments[kB] = address_of(operands.b);
  arguments[kYStride] = y_stride();
  arguments[kSteps] = depth();
  arguments[kAStride] = a_stride();
  arguments[kPanelStride] = depth() * width();
  arguments[kIsFirst] = arguments[kIsLast] = 1;
  arguments[kColumns] = width();
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t row = tiles.first_row(tile);
    const int rows = tiles.rows_of(tile), at_once = code_.panels_at_once(rows);
    arguments[kA] = address_of(operands.a + row * a_stride());
    arguments[kY] = address_of(operands.y + row * y_stride());
    arguments[kGroups] = 1 / at_once;
    arguments[kRest] = 1 % at_once;
    fetches.give(tile, arguments);
    entries_[rows](arguments.data());
  }
}

}  // namespace anfora::kernels::generated
