// What an exported model says of the types of its values.
#pragma once

#include "ir/context.h"

namespace anfora::onnx {

// The type as a model may state it; null where it may say nothing: element types that are not known, types that ONNX
// does not have. Dimensions that inference named by itself mean nothing outside of the module and become unknown.
const ir::Type* public_type(ir::Context& context, const ir::Type* type);

// What inference found, and where it found nothing (a rank that depends on data) what the source declared. The
// source's names of dimensions stay. Each may be null.
const ir::Type* refined_type(ir::Context& context, const ir::Type* declared, const ir::Type* inferred);

}  // namespace anfora::onnx
