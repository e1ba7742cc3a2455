// Files and folders that exist only while something is being written, by their names: what ends the process at once, a signal
// handler, removes them first.
#pragma once

#include <filesystem>

namespace anfora {

// Removes the file, or the folder with the files in it, that is named when it goes; keep() lets it stay.
class TemporaryFile {
 public:
  TemporaryFile() = default;  // names nothing
  explicit TemporaryFile(std::filesystem::path path);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  void keep() { forget(); }

 private:
  void forget();
  std::filesystem::path path_;
  int slot_ = -1;  // among those that a signal handler knows; -1: there was no room
};

// ".small.onnx.4711.0.tmp" beside the file that it will become: no other process or call has it.
std::filesystem::path temporary_name(const std::filesystem::path& target);

// For signal handlers: removes those of the whole process, unless a group of files is being put into place at this moment; then it
// returns false and has done nothing.
bool remove_temporary_files() noexcept;

// While files are put into place that belong together, the process does not end at once.
class PuttingIntoPlace {
 public:
  PuttingIntoPlace();
  ~PuttingIntoPlace();
  PuttingIntoPlace(const PuttingIntoPlace&) = delete;
};

}  // namespace anfora
