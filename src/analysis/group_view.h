// Parts of tensors that a group reads where they lie: what Slice, Split and Transpose give is not written to memory, where the last axis stays in
// one piece.
//
//     %a, %b = Split(%x){axis=-1}                 Group(@group, %x, %x), which reads the first half of each row of %x,
//     %y = Mul(%a, Sigmoid(%b))          →        and the second
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/node.h"

namespace anfora::analysis {

struct GroupView {
  const ir::Apply* cut = nullptr;  // the operator
  ir::Node* base = nullptr;        // its operand
  // By axis of the part: that of the base, where it begins there, and how long it is if not as long as that.
  struct Axis {
    int64_t from = 0, begin = 0, size = kWhole;
  };
  static constexpr int64_t kWhole = -1;
  std::vector<Axis> axes;
};

// Of one of these, where the bounds are constants, and a row is long enough that reading it by itself costs little.
std::optional<GroupView> group_view(const ir::Node& node);

// What the operators of a group read of a parameter: itself, or the only part of it.
const ir::Node& read_of(const ir::Parameter& parameter);

}  // namespace anfora::analysis
