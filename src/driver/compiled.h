// Compiled models in files (.anf), as the commands and the bindings see them. What a file holds: runtime/artifact.h.
#pragma once

#include <filesystem>
#include <optional>

#include "driver/interface.h"
#include "driver/model.h"
#include "driver/pin.h"
#include "runtime/artifact.h"

namespace anfora::driver {

// A module that takes what a compiled model takes, by which inputs are read and made up; it computes nothing.
LoadedModel interface_of(const runtime::Signature& signature);
// Its inputs or outputs, with types of the context.
NamedTypes named_types(ir::Context& context, std::span<const runtime::ValueSpec> values);

// A model that is to run, whether it is compiled already or not.
class Runnable {
 public:
  // Loads what is compiled. Throws InvalidArgument for options that come too late for it.
  Runnable(std::filesystem::path path, Pins pins, CompileOptions options);

  // The model, or of a compiled one its interface.
  LoadedModel load() const;
  // Once. `tune_inputs`: see CompileOptions.
  runtime::Executable compile(LoadedModel&& loaded, std::optional<std::vector<Datum>> tune_inputs = {});

 private:
  std::filesystem::path path_;
  Pins pins_;
  CompileOptions options_;
  std::optional<runtime::Executable> compiled_;
  runtime::Signature signature_;  // of it
};

}  // namespace anfora::driver
