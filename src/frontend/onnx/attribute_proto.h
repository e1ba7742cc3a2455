// AttributeProto to attribute values.
#pragma once

#include <optional>
#include <string_view>

#include "frontend/onnx/tensor_proto.h"
#include "ir/context.h"
#include "support/attribute.h"

namespace anfora::onnx {

// An attribute as the file has it. Kinds that the IR has no value for (graphs, sparse tensors in lists, lists of types)
// stay bytes.
struct FileAttribute {
  std::string_view name;
  std::string_view reference;  // ref_attr_name: the attribute of the enclosing function that it takes
  std::string_view graph;      // bytes of a GraphProto
  bool has_graph = false;
  std::optional<AttributeValue> value;  // empty: a graph, a reference, or a kind without a value
  std::string_view bytes;               // the whole AttributeProto
};

// The name only.
std::string_view read_attribute_name(std::string_view bytes);
FileAttribute read_attribute(ir::Context& context, std::string_view bytes, const TensorSource& source);

}  // namespace anfora::onnx
