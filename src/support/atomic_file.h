// A file that appears whole or not at all. What is written goes to a temporary file in the same folder, which
// commit() renames over the target; without a commit the destructor removes it. Where the file system can (O_TMPFILE), the
// temporary file has no name until then, so that a killed process leaves nothing either. There is no fsync: the
// promise is against errors and killed processes, not against a loss of power.
//
//     AtomicFile file("model.onnx");
//     file.write(bytes);
//     file.commit();
//
// A target that exists and is no regular file (/dev/stdout, a pipe) is written directly. A symbolic link is
// followed, so that it goes on pointing where it did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "support/temporary_files.h"

namespace anfora {

class AtomicFile {
 public:
  // Throws Io when the temporary file cannot be made.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Both throw Io and name the cause ("no space left on device"); the target is then untouched.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void commit();

  uint64_t size() const { return size_; }  // bytes written so far

 private:
  [[noreturn]] void fail(const char* action, int error);
  void flush();
  void write_through(std::span<const std::byte> bytes);
  void discard();

  static constexpr size_t kBufferBytes = size_t{1} << 18;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // its name; empty when the target is written directly
  TemporaryFile named_;              // once the temporary file is in its folder
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace anfora
