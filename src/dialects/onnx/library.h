// What operators of ONNX are made of that run faster in parts: *.ir of this folder.
#pragma once

#include <span>

#include "ir/library.h"

namespace anfora::onnx_parts {

std::span<const ir::Library::File> library_files();

}  // namespace anfora::onnx_parts
