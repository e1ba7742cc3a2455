// The files of a command: nothing that it reads is overwritten, and no two results go to one file. What is the same file is told by
// the file, not by its name: links and other spellings count.
#pragma once

#include <string>
#include <vector>

namespace anfora::cli {

class Files {
 public:
  // Empty names are files that are not asked for. "NAME=FILE", as --input takes it, reads FILE.
  Files& reads(const std::string& file);
  Files& reads(const std::vector<std::string>& files);
  // `what`: "--output"; `with_data`: a model, which may be written in two files.
  Files& writes(const std::string& what, const std::string& file, bool with_data = false);

  // Before anything is done. Throws UsageError.
  void check() const;
  // Once models are loaded: nor is the external data of any overwritten.
  void check_loaded() const;

 private:
  struct Output {
    std::string what, file;
    bool is_data;  // beside a model, where it is too large for one file
  };
  std::vector<std::string> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace anfora::cli
