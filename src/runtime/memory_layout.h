// Where the intermediate values of one function lie in its arena.
//
// A buffer is needed from the instruction that writes it to the last one that reads it, and has a size that may
// depend on symbols. Buffers whose intervals overlap must not overlap in memory; the total should be small:
//
//      offset
//        │  ┌────── a ──────┐
//        │  └───────────────┘ ┌── c ──┐
//        │      ┌───── b ─────┤       │      c took a's place when a was dead, best fit
//        └──────┴─────────────┴───────┴──▶ instructions
//
// This is dynamic storage allocation, NP-hard; heuristics are tried and the best result is taken:
//  - in order of time, each buffer into the smallest hole that is free then (best fit), O(n log n);
//  - in order of size, the largest first, each at the lowest fitting hole among those that it meets, O(n²), the usual
//    winner (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020);
//  - the same in order of size times instructions, where few large ones live long;
//  - the better one of these repeatedly, each time with those first that reached the end of the arena the last time (Joslin and Clements, "Squeaky wheel
//    optimization", 1999), until the bound is met or a budget spent;
//  - then by local search: a buffer at a time goes to another place of that order.
// No layout can be smaller than the largest sum of sizes alive at one instruction; that bound is reported, so that
// a reader sees how far from the optimum the plan is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/size_expression.h"

namespace anfora::runtime {

struct Buffer {
  uint32_t first = 0, last = 0;  // instructions, inclusive
  SizeExpression bytes;
};

// What goes from one iteration of a loop to the next: it outlives the frame's invocation that writes it, but not the one after
// the next. So two places that take turns are enough, and one where an iteration overwrites what the last one wrote.
struct CarriedValue {
  SizeExpression bytes;
  uint32_t places = 2;
};

struct MemoryLayout {
  static constexpr int64_t kNowhere = -1;
  struct Place {
    int64_t offset = kNowhere;  // kNowhere: the size is not known; the kernel allocates
    int64_t bytes = 0;
  };
  std::vector<Place> places;  // by buffer
  int64_t bytes = 0;          // of the arena
  int64_t lower_bound = 0;    // no arena can be smaller

  // Of carried values, in memory of their own, where nothing else lies: the first place of each.
  std::vector<Place> carried;
  int64_t carried_bytes = 0;
};

// Offsets are multiples of this: a cache line, and the widest vector register.
inline constexpr int64_t kBufferAlignment = 64;

// `at_least`: bytes that a buffer has to have whatever its expression says, or nothing.
int64_t aligned(int64_t bytes);

MemoryLayout make_layout(std::span<const Buffer> buffers, std::span<const int64_t> symbols,
                         std::span<const int64_t> at_least = {});
void place_carried(std::span<const CarriedValue> carried, std::span<const int64_t> symbols, MemoryLayout& layout);

}  // namespace anfora::runtime
