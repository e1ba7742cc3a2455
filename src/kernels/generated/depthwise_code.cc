#include "kernels/generated/depthwise_code.h"

namespace anfora::kernels::generated {

std::vector<int64_t> DepthwiseCode::numbers() const {
  std::vector<int64_t> all{static_cast<int64_t>(isa), tile.rows, tile.vectors, int64_t{has_edge}};
  auto append = [&](const std::vector<int64_t>& numbers) { all.insert(all.end(), numbers.begin(), numbers.end()); };
  append({static_cast<int64_t>(image), static_cast<int64_t>(scale), static_cast<int64_t>(result), int64_t{divides}});
  append(epilogue.numbers());
  all.push_back(int64_t{expansion.has_value()});
  if (expansion) append(expansion->numbers());
  return all;
}

}  // namespace anfora::kernels::generated
