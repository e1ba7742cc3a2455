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
        throw CLI::ValidationError("--dim", fmt::format("expected NAME=SIZE, got '{}'", argument));
      dims[argument.substr(0, equals)] = size;
    }
  };
  command
      .add_option_function<std::vector<std::string>>("--dim", set,
                                                     "a symbolic dimension of made-up inputs (default: searched, "
                                                     "from 2 on)")
      ->type_name("NAME=SIZE")
      ->allow_extra_args(false);
}

void add_pins(CLI::App& command, driver::Pins& pins) {
  auto set = [&pins](const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments) {
      auto refuse = [&] {
        throw CLI::ValidationError("--shape", fmt::format("expected NAME=SIZE,SIZE,…, got '{}'", argument));
      };
      const size_t equals = argument.rfind('=');
      if (equals == 0 || equals == std::string::npos) refuse();
      Shape shape;
      const char* at = argument.data() + equals + 1;
      const char* end = argument.data() + argument.size();
      while (at != end) {
        int64_t size = -1;
        const auto [stop, error] = std::from_chars(at, end, size);
        if (error != std::errc() || size < 0 || (stop != end && *stop != ',') || stop + 1 == end) refuse();
        shape.push_back(size);
        at = stop == end ? end : stop + 1;
      }
      if (!pins.shapes.emplace(argument.substr(0, equals), shape).second)
        throw CLI::ValidationError("--shape", fmt::format("'{}' is given twice", argument.substr(0, equals)));
    }
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--shape", set, "the shape of an input: what depends on its sizes becomes constant (NAME=1,3,320,320)")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  command
      .add_option_function<int64_t>(
          "--batch", [&pins](const int64_t& size) { pins.batch = size; },
          "the same for the first dimension of every input that has no fixed one")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace anfora::cli
