// What stands behind an executable of the public API and of Python: a program as it was loaded, or one that the compiler makes again where
// inputs ask for that (driver/session.h).
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "runtime/executable.h"

namespace anfora::runtime {

class RunnableProgram {
 public:
  virtual ~RunnableProgram() = default;
  // The program that the next run begins with.
  virtual const Executable& executable() const = 0;
  // Inputs and outputs by position, as Executable::run() takes them; any number of threads at once.
  virtual void run(std::span<const Datum> inputs, std::span<Datum> outputs, const RunOptions& options = {}) = 0;
};

// Of a file (artifact.h): the names of its dimensions hold.
class LoadedProgram : public RunnableProgram {
 public:
  explicit LoadedProgram(Executable executable) : executable_(std::move(executable)) {}
  const Executable& executable() const override { return executable_; }
  void run(std::span<const Datum> inputs, std::span<Datum> outputs, const RunOptions& options = {}) override {
    executable_.run(inputs, outputs, options);
  }

 private:
  const Executable executable_;
};

// Throws what load_artifact() does, and InvalidArgument where `threads` is negative.
std::unique_ptr<RunnableProgram> load_program(const std::filesystem::path& path, int threads);
// Throws InvalidArgument where that is no number of them.
void require_threads(int threads);

}  // namespace anfora::runtime
