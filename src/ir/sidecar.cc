#include "ir/sidecar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "anfora/error.h"
#include "support/element_types.h"

namespace anfora::ir {
namespace {

constexpr size_t kRecordBytes = sizeof(uint64_t) * 3;

std::string serialize(std::span<const std::string> strings) {
  std::string bytes;
  for (const std::string& s : strings) {
    uint64_t size = s.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += s;
  }
  return bytes;
}

[[noreturn]] void fail(std::string message) {
  throw Error(ErrorCode::InvalidModel, "constants file: " + std::move(message));
}

Tensor strings_from(std::span<const std::byte> bytes, std::span<const int64_t> shape) {
  int64_t count = element_count(shape);
  if (static_cast<uint64_t>(count) > bytes.size() / sizeof(uint64_t)) fail("a tensor of strings is cut short");
  Tensor tensor = Tensor::allocate(DType::String, shape);
  for (std::string& s : tensor.data<std::string>()) {
    uint64_t size = 0;
    if (bytes.size() < sizeof(size)) fail("a tensor of strings is cut short");
    std::memcpy(&size, bytes.data(), sizeof(size));
    bytes = bytes.subspan(sizeof(size));
    if (size > bytes.size()) fail("a tensor of strings is cut short");
    s.assign(reinterpret_cast<const char*>(bytes.data()), size);
    bytes = bytes.subspan(size);
  }
  if (!bytes.empty()) fail("a tensor of strings is longer than its type says");
  return tensor;
}

// Types whose bytes may hold only some values.
bool is_valid_content(DType dtype, std::span<const std::byte> bytes) {
  int bits = dtype == DType::Bool ? 1 : is_sub_byte(dtype) ? element_bits(dtype) : 8;
  if (bits == 8) return true;
  int low = is_signed_integer(dtype) ? -(1 << (bits - 1)) : 0;
  return std::ranges::all_of(bytes, [&](std::byte b) {
    int value = is_signed_integer(dtype) ? static_cast<int8_t>(b) : static_cast<uint8_t>(b);
    return value >= low && value < low + (1 << bits);
  });
}

}  // namespace

ContentHash content_hash(const Tensor& tensor) {
  if (tensor.dtype() != DType::String) return anfora::content_hash(tensor.raw(), tensor.bytes());
  std::string bytes = serialize(tensor.data<std::string>());
  return anfora::content_hash(bytes.data(), bytes.size());
}

Sidecar Sidecar::read(std::span<const std::byte> file, std::shared_ptr<void> owner) {
  if (file.size() < kMagic.size() || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    fail("it does not start as one");
  }
  Sidecar sidecar;
  size_t at = kMagic.size();
  while (at < file.size()) {
    if (file.size() - at < kRecordBytes) fail("it is cut short");
    uint64_t record[3];
    std::memcpy(record, file.data() + at, kRecordBytes);
    at += kRecordBytes;
    size_t padding = (kAlignment - at % kAlignment) % kAlignment;
    if (file.size() - at < padding || file.size() - at - padding < record[2]) fail("it is cut short");
    at += padding;
    sidecar.insert({{record[0], record[1]}, file.subspan(at, record[2]), owner});
    at += record[2];
  }
  return sidecar;
}

void Sidecar::insert(Entry entry) {
  if (index_.emplace(entry.hash, entries_.size()).second) entries_.push_back(std::move(entry));
}

void Sidecar::add(const ContentHash& hash, const Tensor& tensor) {
  if (index_.contains(hash)) return;
  if (tensor.dtype() == DType::String) {
    auto text = std::make_shared<std::string>(serialize(tensor.data<std::string>()));
    insert({hash, std::as_bytes(std::span(*text)), text});
  } else {
    insert({hash, {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()}, tensor.owner()});
  }
}

Tensor Sidecar::find(const ContentHash& hash, DType dtype, std::span<const int64_t> shape) const {
  auto found = index_.find(hash);
  if (found == index_.end()) return {};
  const Entry& entry = entries_[found->second];
  if (dtype == DType::String) return strings_from(entry.bytes, shape);
  Tensor tensor = Tensor::view(dtype, shape, const_cast<std::byte*>(entry.bytes.data()), entry.owner);
  size_t each = element_bytes(dtype), count = static_cast<size_t>(tensor.size());
  if (entry.bytes.size() % each != 0 || entry.bytes.size() / each != count) {
    fail(fmt::format("constant {} has {} bytes, which does not fit {} of shape {}", to_string(hash), entry.bytes.size(),
                     name(dtype), anfora::to_string(shape)));
  }
  if (!is_valid_content(dtype, entry.bytes))
    fail(fmt::format("constant {} holds values that are no {}", to_string(hash), name(dtype)));
  return tensor;
}

std::string Sidecar::header(const Entry& entry, size_t offset) {
  uint64_t record[3] = {entry.hash.low, entry.hash.high, entry.bytes.size()};
  std::string text(reinterpret_cast<const char*>(record), kRecordBytes);
  size_t end = offset + kRecordBytes;
  text.append((kAlignment - end % kAlignment) % kAlignment, '\0');
  return text;
}

}  // namespace anfora::ir
