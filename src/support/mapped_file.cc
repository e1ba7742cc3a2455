#include "support/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "anfora/error.h"

namespace anfora {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error file_error(ErrorCode code, const std::filesystem::path& path, std::string_view what) {
  Error error(code, fmt::format("{}", what));
  error.at_location(path.string());
  return error;
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw file_error(ErrorCode::NotFound, path, "there is no such file");
    throw file_error(ErrorCode::Io, path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  }
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) {
    throw file_error(ErrorCode::Io, path, fmt::format("cannot be examined: {}", std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) throw file_error(ErrorCode::Io, path, "is a directory");
  if (!S_ISREG(status.st_mode)) throw file_error(ErrorCode::Io, path, "is not a regular file");
  size_t size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {  // an empty mapping is an error of the system call
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) {
      throw file_error(ErrorCode::Io, path, fmt::format("cannot be mapped into memory: {}", std::strerror(errno)));
    }
  }
  return std::shared_ptr<MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<void*>(data_), size_);
}

}  // namespace anfora
