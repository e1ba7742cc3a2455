#include "driver/session.h"

#include <utility>

#include "driver/explained_run.h"

namespace anfora::driver {

Session::Session(ir::Module&& module, ModelSource source, Prepare prepare, const CompileOptions& options)
    : source_(std::move(source)), may_contradict_(source_.is_onnx()), prepare_(std::move(prepare)), options_(options) {
  DeclaredShapes declared(module);
  compiled_.emplace_back(new Compiled{std::move(declared), compile_module(std::move(module), options_)});
  current_ = compiled_.back().get();
  options_.on_note = nullptr;  // the caller's, who waits no longer
  options_.tune_inputs.reset();
}

const Session::Compiled& Session::compile_apart(const Contradiction& found) {
  std::lock_guard lock(mutex_);
  const size_t known = apart_.size();
  apart_.insert(found.names.begin(), found.names.end());
  if (apart_.size() == known) return *compiled_.back();  // another thread was first
  LoadedModel again = load_model(source_, nullptr, apart_);
  if (prepare_) prepare_(*again.module);
  DeclaredShapes declared(*again.module);
  compiled_.emplace_back(new Compiled{std::move(declared), compile_module(std::move(*again.module), options_)});
  current_.store(compiled_.back().get(), std::memory_order_release);
  return *compiled_.back();
}

std::vector<Datum> Session::run(runtime::NamedData inputs, const runtime::RunOptions& options) {
  return run(executable().in_order(std::move(inputs)), options);
}

std::vector<Datum> Session::run(std::vector<Datum> inputs, const runtime::RunOptions& options) {
  std::vector<Datum> outputs(executable().outputs().size());
  run(inputs, outputs, options);
  return outputs;
}

void Session::run(std::span<const Datum> inputs, std::span<Datum> outputs, const runtime::RunOptions& options) {
  const Compiled* compiled = current_.load(std::memory_order_acquire);
  if (may_contradict_) {
    if (const Contradiction found = compiled->declared.check_inputs(inputs)) compiled = &compile_apart(found);
  }
  run_explained(compiled->executable, source_, inputs, outputs, options);
}

}  // namespace anfora::driver
