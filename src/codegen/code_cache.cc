#include "codegen/code_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "anfora/error.h"
#include "support/atomic_file.h"
#include "support/cache_folder.h"
#include "support/hash.h"
#include "support/mapped_file.h"

namespace anfora::codegen {
namespace fs = std::filesystem;
using kernels::generated::Isa;
using kernels::generated::MachineCode;

namespace {

constexpr const char* kEnding = ".code";

// A file: this, the entries, the bytes.
struct CodeHeader {
  char magic[8] = {'a', 'n', 'f', 'c', 'o', 'd', 'e', '1'};
  int64_t entries = 0, bytes = 0;
  ContentHash content;  // of what follows
};

// Code that others can write could do anything.
bool is_own(const fs::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::span<const std::byte> bytes_of(const auto& items) { return std::as_bytes(std::span(items)); }

std::optional<MachineCode> parse_code(std::span<const std::byte> file, Isa isa) {
  CodeHeader header;
  if (file.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof(header));
  const std::span<const std::byte> rest = file.subspan(sizeof(header));
  const auto size = static_cast<int64_t>(rest.size());
  if (std::memcmp(header.magic, CodeHeader().magic, sizeof(header.magic)) != 0 || header.entries < 0 || header.entries > size / 8 ||
      header.bytes != size - header.entries * 8 || header.content != content_hash(rest.data(), rest.size()))
    return std::nullopt;
  MachineCode code{.isa = isa, .entries = {}, .bytes = Tensor::allocate(DType::U8, Shape{header.bytes})};
  code.entries.resize(static_cast<size_t>(header.entries));
  const size_t entry_bytes = code.entries.size() * sizeof(int64_t);
  std::memcpy(code.entries.data(), rest.data(), entry_bytes);
  std::memcpy(code.bytes.raw(), rest.data() + entry_bytes, rest.size() - entry_bytes);
  return code;
}

}  // namespace

CodeCache::CodeCache() : CodeCache(cache_folder()) {}

CodeCache::CodeCache(std::optional<fs::path> folder, size_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {
  if (folder_) *folder_ /= "code";
}

fs::path CodeCache::path_of(Isa isa, std::string_view functions) const {
  const std::string all = fmt::format("{}\n{}\n{}", generator_version(), describe(isa).name, functions);
  return *folder_ / (to_string(content_hash(all.data(), all.size())) + kEnding);
}

std::optional<MachineCode> CodeCache::find(Isa isa, std::string_view functions) const {
  if (!folder_ || !is_own(*folder_)) return std::nullopt;
  const fs::path path = path_of(isa, functions);
  if (!is_own(path)) return std::nullopt;
  try {
    return parse_code(MappedFile::open(path)->bytes(), isa);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void CodeCache::keep(std::string_view functions, const MachineCode& code) const {
  if (!folder_) return;
  try {
    make_cache_folder(*folder_);
    std::call_once(has_room_, [&] { make_room(); });
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(code.bytes.raw()), code.bytes.bytes());
    std::vector<std::byte> content(bytes_of(code.entries).begin(), bytes_of(code.entries).end());
    content.insert(content.end(), bytes.begin(), bytes.end());
    const CodeHeader header{.entries = std::ssize(code.entries),
                            .bytes = code.bytes.size(),
                            .content = content_hash(content.data(), content.size())};
    AtomicFile file(path_of(code.isa, functions));
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(std::span<const std::byte>(content));
    file.commit();
  } catch (const Error&) {  // no room, or a folder that is only read
  } catch (const fs::filesystem_error&) {
  }
}

void CodeCache::make_room() const {
  struct Entry {
    fs::file_time_type written;
    size_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  size_t total = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(*folder_)) {
    std::error_code gone;  // another process makes room, too
    if (file.path().extension() != kEnding) continue;
    const size_t bytes = file.file_size(gone);
    if (gone) continue;
    entries.push_back({file.last_write_time(gone), bytes, file.path()});
    total += bytes;
  }
  if (total <= most_bytes_) return;
  std::ranges::sort(entries, {}, &Entry::written);
  for (const Entry& entry : entries) {
    if (total <= most_bytes_ / 2) return;
    std::error_code gone;
    fs::remove(entry.path, gone);
    total -= entry.bytes;
  }
}

}  // namespace anfora::codegen
