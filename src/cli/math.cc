#include <CLI/App.hpp>

#include "cli/command.h"

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

}  // namespace anfora::cli
