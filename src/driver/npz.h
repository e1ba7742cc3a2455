// NumPy's files: one array (.npy) or a zip archive of named ones (.npz).
//
// bfloat16, the fp8 kinds and the sub-byte types, which NumPy lacks, are written as raw bytes of their size (|V2, |V1). Sequences
// are written as NAME.0, NAME.1, ….
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "anfora/tensor.h"

namespace anfora::driver {

using NamedTensors = std::map<std::string, Tensor>;

// Throw NotFound, Io or InvalidArgument with the file's name. Raw bytes of 2 are read as u16, of 1 as u8.
Tensor read_npy(const std::filesystem::path& path);
NamedTensors read_npz(const std::filesystem::path& path);

// Written under a temporary name and renamed.
void write_npz(const std::filesystem::path& path, std::span<const std::pair<std::string, Tensor>> tensors);

}  // namespace anfora::driver
