#include "support/attribute.h"

#include <algorithm>
#include <bit>

#include "anfora/error.h"
#include "support/element_types.h"
#include "support/hash.h"

namespace anfora {
namespace {

template <class T>
uint64_t hash_scalar(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return hash_bytes(value.data(), value.size());
  } else if constexpr (std::is_same_v<T, Tensor>) {
    uint64_t h = hash_combine(static_cast<uint64_t>(value.dtype()),
                              hash_bytes(value.shape().data(), value.shape().size() * sizeof(int64_t)));
    if (value.dtype() != DType::String) return hash_combine(h, hash_bytes(value.raw(), value.bytes()));
    for (const std::string& s : value.template data<std::string>()) h = hash_combine(h, hash_scalar(s));
    return h;
  } else {
    return hash_bytes(&value, sizeof(value));
  }
}

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return Tensor::identical(a, b);
  } else {
    return a == b;
  }
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](const T& x, const T& y) { return same(x, y); });
}

uint64_t hash_value(const AttributeValue& value) {
  uint64_t h = value.index();
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (requires { v.begin(); } && !std::is_same_v<T, std::string>) {
          for (const auto& item : v) h = hash_combine(h, hash_scalar(item));
        } else {
          h = hash_combine(h, hash_scalar(v));
        }
      },
      value);
  return h;
}

template <class T>
const T* find_as(const AttributeSet& set, std::string_view name) {
  const AttributeValue* value = set.find(name);
  if (!value) return nullptr;
  const T* typed = std::get_if<T>(value);
  if (!typed) {
    throw Error(ErrorCode::InvalidModel, "attribute '" + std::string(name) + "' has the wrong kind of value");
  }
  return typed;
}

template <class T>
T get_or(const AttributeSet& set, std::string_view name, T otherwise) {
  const T* value = find_as<T>(set, name);
  return value ? *value : std::move(otherwise);
}

template <class T>
std::span<const T> list(const AttributeSet& attributes, std::string_view name) {
  const auto* value = find_as<std::vector<T>>(attributes, name);
  return value ? std::span<const T>(*value) : std::span<const T>();
}

}  // namespace

bool identical(const AttributeValue& a, const AttributeValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&]<class T>(const T& value) { return same(value, std::get<T>(b)); }, a);
}

Tensor to_tensor(const AttributeValue& value) {
  return std::visit(
      []<class T>(const T& v) -> Tensor {
        if constexpr (std::is_same_v<T, Tensor>) {
          return v;
        } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
          return {};
        } else if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>) {
          return Tensor::scalar<T>(v);
        } else {
          return Tensor::vector<typename T::value_type>(v);
        }
      },
      value);
}

AttributeSet::AttributeSet(std::initializer_list<Entry> entries)
    : AttributeSet(std::vector<Entry>(entries.begin(), entries.end())) {}

AttributeSet::AttributeSet(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::ranges::sort(entries_, {}, &Entry::first);
}

const AttributeValue* AttributeSet::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

int64_t AttributeSet::get_int(std::string_view name, int64_t otherwise) const { return get_or(*this, name, otherwise); }
float AttributeSet::get_float(std::string_view name, float otherwise) const { return get_or(*this, name, otherwise); }
std::string AttributeSet::get_string(std::string_view name, std::string_view otherwise) const {
  return get_or(*this, name, std::string(otherwise));
}
std::vector<int64_t> AttributeSet::get_ints(std::string_view name, std::vector<int64_t> otherwise) const {
  return get_or(*this, name, std::move(otherwise));
}
std::vector<float> AttributeSet::get_floats(std::string_view name, std::vector<float> otherwise) const {
  return get_or(*this, name, std::move(otherwise));
}
std::vector<std::string> AttributeSet::get_strings(std::string_view name, std::vector<std::string> otherwise) const {
  return get_or(*this, name, std::move(otherwise));
}
std::span<const int64_t> AttributeSet::ints(std::string_view name) const { return list<int64_t>(*this, name); }
std::span<const float> AttributeSet::floats(std::string_view name) const { return list<float>(*this, name); }
std::span<const std::string> AttributeSet::strings(std::string_view name) const { return list<std::string>(*this, name); }
std::string_view AttributeSet::string(std::string_view name, std::string_view otherwise) const {
  const auto* value = find_as<std::string>(*this, name);
  return value ? std::string_view(*value) : otherwise;
}
const Tensor* AttributeSet::get_tensor(std::string_view name) const { return find_as<Tensor>(*this, name); }

int64_t AttributeSet::require_int(std::string_view name) const {
  const int64_t* value = find_as<int64_t>(*this, name);
  if (!value) throw Error(ErrorCode::InvalidModel, "the required attribute '" + std::string(name) + "' is missing");
  return *value;
}

AttributeSet AttributeSet::with(std::string_view name, AttributeValue value) const {
  AttributeSet copy = without(name);
  auto at = std::ranges::lower_bound(copy.entries_, name, {}, [](const Entry& e) { return std::string_view(e.first); });
  copy.entries_.insert(at, Entry(std::string(name), std::move(value)));
  return copy;
}

AttributeSet AttributeSet::without(std::string_view name) const {
  AttributeSet copy = *this;
  std::erase_if(copy.entries_, [&](const Entry& e) { return e.first == name; });
  return copy;
}

bool operator==(const AttributeSet& a, const AttributeSet& b) {
  return std::ranges::equal(a.entries_, b.entries_, [](const auto& x, const auto& y) {
    return x.first == y.first && identical(x.second, y.second);
  });
}

size_t AttributeSet::hash() const {
  uint64_t h = entries_.size();
  for (const Entry& entry : entries_) {
    h = hash_combine(hash_combine(h, hash_bytes(entry.first.data(), entry.first.size())), hash_value(entry.second));
  }
  return h;
}

}  // namespace anfora
