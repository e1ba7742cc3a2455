// What the kernels of a program have packed so far, so that the constants of a layer that is applied several times are packed once.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <vector>

#include "kernels/prepared.h"

namespace anfora::kernels {

// Found by operator, attributes and the elements of the constants, which must stay as they are while a program is built. Other inputs may
// have other shapes.
class PackedCopies {
 public:
  void add(const KernelData& data);
  // What a kernel of the same operator, attributes and constants has packed by that number in that layout; null: nothing.
  const Tensor* find(const KernelData& data, size_t number, const std::vector<int64_t>& layout) const;

 private:
  struct Key {
    explicit Key(const KernelData& data);
    friend bool operator==(const Key&, const Key&) = default;
    std::string op;
    AttributeSet attributes;
    std::vector<const void*> constants;  // by input; null: it is none
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  const Tensor* find(const Key& key, size_t number, const std::vector<int64_t>& layout) const;

  boost::unordered_flat_map<Key, std::vector<PackedConstant>, Hash> packed_;
};

}  // namespace anfora::kernels
