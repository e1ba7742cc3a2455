#include "support/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "anfora/error.h"

namespace anfora {
namespace fs = std::filesystem;

namespace {

constexpr mode_t kPermissions = 0666;  // less the umask

// One write call moves at most this much: Linux transfers no more than 2 GB − 4 KB a call.
constexpr size_t kWriteBytes = size_t{1} << 30;

// Through which an open file that has no name is given one.
constexpr const char* kOpenFiles = "/proc/self/fd";

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : target_(path) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(path, error))) {
    fs::path resolved = fs::weakly_canonical(path, error);
    if (!error) target_ = resolved;
  }
  fs::file_status status = fs::status(target_, error);
  if (fs::is_directory(status)) fail("write", EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // A file of that name can only be left over from a killed process that had this process's number.
    temporary_ = temporary_name(target_);
    fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
    bool can_be_named_later = access(kOpenFiles, X_OK) == 0;
    if (can_be_named_later) descriptor_ = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, kPermissions);
    if (descriptor_ < 0) {
      descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kPermissions);
      if (descriptor_ >= 0) named_ = TemporaryFile(temporary_);
    }
  }
  if (descriptor_ < 0) {
    int cause = errno;
    temporary_.clear();
    fail("create", cause);
  }
  buffer_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
  named_ = TemporaryFile();
  temporary_.clear();
}

void AtomicFile::fail(const char* action, int error) {
  discard();
  Error exception(ErrorCode::Io,
                  fmt::format("cannot {} {}: {}", action, target_.string(), std::generic_category().message(error)));
  if (error == ENOSPC || error == EDQUOT) exception.with_hint("free some space or choose another folder");
  throw exception;
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kWriteBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes) return write_through(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::commit() {
  flush();
  if (!temporary_.empty() && named_.path().empty()) {
    unlink(temporary_.c_str());
    named_ = TemporaryFile(temporary_);
    std::string open_file = fmt::format("{}/{}", kOpenFiles, descriptor_);
    if (linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail("write", errno);
  }
  // Some file systems report a full disk only here.
  int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) fail("write", errno);
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail("replace", errno);
  named_.keep();
  temporary_.clear();
}

}  // namespace anfora
