// Values that are more than a tensor: SequenceProto, OptionalProto and MapProto, as the data of a test case come in.
#pragma once

#include <string_view>

#include "frontend/onnx/tensor_proto.h"
#include "ir/type.h"
#include "support/datum.h"

namespace anfora::onnx {

// The message says nothing of its own kind: it is that which a value of the type is stored in. Null, like a type of
// which nothing is known: a TensorProto. Throws InvalidModel, Unsupported.
Datum read_value(std::string_view bytes, const ir::Type* type, const TensorSource& source);

}  // namespace anfora::onnx
