// A file that a command writes, where "-" is standard output.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "support/temporary_files.h"

namespace anfora::cli {

inline constexpr std::string_view kStandardOutput = "-";

class Output {
 public:
  // `extension` says what is written where the name cannot: ".onnx". Throws UsageError where bytes would go to a terminal.
  Output(const std::string& path, std::string_view extension);
  // Where it is to be written: the file that was named, or a temporary one.
  const std::filesystem::path& file() const { return file_; }
  // What the command says goes where the output does not.
  std::FILE* messages() const { return is_standard_ ? stderr : stdout; }
  // After file() was written: hands it on to standard output, where that is meant.
  void finish();

 private:
  bool is_standard_;
  TemporaryFile folder_;  // of the temporary file
  std::filesystem::path file_;
};

// Writes a text to a file; to standard output where none is named, or "-" is.
void write_text(const std::string& path, const std::string& text);

// SVG of a graph in dot's language. Throws NotFound where Graphviz is not installed, or fails.
std::string draw(const std::string& dot);

}  // namespace anfora::cli
