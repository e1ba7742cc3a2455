// TypeProto and ValueInfoProto to types of the IR, and back; what messages say about themselves beside.
#pragma once

#include <boost/container/small_vector.hpp>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <string>
#include <string_view>

#include "ir/annotations.h"
#include "ir/context.h"

namespace anfora::onnx {

// Types nest at most this deep in a file: seq(opt(seq(…))).
inline constexpr int kDeepestType = 32;

// A dimension without a value, or with a negative one, is `?`, and so is one whose name says nothing (`?`, `-1`, `None`);
// with any other name it is the symbol of that name. A tensor type
// without a shape is unranked, a sparse tensor is the dense one that it is read as, and an opaque type is any tensor.
const ir::Type* read_type(ir::Context& context, std::string_view bytes);

// The type with `?` where a dimension has one of the names.
using DimNames = std::set<std::string, std::less<>>;
const ir::Type* without_names(ir::Context& context, const ir::Type* type, const DimNames& names);

struct ValueInfo {
  std::string_view name;
  const ir::Type* type = nullptr;  // null when the file does not say
  std::string_view doc;
  boost::container::small_vector<std::string_view, 1> properties;  // each a StringStringEntryProto
};
ValueInfo read_value_info(ir::Context& context, std::string_view bytes);
// All but the type.
ValueInfo read_value_info(std::string_view bytes);

// The fields of a TypeProto. A dimension that is an expression is written as a named one under its text. Throws
// Unsupported for types that ONNX does not have (functions, tuples, state).
void write_type(protozero::pbf_writer& writer, const ir::Type* type);
void write_value_info(protozero::pbf_writer& writer, std::string_view name, const ir::Type* type,
                      const ir::Annotation* annotation = nullptr);

// Documentation and properties, which several messages have under numbers of their own.
ir::Annotation read_annotation(std::string_view doc, std::span<const std::string_view> properties);
template <class Fields>
ir::Annotation read_annotation(const Fields& fields) {
  return read_annotation(fields.doc, {fields.properties.data(), fields.properties.size()});
}
void write_annotation(protozero::pbf_writer& writer, uint32_t doc_field, uint32_t properties_field,
                      const ir::Annotation* annotation);
void write_entry(protozero::pbf_writer& writer, uint32_t field, std::string_view key, std::string_view value);

}  // namespace anfora::onnx
