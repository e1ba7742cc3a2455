// The entries of a product's code by the rows of a tile, as the data of a kernel holds them: for products of any sizes, of which each tile
// has the rows that it has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/generated/machine_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

class TileEntries {
 public:
  // That of the code, or the best where there is none; nothing where the code is of another version.
  static std::optional<Isa> isa_of(const PackedConstant* code, int64_t version);
  // As the data holds it: code for those rows, in that order.
  static PackedConstant packed(size_t number, int64_t version, std::span<const int> rows, MachineCode code);
  // Of code that has an isa_of(). Nothing where an entry has more rows than a tile. Throws as ExecutableCode::map().
  static std::optional<TileEntries> map(const PackedConstant& code, int rows_of_tile);

  // Null where there is none.
  EntryPoint operator[](int rows) const { return by_rows_[static_cast<size_t>(rows)]; }

 private:
  std::shared_ptr<const ExecutableCode> code_;
  std::vector<EntryPoint> by_rows_;
};

}  // namespace anfora::kernels::generated
