// A model that is written beside where it belongs and put there once it is found right. Until then nothing that lies there is touched,
// and what is not accepted leaves nothing.
//
//     StagedModel staged("small.onnx");
//     save_model(module, staged.path());      // .small.onnx.4711.0.tmp/small.onnx, and its data
//     … load_model(staged.path()) …
//     staged.accept();                        // small.onnx, small.onnx.data
#pragma once

#include <filesystem>

#include "support/temporary_files.h"

namespace anfora::driver {

class StagedModel {
 public:
  // Throws Io where the folder of the target cannot be written to.
  explicit StagedModel(const std::filesystem::path& target);

  // Of the same name as the target, in a folder of its own.
  const std::filesystem::path& path() const { return path_; }

  // Throws Io. A target that is a device or a pipe gets the bytes; external data is not possible there.
  void accept();

 private:
  std::filesystem::path target_, data_folder_, path_;
  TemporaryFile folder_, model_, data_;
  bool is_stream_ = false;
};

}  // namespace anfora::driver
