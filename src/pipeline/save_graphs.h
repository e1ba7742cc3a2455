// A folder with the module after each stage of a pipeline: NN_stage.ir, and the constants of all of them in one file.
#pragma once

#include <filesystem>
#include <string_view>

#include "ir/module.h"
#include "ir/sidecar.h"

namespace anfora::pipeline {

class GraphSaver {
 public:
  // Makes the folder, or throws Io.
  explicit GraphSaver(std::filesystem::path folder);

  void save(const ir::Module& module, std::string_view stage);
  // Writes the constants; the texts cannot be read without.
  void finish();

 private:
  std::filesystem::path folder_;
  ir::Sidecar constants_;
  int next_ = 0;
};

}  // namespace anfora::pipeline
