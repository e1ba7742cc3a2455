// Random decisions read from a tape of bytes. A generator that asks a tape instead of a random number engine shrinks by
// itself: RapidCheck drops bytes and lowers them until the failure is as small as it gets. So 0, which is also what an
// exhausted tape gives, has to stand for the simplest choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace anfora::property {

using Tape = std::vector<uint8_t>;

class Choices {
 public:
  explicit Choices(std::span<const uint8_t> tape) : tape_(tape) {}

  bool exhausted() const { return at_ == tape_.size(); }
  uint8_t byte() { return exhausted() ? 0 : tape_[at_++]; }
  // A number in [0, count), count at most 65536.
  size_t below(size_t count) {
    size_t drawn = byte();
    if (count > 256) drawn = drawn << 8 | byte();
    return drawn % count;
  }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
  }
  // True once in `count` times.
  bool once_in(size_t count) { return below(count) + 1 == count; }
  template <class Range>
  decltype(auto) of(Range&& range) {
    return range[below(std::size(range))];
  }

 private:
  std::span<const uint8_t> tape_;
  size_t at_ = 0;
};

}  // namespace anfora::property
