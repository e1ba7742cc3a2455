// The files beside a model that hold its large tensors. A model names them, so the names are not trusted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "support/mapped_file.h"

namespace anfora::onnx {

class ExternalData {
 public:
  struct Bytes {
    std::string_view bytes;
    std::shared_ptr<void> owner;
  };

  // `directory`: where the model lies. `real_directory`: where it lies once symbolic links are followed, for stores
  // that keep files under other names elsewhere and link to them. An empty directory: there is none, and every
  // reference is an error.
  // `model`: its file, or empty.
  ExternalData(std::filesystem::path directory, std::filesystem::path real_directory, std::filesystem::path model)
      : directory_(std::move(directory)), real_directory_(std::move(real_directory)), model_(std::move(model)) {}

  // `length` bytes from `offset` on of the file at `location`, relative to the directory. Without a length: to the
  // end of the file. Throws InvalidModel when the location is absolute or leads out of the directory, also by a link, or
  // the range is not in the file, NotFound when there is no such file.
  Bytes read(const std::string& location, uint64_t offset, std::optional<uint64_t> length);

 private:
  std::filesystem::path resolve(const std::string& location) const;
  void check_hard_links(const std::filesystem::path& path, const std::string& location) const;
  std::filesystem::path directory_, real_directory_, model_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

}  // namespace anfora::onnx
