#include "frontend/onnx/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "anfora/error.h"

namespace anfora::onnx {
namespace fs = std::filesystem;

namespace {

bool is_below(const fs::path& path, const fs::path& directory) {
  auto [at, rest] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return at == directory.end() && rest != path.end();
}

}  // namespace

fs::path ExternalData::resolve(const std::string& location) const {
  if (directory_.empty()) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the data lies in the file '{}', but the model has no folder", location))
        .with_hint("read the model from its file, or say in which folder its data lies");
  }
  fs::path relative = fs::path(location).lexically_normal();
  bool has_zero = location.find('\0') != std::string::npos;
  if (location.empty() || has_zero || relative.is_absolute() || *relative.begin() == ".." || relative == ".") {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the location '{}' of external data is not below the model's folder", location))
        .with_hint("locations are relative paths without '..'");
  }
  fs::path path = directory_ / relative;
  // Links may lead elsewhere, but only to where the model itself lies.
  std::error_code failed;
  fs::path real = fs::canonical(path, failed);
  if (failed) return path;  // opening it tells what is wrong
  if (!is_below(real, fs::canonical(directory_, failed)) && !is_below(real, real_directory_)) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the external data '{}' is a link out of the model's folder", location));
  }
  return path;
}

// A hard link shows nothing of where else the file lies: as onnx's own checker, this takes a file of several names for one that does
// not belong to the model. Package managers that link whole packages from a store link the model in the same way.
void ExternalData::check_hard_links(const fs::path& path, const std::string& location) const {
  std::error_code failed;
  const uintmax_t names = fs::hard_link_count(path, failed);
  if (failed || names <= 1) return;  // opening it tells what is wrong
  const uintmax_t names_of_model = model_.empty() ? 1 : fs::hard_link_count(model_, failed);
  if (!failed && names_of_model == names) return;
  throw Error(ErrorCode::InvalidModel,
              fmt::format("the external data '{}' has {} hard links: it may lie out of the model's folder as well",
                          location, names))
      .with_hint("a copy of the file in its place has one");
}

ExternalData::Bytes ExternalData::read(const std::string& location, uint64_t offset, std::optional<uint64_t> length) {
  std::shared_ptr<MappedFile>& file = files_[location];
  if (!file) {
    fs::path path = resolve(location);
    check_hard_links(path, location);
    try {
      file = MappedFile::open(path);
    } catch (Error& e) {
      throw Error(e.code(), fmt::format("the external data '{}': {}", location, e.message()))
          .with_hint("keep the data files in the folder of the model");
    }
  }
  uint64_t size = file->size();
  if (offset > size || (length && *length > size - offset)) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the external data '{}' has {} bytes; the tensor is said to lie at {}{}", location, size,
                            offset, length ? fmt::format(" with {} bytes", *length) : ""));
  }
  return {file->text().substr(offset, length.value_or(size - offset)), file};
}

}  // namespace anfora::onnx
