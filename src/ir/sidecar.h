// The file of large constants beside a text `.ir`. The text names each by the hash of its content, so that one
// file serves any number of texts: all stages of a pipeline, for example.
//
//     "anfora constants"                                    16 bytes
//     for each constant: hash (16 bytes, low half first), number of bytes (8), zeros up to a multiple of 64, content
//
// Numbers are little-endian. Content is the tensor's memory (elements below a byte: one byte each); strings are,
// one after the other, their length (8 bytes) and characters.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "anfora/tensor.h"
#include "support/hash.h"

namespace anfora::ir {

// The hash of a tensor's content, without dtype and shape.
ContentHash content_hash(const Tensor& tensor);

class Sidecar {
 public:
  Sidecar() = default;
  // Reads the file's index; the content stays where it is, and `owner` keeps it alive. Throws InvalidModel.
  static Sidecar read(std::span<const std::byte> file, std::shared_ptr<void> owner);

  // Adds a constant unless it is there already; the tensor's memory is shared, not copied.
  void add(const ContentHash& hash, const Tensor& tensor);
  // The tensor of that content, or an undefined one when it is not here. Throws InvalidModel when its bytes do not
  // fit the type. Big tensors are views of the file.
  Tensor find(const ContentHash& hash, DType dtype, std::span<const int64_t> shape) const;

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // Calls write(span<const std::byte>) for consecutive pieces of the file.
  template <class Write>
  void write(Write&& write) const;

 private:
  struct Entry {
    ContentHash hash;
    std::span<const std::byte> bytes;
    std::shared_ptr<void> owner;
  };
  struct Hasher {
    size_t operator()(const ContentHash& h) const { return h.low; }
  };
  void insert(Entry entry);
  static std::string header(const Entry& entry, size_t offset);

  static constexpr std::string_view kMagic = "anfora constants";
  static constexpr size_t kAlignment = 64;
  std::vector<Entry> entries_;
  boost::unordered_flat_map<ContentHash, size_t, Hasher> index_;
};

template <class Write>
void Sidecar::write(Write&& write) const {
  size_t offset = kMagic.size();
  write(std::as_bytes(std::span(kMagic)));
  for (const Entry& entry : entries_) {
    std::string before = header(entry, offset);
    write(std::as_bytes(std::span(before)));
    write(entry.bytes);
    offset += before.size() + entry.bytes.size();
  }
}

}  // namespace anfora::ir
