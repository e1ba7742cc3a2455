// Attributes of an operation: immutable name → value sets, kept sorted by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "anfora/tensor.h"

namespace anfora {

// ONNX's attribute kinds. A TypeProto attribute is held as the text of the type ("seq(f32[N])").
using AttributeValue = std::variant<int64_t, float, std::string, Tensor, std::vector<int64_t>, std::vector<float>,
                                    std::vector<std::string>, std::vector<Tensor>>;

bool identical(const AttributeValue& a, const AttributeValue& b);  // bitwise for floats and tensors
// A number or string as a scalar, a list of them as a vector; undefined for a list of tensors.
Tensor to_tensor(const AttributeValue& value);

class AttributeSet {
 public:
  using Entry = std::pair<std::string, AttributeValue>;

  AttributeSet() = default;
  AttributeSet(std::initializer_list<Entry> entries);
  explicit AttributeSet(std::vector<Entry> entries);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  const AttributeValue* find(std::string_view name) const;  // null when absent
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // The value, or the default when absent. Throws InvalidModel when it has another kind.
  int64_t get_int(std::string_view name, int64_t otherwise) const;
  float get_float(std::string_view name, float otherwise) const;
  std::string get_string(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> get_ints(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<float> get_floats(std::string_view name, std::vector<float> otherwise = {}) const;
  std::vector<std::string> get_strings(std::string_view name, std::vector<std::string> otherwise = {}) const;
  // Without a copy; a list that is absent is empty.
  std::string_view string(std::string_view name, std::string_view otherwise) const;
  std::span<const int64_t> ints(std::string_view name) const;
  std::span<const float> floats(std::string_view name) const;
  std::span<const std::string> strings(std::string_view name) const;
  const Tensor* get_tensor(std::string_view name) const;
  // Required: throws InvalidModel when absent.
  int64_t require_int(std::string_view name) const;

  // A copy with one entry added or replaced, or removed.
  AttributeSet with(std::string_view name, AttributeValue value) const;
  AttributeSet without(std::string_view name) const;

  friend bool operator==(const AttributeSet& a, const AttributeSet& b);
  size_t hash() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace anfora
