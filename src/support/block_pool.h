// Memory for tensors whose lifetime only their handles know: what crosses a call, lies in a sequence, or has no size before it
// is computed. The last handle gives a block back, and a later tensor takes it: what repeats, as an iteration of a loop or a run
// does, allocates nothing after a few times. Two blocks take turns for a value that a loop carries.
//
// A tensor gets the smallest free block that holds it, unless that is twice as large: small tensors that live long, such as those of
// a sequence, would keep the blocks of large ones. Free blocks are in a list for each capacity, the last one given back in front, so that
// taking and giving back are constant time however many a loop has left behind. Where there is none, free blocks make room for a new one, so that a pool has at
// most twice of what was once in use at a time.
//
// What is given away leaves the pool. When its last handle goes, on whatever thread, a large block waits for the pool to take it again:
// the system would clear its pages anew for each run's results. As much waits as was given away at once, and no longer than the pool lives.
//
// For one thread at a time, handles included, but for what was given away. A block holds its tensor's reference count as well.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "anfora/tensor.h"

namespace anfora {

class BlockPool {
 public:
  BlockPool();
  BlockPool(const BlockPool&) = delete;
  ~BlockPool();

  // As Tensor::allocate(). Strings do not come from blocks.
  Tensor allocate(DType dtype, std::span<const int64_t> shape);
  // From now on the tensor may be used, and freed, by any thread; others than those of a pool may be anyway.
  static void give_away(const Tensor& tensor);
  // What was given away since the last call is what is given away at once.
  void end_giving();

  // Frees the blocks that no tensor has.
  void trim();

  size_t bytes() const { return bytes_; }

 private:
  struct Block;
  struct KeepBlock;
  class Returns;
  template <class T>
  struct PlaceInBlock;

  Block* take(size_t bytes);
  void give_back(Block* block);
  Block* take_free(size_t of);
  void own(Block& block);
  void disown(Block& block);
  void make_room(size_t bytes);
  bool free_largest();  // false: there is none

  std::vector<Block*> blocks_;  // all
  static constexpr size_t kCapacities = 8 * 58;
  std::array<Block*, kCapacities> free_{};  // by capacity, the first of a list
  size_t largest_free_ = 0;                 // no list behind it has a block
  size_t bytes_ = 0;                        // of all blocks
  size_t bytes_in_use_ = 0, most_in_use_ = 0;
  std::shared_ptr<Returns> returns_;
  size_t given_bytes_ = 0;  // in large blocks, since end_giving()
};

}  // namespace anfora
