#include "ir/text_file.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "support/atomic_file.h"
#include "support/mapped_file.h"

namespace anfora::ir {
namespace {

std::filesystem::path sidecar_of(const std::filesystem::path& text) { return text.string() + ".data"; }

}  // namespace

std::unique_ptr<Module> read_text_file(Context& context, const std::filesystem::path& path) {
  std::shared_ptr<MappedFile> text = MappedFile::open(path);
  Sidecar sidecar;
  for (const std::filesystem::path& data : {sidecar_of(path), path.parent_path() / kSharedConstants}) {
    if (!std::filesystem::exists(data)) continue;
    std::shared_ptr<MappedFile> file = MappedFile::open(data);
    sidecar = Sidecar::read(file->bytes(), file);
    break;
  }
  std::string name = path.filename().string();
  return parse(context, text->text(), {.file = name, .sidecar = &sidecar, .locate = true});
}

uint64_t write_sidecar(const Sidecar& sidecar, const std::filesystem::path& path) {
  AtomicFile file(path);
  sidecar.write([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
  return file.size();
}

uint64_t write_text_file(const Module& module, const std::filesystem::path& path) {
  Sidecar sidecar;
  std::string text = print(module, {.sidecar = &sidecar});
  uint64_t bytes = text.size();
  if (!sidecar.empty()) bytes += write_sidecar(sidecar, sidecar_of(path));
  AtomicFile file(path);
  file.write(text);
  file.commit();
  return bytes;
}

}  // namespace anfora::ir
