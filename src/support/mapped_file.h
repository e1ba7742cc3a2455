// A file mapped read-only into memory. Pages are read when they are touched and may be dropped again by the system, so
// opening a large file costs neither time nor memory.
//
// The mapping must not outlive the file's content: who truncates a file that is mapped makes its reader fail
// (SIGBUS). Files are therefore replaced by renaming, never rewritten in place.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace anfora {

class MappedFile {
 public:
  // Throws NotFound when there is no such file, Io when it is not a regular file or cannot be read.
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);
  // Whether the file, by whatever name, is mapped by someone now.
  static bool is_open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile(std::filesystem::path path, const void* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::filesystem::path path_;
  const void* data_;
  size_t size_;
};

// Gives back the memory of pages of mapped files: of all, or of those within a range, which may be any memory. They are
// read again when they are touched.
void drop_mapped_pages();
void drop_mapped_pages(const void* data, size_t bytes);

}  // namespace anfora
