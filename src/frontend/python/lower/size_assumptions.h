// What a function is compiled for of sizes that are symbols. A slice `x[:, 128:256]` of f32[n, m] has 128 columns only where m is 256 or more, and
// what adds to f32[64] is f32[64], or a single number that is broadcast: types that say both possibilities keep sums of broadcasting in
// gradients, and sizes that nothing else can use. So where the size of the call at hand answers such a question, the function is compiled for the
// sizes that have the same answer. The caller watches that, and compiles for all sizes where it does not hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/module.h"

namespace anfora::python {

class SizeAssumptions {
 public:
  using Ranges = std::map<std::string, ir::Range, std::less<>>;

  // `sizes`: of the call at hand, by the names of the symbols.
  explicit SizeAssumptions(std::map<std::string, int64_t, std::less<>> sizes) : sizes_(std::move(sizes)) {}

  // The application is of these operands, which are typed.
  void consider(const ir::Apply& node);
  // What was assumed, of symbols that differ from those of any size.
  const Ranges& ranges() const { return ranges_; }

 private:
  const int64_t* size_of(ir::Dim dim) const;
  void consider_slice(const ir::Apply& slice);
  void assume_at_least(ir::Dim dim, int64_t least);
  void assume_equal(ir::Dim a, ir::Dim b);

  std::map<std::string, int64_t, std::less<>> sizes_;
  Ranges ranges_;
};

}  // namespace anfora::python
