// A compiled model that many threads may run, whatever sizes their inputs have.
//
//     Session session(std::move(module), "model.onnx", {}, {.threads = 2});
//     std::vector<Datum> outputs = session.run(std::move(inputs));
//
// Where the inputs of a run give one name of a dimension several sizes, the model is read again without that name, compiled,
// and used from then on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "driver/declared_shapes.h"
#include "driver/model.h"
#include "runtime/runnable_program.h"

namespace anfora::driver {

class Session : public runtime::RunnableProgram {
 public:
  // What was done to the module since it was read: done again where the model is read again.
  using Prepare = std::function<void(ir::Module&)>;

  // Consumes the module, but not its context, which is needed no more afterwards.
  Session(ir::Module&& module, ModelSource source, Prepare prepare, const CompileOptions& options = {});

  const runtime::Executable& executable() const override {
    return current_.load(std::memory_order_acquire)->executable;
  }
  // Inputs and outputs by position, as runtime::Executable::run() takes them. Errors of kernels are those of the model as it was
  // written.
  void run(std::span<const Datum> inputs, std::span<Datum> outputs, const runtime::RunOptions& options = {}) override;
  std::vector<Datum> run(std::vector<Datum> inputs, const runtime::RunOptions& options = {});
  // Inputs by name.
  std::vector<Datum> run(runtime::NamedData inputs, const runtime::RunOptions& options = {});

 private:
  struct Compiled {
    DeclaredShapes declared;
    runtime::Executable executable;
  };
  const Compiled& compile_apart(const Contradiction& found);

  const ModelSource source_;
  const bool may_contradict_;  // the types of the text form hold
  const Prepare prepare_;
  CompileOptions options_;
  std::mutex mutex_;  // of the following
  std::set<std::string, std::less<>> apart_;
  std::vector<std::unique_ptr<const Compiled>> compiled_;  // all, since a run may still use an older one
  std::atomic<const Compiled*> current_;
};

}  // namespace anfora::driver
