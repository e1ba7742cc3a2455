#include "support/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

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

// The mappings that exist, by address.
struct Mapping {
  size_t size;
  dev_t device;
  ino_t file;
};
struct Mappings {
  std::mutex mutex;
  std::map<uintptr_t, Mapping> all;
};
Mappings& mappings() {
  static Mappings* all = new Mappings;  // files may be closed as late as the program ends
  return *all;
}

void drop_pages(uintptr_t begin, uintptr_t end) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  begin = (begin + page - 1) / page * page;
  end = end / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

void drop_mapped_pages() {
  std::lock_guard lock(mappings().mutex);
  for (const auto& [begin, mapping] : mappings().all) drop_pages(begin, begin + mapping.size);
}

void drop_mapped_pages(const void* data, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(mappings().mutex);
  auto after = mappings().all.upper_bound(begin);
  if (after == mappings().all.begin()) return;
  const auto& [start, mapping] = *std::prev(after);
  if (begin + bytes <= start + mapping.size) drop_pages(begin, begin + bytes);
}

bool MappedFile::is_open(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return false;
  std::lock_guard lock(mappings().mutex);
  return std::ranges::any_of(mappings().all, [&](const auto& entry) {
    return entry.second.device == status.st_dev && entry.second.file == status.st_ino;
  });
}

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw file_error(ErrorCode::NotFound, path, "there is no such file");
    throw file_error(ErrorCode::Io, path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  }
  struct stat status{};
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
  if (data) {
    std::lock_guard lock(mappings().mutex);
    mappings().all.emplace(reinterpret_cast<uintptr_t>(data), Mapping{size, status.st_dev, status.st_ino});
  }
  return std::shared_ptr<MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (!data_) return;
  {
    std::lock_guard lock(mappings().mutex);
    mappings().all.erase(reinterpret_cast<uintptr_t>(data_));
  }
  ::munmap(const_cast<void*>(data_), size_);
}

}  // namespace anfora
