// Permutations of axes as Transpose means them: axis i of the result is axis perm[i] of the operand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ir/node.h"

namespace anfora::passes {

using Permutation = std::vector<int64_t>;

inline Permutation identity(int rank) {
  Permutation permutation(static_cast<size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  return permutation;
}

// Of a Transpose whose operand has that rank; without the attribute the axes are reversed.
inline Permutation permutation_of(const ir::Apply& transpose, int rank) {
  Permutation reversed = identity(rank);
  std::ranges::reverse(reversed);
  return transpose.attributes().get_ints("perm", std::move(reversed));
}

}  // namespace anfora::passes
