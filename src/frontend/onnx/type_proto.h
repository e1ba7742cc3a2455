// TypeProto and ValueInfoProto to types of the IR, and back.
#pragma once

#include <protozero/pbf_writer.hpp>
#include <string_view>

#include "ir/context.h"

namespace anfora::onnx {

// Types nest at most this deep in a file: seq(opt(seq(…))).
inline constexpr int kDeepestType = 32;

// A dimension without a value, or with a negative one, is `?`; a named one is the symbol of that name. A tensor type
// without a shape is unranked, a sparse tensor is the dense one that it is read as, and an opaque type is any tensor.
const ir::Type* read_type(ir::Context& context, std::string_view bytes);

struct ValueInfo {
  std::string_view name;
  const ir::Type* type = nullptr;  // null when the file does not say
};
ValueInfo read_value_info(ir::Context& context, std::string_view bytes);

// The fields of a TypeProto. A dimension that is an expression is written as a named one under its text. Throws
// Unsupported for types that ONNX does not have (functions, tuples, state).
void write_type(protozero::pbf_writer& writer, const ir::Type* type);
void write_value_info(protozero::pbf_writer& writer, std::string_view name, const ir::Type* type);

}  // namespace anfora::onnx
