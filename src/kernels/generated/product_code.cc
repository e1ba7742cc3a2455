#include "kernels/generated/product_code.h"

namespace anfora::kernels::generated {

Tile product_tile(Isa isa) {
  switch (isa) {
    case Isa::Sse2: return {4, 2};    // a product takes a register of its own before it is added
    case Isa::Avx2: return {6, 2};    // 12 sums, 2 of the panel, 1 of A
    case Isa::Avx512: return {14, 2};  // 28 sums
  }
  return {};
}

}  // namespace anfora::kernels::generated
