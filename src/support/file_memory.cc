#include "support/file_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "anfora/error.h"

namespace anfora {
namespace {

struct UnnamedFile {
  int fd;
  ~UnnamedFile() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void refuse_file(const std::string& folder, std::string_view what) {
  const int number = errno;
  const bool is_full = number == ENOSPC || number == EDQUOT || number == EFBIG || number == ENOMEM;
  Error error(is_full ? ErrorCode::ResourceExhausted : ErrorCode::Io, fmt::format("{}: {}", what, std::strerror(number)));
  error.at_location(folder);
  throw error.with_hint("values that a memory limit leaves no room for lie in files; the variable TMPDIR names the folder");
}

std::string folder_of_files() {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(ignored);
  return folder.empty() ? "/tmp" : folder.string();
}

}  // namespace

std::shared_ptr<void> copy_into_file(std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  const std::string folder = folder_of_files();
  std::string name = folder + "/anfora-XXXXXX";
  const UnnamedFile file{::mkstemp(name.data())};
  if (file.fd < 0) refuse_file(folder, "cannot make a file");
  ::unlink(name.c_str());
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::pwrite(file.fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) refuse_file(folder, "cannot write a file");
    if (written > 0) done += static_cast<size_t>(written);
  }
  // Private: a reader may write over what it reads last, which needs no file.
  const size_t size = bytes.size();
  void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) refuse_file(folder, "cannot map a file");
  return {data, [size](void* mapped) { ::munmap(mapped, size); }};
}

}  // namespace anfora
