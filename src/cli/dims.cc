#include <fmt/format.h>

#include <CLI/App.hpp>
#include <charconv>

#include "cli/command.h"

namespace anfora::cli {

void add_dims(CLI::App& command, std::map<std::string, int64_t, std::less<>>& dims) {
  auto set = [&dims](const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments) {
      const size_t equals = argument.find('=');
      const char* end = argument.data() + argument.size();
      int64_t size = -1;
      const char* from = equals == std::string::npos ? end : argument.data() + equals + 1;
      const auto [stop, error] = std::from_chars(from, end, size);
      if (equals == 0 || stop != end || error != std::errc() || size < 0)
        throw CLI::ValidationError("--dim", fmt::format("NAME=SIZE is asked for, not '{}'", argument));
      dims[argument.substr(0, equals)] = size;
    }
  };
  command
      .add_option_function<std::vector<std::string>>("--dim", set,
                                                     "NAME=SIZE: a symbolic dimension of made-up inputs (default 2)")
      ->type_name("NAME=SIZE")
      ->allow_extra_args(false);
}

}  // namespace anfora::cli
