// Machine code on disk, so that another process runs it without generating it.
//
// One file for each code in the folder `code` of the cache, called by the hash of what the code is made of: its functions, the instruction set, the
// sources of the generator and LLVM's version. A file that is damaged, that another user could have written, or that
// cannot be read counts as none; one that cannot be written is no error.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/generated/machine_code.h"

namespace anfora::codegen {

class CodeCache {
 public:
  // In cache_folder().
  CodeCache();
  // None: nothing is kept. Before the first code is kept, where there are more than so many bytes, half of them make room, the oldest first.
  explicit CodeCache(std::optional<std::filesystem::path> folder, size_t most_bytes = size_t{16} << 20);

  // Both by what stands for the functions, as encoded() does.
  std::optional<kernels::generated::MachineCode> find(kernels::generated::Isa isa, std::string_view functions) const;
  void keep(std::string_view functions, const kernels::generated::MachineCode& code) const;

 private:
  std::filesystem::path path_of(kernels::generated::Isa isa, std::string_view functions) const;
  void make_room() const;

  std::optional<std::filesystem::path> folder_;
  size_t most_bytes_;
  mutable std::once_flag has_room_;
};

// The hash of the sources of the generator and of LLVM's version, in hexadecimal digits. Written by the build.
std::string_view generator_version();

}  // namespace anfora::codegen
