#include "kernels/packed_copies.h"

#include <algorithm>

#include "support/deferred_elements.h"
#include "support/hash.h"

namespace anfora::kernels {

PackedCopies::Key::Key(const KernelData& data) : op(data.op), attributes(data.attributes) {
  for (const InputDescription& input : data.inputs) constants.push_back(DeferredElements::identity(input.constant));
}

size_t PackedCopies::Hash::operator()(const Key& key) const {
  uint64_t hash = key.attributes.hash();
  for (const void* constant : key.constants) hash = hash_combine(hash, hash_pointer(constant));
  return hash;
}

void PackedCopies::add(const KernelData& data) {
  if (data.packed.empty()) return;
  const Key key(data);
  for (const PackedConstant& packed : data.packed) {
    if (!find(key, packed.number, packed.layout)) packed_[key].push_back(packed);
  }
}

const Tensor* PackedCopies::find(const KernelData& data, size_t number, const std::vector<int64_t>& layout) const {
  return find(Key(data), number, layout);
}

const Tensor* PackedCopies::find(const Key& key, size_t number, const std::vector<int64_t>& layout) const {
  const auto copies = packed_.find(key);
  if (copies == packed_.end()) return nullptr;
  const auto copy = std::ranges::find_if(
      copies->second, [&](const PackedConstant& packed) { return packed.number == number && packed.layout == layout; });
  return copy == copies->second.end() ? nullptr : &copy->elements;
}

}  // namespace anfora::kernels
