#include "cli/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/output.h"
#include "driver/inputs.h"
#include "support/mapped_file.h"

namespace anfora::cli {
namespace fs = std::filesystem;

namespace {

// Devices and pipes may be written by several, and read as well.
bool is_stream(const fs::path& file) {
  std::error_code failed;
  const fs::file_status status = fs::status(file, failed);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  if (is_stream(a) || is_stream(b)) return false;
  if (fs::equivalent(a, b, failed)) return true;
  auto real = [&](const fs::path& file) { return fs::weakly_canonical(fs::absolute(file, failed), failed); };
  return !real(a).empty() && real(a) == real(b);  // where they do not exist yet
}

[[noreturn]] void refuse(const std::string& message) {
  throw UsageError{Error(ErrorCode::InvalidArgument, message).with_hint("choose another name for the result")};
}

// What is known before the work is told before it.
void require_writable(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  int error = 0;
  std::error_code failed;
  if (fs::is_directory(file, failed)) {
    error = EISDIR;
  } else if (!is_stream(file) && access(folder.c_str(), W_OK | X_OK) != 0) {
    error = errno;
  }
  if (error == 0) return;
  throw Error(ErrorCode::Io, fmt::format("cannot write {}: {}", file.string(), std::generic_category().message(error)));
}

}  // namespace

Files& Files::reads(const std::string& file) {
  if (!file.empty()) inputs_.push_back(file);
  return *this;
}

Files& Files::reads(const std::vector<std::string>& files) {
  for (const std::string& file : files) reads(driver::path_of_input(file).string());
  return *this;
}

Files& Files::writes(const std::string& what, const std::string& file, bool with_data) {
  if (file.empty() || file == kStandardOutput) return *this;
  outputs_.push_back({what, file, false});
  if (with_data && !is_stream(file)) outputs_.push_back({what, file + ".data", true});
  return *this;
}

void Files::check() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    if (!output.is_data) require_writable(output.file);
    for (const std::string& input : inputs_) {
      if (is_same(output.file, input)) refuse(fmt::format("{} would overwrite the input {}", output.what, input));
    }
    for (size_t k = 0; k < i; ++k) {
      if (is_same(output.file, outputs_[k].file)) {
        refuse(fmt::format("{} and {} are the same file, {}", outputs_[k].what, output.what, output.file));
      }
    }
  }
}

void Files::check_loaded() const {
  for (const Output& output : outputs_) {
    if (MappedFile::is_open(output.file)) {
      refuse(fmt::format("{} would overwrite {}, which holds data of the model", output.what, output.file));
    }
  }
}

}  // namespace anfora::cli
