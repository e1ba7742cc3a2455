// Executables as Python sees them. The class belongs to anfora._runtime; anfora._core makes executables of models.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "anfora/cancellation.h"
#include "runtime/runnable_program.h"

namespace anfora::bindings {

namespace nb = nanobind;

// While it is there, work that this thread does lets other threads of Python run, and ends soon after Ctrl-C, or after `asked`,
// which may be null, was cancelled.
class Working {
 public:
  explicit Working(const Cancellation* asked = nullptr)
      : asked_(asked),
        is_main_(is_main_thread()),
        cancellation_(asked || is_main_ ? std::function<bool()>([this] { return is_to_end(); }) : nullptr),
        scope_(cancellation_) {}

 private:
  bool is_to_end() const { return (asked_ && asked_->is_cancelled()) || (is_main_ && has_signal()); }
  static bool is_main_thread() {
    // Whichever thread came here first: modules are imported when they are needed.
    static const auto main =
        nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
    return PyThread_get_thread_ident() == main;
  }
  // Short work is not made to wait for other threads of Python.
  bool has_signal() const {
    constexpr std::chrono::milliseconds kShort{20};
    if (std::chrono::steady_clock::now() - begun_ < kShort) return false;
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return false;
  }

  const Cancellation* asked_;
  const bool is_main_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  Cancellation cancellation_;
  CancellationScope scope_;
  nb::gil_scoped_release released_;
};

struct ValueInfo {
  std::string name, type, dtype;  // dtype: "f32"; empty for what is no tensor, "any"
  nb::object shape;               // a list of sizes, names and None; None where not even the rank is known
  bool is_optional = false;
};

class Executable {
 public:
  explicit Executable(std::unique_ptr<runtime::RunnableProgram> program, std::vector<std::string> notes = {})
      : program_(std::move(program)), notes_(std::move(notes)) {}

  static Executable load(const std::filesystem::path& path, int threads);
  void save(const std::filesystem::path& path) const;
  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;
  // Appends what each kernel did to `events`, where that is a list. An output that is an array in `given` is written there.
  nb::list run(nb::sequence inputs, int threads, std::optional<uint64_t> seed, const Cancellation* cancellation,
               std::optional<nb::list> events, std::optional<nb::list> given);
  nb::dict memory() const;
  std::vector<std::string> missing_kernels() const { return program_->executable().missing_kernels(); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  nb::object donated_array(size_t i, const Datum& result, const nb::sequence& inputs,
                           const std::vector<Datum>& data) const;

  std::unique_ptr<runtime::RunnableProgram> program_;
  std::vector<std::string> notes_;  // of the compilation
};

}  // namespace anfora::bindings
