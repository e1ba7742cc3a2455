#include "ir/print_literal.h"

#include <algorithm>
#include <cstring>

#include "ir/lexical.h"

namespace anfora::ir {
namespace {

// Constants without a name up to these sizes stand in the operand list.
constexpr int64_t kMostOperandElements = 8;
constexpr size_t kMostOperandCharacters = 64;

bool is_uniform(const Tensor& t) {
  if (t.size() < 2 || t.size() > kMostUniformElements) return false;
  if (t.dtype() == DType::String) {
    auto strings = t.data<std::string>();
    return std::ranges::all_of(strings, [&](const std::string& s) { return s == strings[0]; });
  }
  size_t each = element_bytes(t.dtype());
  const char* bytes = static_cast<const char*>(t.raw());
  return std::memcmp(bytes, bytes + each, t.bytes() - each) == 0;
}

size_t characters(const Tensor& t) {
  size_t total = 0;
  if (t.dtype() == DType::String) {
    for (const std::string& s : t.data<std::string>()) total += s.size();
  }
  return total;
}

// Whether a literal without a type reads back as this dtype.
bool is_default_dtype(DType dtype) {
  return dtype == DType::F32 || dtype == DType::I64 || dtype == DType::Bool || dtype == DType::String;
}

// Nested brackets, without recursion: a bracket opens or closes where the index of the element is a multiple of
// the number of elements within it.
void append_nested(std::string& out, const Tensor& t) {
  if (t.size() == 0) {
    out += "[]";
    return;
  }
  for (int64_t i = 0; i < t.size(); ++i) {
    int64_t block = 1;
    size_t boundaries = 0;
    for (int axis = t.rank() - 1; axis >= 0; --axis) {
      block *= t.dim(axis);
      if (i % block == 0) ++boundaries;
    }
    if (i > 0) out.append(boundaries, ']').append(", ");
    out.append(boundaries, '[');
    append_element(out, t.dtype(), t.raw(), i);
  }
  out.append(static_cast<size_t>(t.rank()), ']');
}

void append_type(std::string& out, const Tensor& t) {
  out += name(t.dtype());
  out += '[';
  for (int axis = 0; axis < t.rank(); ++axis) {
    if (axis) out += ", ";
    out += std::to_string(t.dim(axis));
  }
  out += ']';
}

template <class T>
constexpr const char* kListName = "";
template <>
constexpr const char* kListName<float> = "floats ";
template <>
constexpr const char* kListName<std::string> = "strings ";
template <>
constexpr const char* kListName<Tensor> = "tensors ";

struct AttributePrinter {
  std::string& out;
  const PrintOptions& options;

  void operator()(int64_t value) { out += std::to_string(value); }
  void operator()(float value) { append_float(out, value); }
  void operator()(const std::string& value) { append_quoted(out, value); }
  void operator()(const Tensor& value) { append_constant(out, value, options); }
  template <class T>
  void operator()(const std::vector<T>& list) {
    if (list.empty()) out += kListName<T>;  // the items would tell
    out += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out += ", ";
      (*this)(list[i]);
    }
    out += ']';
  }
};

}  // namespace

bool is_short(const Tensor& t) {
  if (characters(t) > kMostOperandCharacters) return false;
  return (t.rank() <= 1 && t.size() <= kMostOperandElements) || is_uniform(t);
}

void append_operand(std::string& out, const Tensor& t) {
  bool listed = t.rank() == 1 && t.size() <= kMostOperandElements && (t.size() > 0 || t.dtype() == DType::I64);
  if (is_default_dtype(t.dtype()) && (t.rank() == 0 || listed)) {
    append_nested(out, t);
  } else {
    append_constant(out, t, {});
  }
}

void append_constant(std::string& out, const Tensor& t, const PrintOptions& options) {
  append_type(out, t);
  if (!t.defined()) return;
  out += ' ';
  if (is_uniform(t)) {
    append_element(out, t.dtype(), t.raw(), 0);
  } else if (t.size() <= options.most_inline_elements) {
    append_nested(out, t);
  } else if (options.elide_constants) {
    out += "<elided>";
  } else {
    ContentHash hash = content_hash(t);
    out.append("<#").append(to_string(hash)).append(">");
    if (options.sidecar) options.sidecar->add(hash, t);
  }
}

void append_attributes(std::string& out, const AttributeSet& attributes, const PrintOptions& options) {
  if (attributes.empty()) return;
  char before = '{';
  for (const auto& [name, value] : attributes) {
    out += before;
    if (before == ',') out += ' ';
    before = ',';
    append_identifier(out, name);
    out += '=';
    std::visit(AttributePrinter{out, options}, value);
  }
  out += '}';
}

std::string print(const Tensor& tensor, const PrintOptions& options) {
  std::string out;
  if (tensor.defined() && is_short(tensor)) {
    append_operand(out, tensor);
  } else {
    append_constant(out, tensor, options);
  }
  return out;
}

std::string print(const AttributeSet& attributes, const PrintOptions& options) {
  std::string out;
  append_attributes(out, attributes, options);
  return out;
}

}  // namespace anfora::ir
