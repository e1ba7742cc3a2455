#include "kernels/generated/tile_entries.h"

#include <utility>

namespace anfora::kernels::generated {
namespace {

enum Number : uint8_t { kVersion, kIsa, kNumbers };  // of the layout; then rows and offset of each entry

}  // namespace

std::optional<Isa> TileEntries::isa_of(const PackedConstant* code, int64_t version) {
  if (!code) return best_isa();
  return !code->layout.empty() && code->layout[kVersion] == version ? generated::isa_of(code->layout) : std::nullopt;
}

PackedConstant TileEntries::packed(size_t number, int64_t version, std::span<const int> rows, MachineCode code) {
  std::vector<int64_t> layout{version, static_cast<int64_t>(code.isa)};
  for (size_t i = 0; i < rows.size(); ++i) layout.insert(layout.end(), {rows[i], code.entries[i]});
  return {number, std::move(layout), std::move(code.bytes)};
}

std::optional<TileEntries> TileEntries::map(const PackedConstant& code, int rows_of_tile) {
  const std::span<const int64_t> pairs = std::span(code.layout).subspan(kNumbers);
  std::vector<int64_t> offsets;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] < 1 || pairs[i] > rows_of_tile) return std::nullopt;
    offsets.push_back(pairs[i + 1]);
  }
  TileEntries entries;
  entries.code_ = ExecutableCode::map({.isa = static_cast<Isa>(code.layout[kIsa]), .entries = offsets, .bytes = code.elements});
  entries.by_rows_.assign(static_cast<size_t>(rows_of_tile) + 1, nullptr);
  for (size_t i = 0; i < offsets.size(); ++i) entries.by_rows_[static_cast<size_t>(pairs[2 * i])] = entries.code_->entry(offsets[i]);
  return entries;
}

}  // namespace anfora::kernels::generated
