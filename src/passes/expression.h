// When two applications compute the same from the same operands. Attribute sets and constants are interned, so that comparing
// them is comparing pointers.
#pragma once

#include <algorithm>

#include "ir/node.h"
#include "support/hash.h"

namespace anfora::passes {

inline uint64_t hash_of_expression(const ir::Apply& node) {
  uint64_t h = hash_combine(hash_pointer(&node.op()), hash_pointer(&node.attributes()) + node.num_outputs());
  for (const ir::Use& use : node.operands()) h = hash_combine(h, use.node->id());
  return h;
}

inline bool are_same_expression(const ir::Apply& a, const ir::Apply& b) {
  return &a.op() == &b.op() && &a.attributes() == &b.attributes() && a.num_outputs() == b.num_outputs() &&
         std::ranges::equal(a.operands(), b.operands(), {}, &ir::Use::node, &ir::Use::node);
}

}  // namespace anfora::passes
