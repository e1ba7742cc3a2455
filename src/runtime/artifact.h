// A compiled program in a file (.anf), so that it can run without being compiled again:
//
//     header     what the file is, what it was compiled for, where its parts lie, and the sum of the records
//     records    functions, kernels and the signature
//     elements   of constants and packed weights, each at a multiple of 64 bytes
//
// Elements are mapped: pages are read when a kernel touches them, and all processes that have loaded the file share them. So a file
// must be replaced, not rewritten, while it is in use (support/mapped_file.h). A file is code: load only what you would run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace anfora::runtime {

// Writes the file whole or not at all; not while a run is under way. Throws Io, and Unsupported where a constant is of a kind that
// has no form in a file.
void save_artifact(const Executable& executable, const std::filesystem::path& path);

struct LoadOptions {
  int threads = 0;              // 0: as many as it was compiled for
  bool check_elements = false;  // reads them all, and compares them with their sums
  // Kernels of one's own, as plan::CompileOptions has them.
  const kernels::KernelRegistry* kernels = nullptr;
  std::vector<const kernels::PreparedRegistry*> prepared;
};

// Throws NotFound, Io, InvalidModel where the file is none of save_artifact() or damaged, Unsupported where it was made by another
// version or for another processor.
Executable load_artifact(const std::filesystem::path& path, const LoadOptions& options = {});

// What a file was compiled for: the version, and the processor's instructions.
std::string artifact_origin();

}  // namespace anfora::runtime
