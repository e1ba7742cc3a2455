// Options with few choices that several commands have.
#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "driver/target.h"
#include "kernels/generated/isa.h"

namespace anfora::cli {

using rewrite::Promise;

void add_math(CLI::App& command, Promise& promise) {
  auto set = [&promise](const std::string& name) {
    promise = name == "exact" ? Promise::Exact : name == "finite" ? Promise::Finite : Promise::Real;
  };
  command
      .add_option_function<std::string>("--math", set,
                                        "what rewrites may change: exact (no bit), finite (results that are NaN or "
                                        "infinite), real (and rounding; default)")
      ->check(CLI::IsMember({"exact", "finite", "real"}));
}

void add_target(CLI::App& command, std::string& target) {
  std::vector<std::string> names;
  for (const driver::Target& known : driver::targets()) names.emplace_back(known.name);
  command
      .add_option("--target", target,
                  "runtime the model is for: onnx (default), which is any that reads ONNX, or onnxruntime, which has "
                  "operators of its own (com.microsoft) in every operator set")
      ->check(CLI::IsMember(names));
}

void add_tune(CLI::App& command, driver::Tune& tune) {
  command
      .add_option_function<std::string>(
          "--tune", [&tune](const std::string& name) { tune = driver::tune_named(name); },
          "measure kernels inside the model to choose them: off (default: a cost model does), fast (two candidates each, 5 s of runs "
          "at most) or full (all, two minutes); what was found is kept in ~/.cache/anfora, or ANFORA_CACHE")
      ->check(CLI::IsMember({"off", "fast", "full"}));
}

void add_isa(CLI::App& command) {
  auto limit = [](const std::string& name) { setenv("ANFORA_ISA", name.c_str(), 1); };
  std::vector<std::string> names;
  for (const auto& isa : kernels::generated::instruction_sets()) names.emplace_back(isa.name);
  command.add_option_function<std::string>("--isa", limit, "the newest instruction set to use (default: what the processor has)")
      ->check(CLI::IsMember(names));
}

}  // namespace anfora::cli
