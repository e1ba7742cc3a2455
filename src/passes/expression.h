// When two applications compute the same from the same operands, for commutative operators in any order: all results, or those that both have. Attribute sets and constants
// are interned, so that comparing them is comparing pointers.
#pragma once

#include <algorithm>

#include "ir/node.h"
#include "support/hash.h"

namespace anfora::passes {

inline bool has_any_order(const ir::Apply& node) { return node.num_inputs() == 2 && node.op().commutative; }

// Whatever the number of results.
inline uint64_t hash_of_operation(const ir::Apply& node) {
  uint64_t h = hash_combine(hash_pointer(&node.op()), hash_pointer(&node.attributes()));
  if (has_any_order(node)) {
    const auto [low, high] = std::minmax({node.input(0)->id(), node.input(1)->id()});
    return hash_combine(hash_combine(h, low), high);
  }
  for (const ir::Use& use : node.operands()) h = hash_combine(h, use.node->id());
  return h;
}

inline uint64_t hash_of_expression(const ir::Apply& node) { return hash_combine(hash_of_operation(node), node.num_outputs()); }

inline bool are_same_operation(const ir::Apply& a, const ir::Apply& b) {
  if (&a.op() != &b.op() || &a.attributes() != &b.attributes()) return false;
  if (std::ranges::equal(a.operands(), b.operands(), {}, &ir::Use::node, &ir::Use::node)) return true;
  return has_any_order(a) && b.num_inputs() == 2 && a.input(0) == b.input(1) && a.input(1) == b.input(0);
}

inline bool are_same_expression(const ir::Apply& a, const ir::Apply& b) {
  return a.num_outputs() == b.num_outputs() && are_same_operation(a, b);
}

}  // namespace anfora::passes
