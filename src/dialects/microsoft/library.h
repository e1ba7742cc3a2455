// What operators of ONNX Runtime (domains com.microsoft, com.microsoft.nchwc) mean, in those of ONNX: *.ir of this folder.
#pragma once

#include <span>

#include "ir/library.h"

namespace anfora::microsoft {

std::span<const ir::Library::File> library_files();

}  // namespace anfora::microsoft
