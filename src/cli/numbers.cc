// Numbers on the command line. CLI11 itself takes "-3" for an unsigned number, "010" for eight, and what is too large for the largest.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "cli/command.h"

namespace anfora::cli {
namespace {

constexpr int kMostThreads = 1024;

template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && stop == end;
}

}  // namespace

CLI::Validator whole_number(int64_t low, uint64_t high) {
  auto check = [low, high](std::string& text) -> std::string {
    int64_t negative = 0;
    uint64_t value = 0;
    const bool is_negative = text.starts_with('-') && parse(text, negative);
    if (is_negative ? negative >= low
                    : parse(text, value) && value <= high && (low <= 0 || value >= static_cast<uint64_t>(low))) {
      text = is_negative ? fmt::format("{}", negative) : fmt::format("{}", value);
      return "";
    }
    const std::string range = high == std::numeric_limits<uint64_t>::max() ? fmt::format("of at least {}", low)
                                                                           : fmt::format("from {} to {}", low, high);
    return fmt::format("expected an integer {}, got '{}'", range, text);
  };
  return CLI::Validator(check, "", "whole_number");
}

CLI::Validator seconds(double least) {
  auto check = [least](std::string& text) -> std::string {
    double value = 0;
    if (parse(text, value) && std::isfinite(value) && value >= least && value <= kMostSeconds) return "";
    return fmt::format("expected seconds from {} to {}, got '{}'", least, kMostSeconds, text);
  };
  return CLI::Validator(check, "", "seconds");
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "number of threads (default, or 0: all cores)")
      ->check(whole_number(0, kMostThreads));
}

void add_memory_limit(CLI::App& command, std::optional<int64_t>& bytes) {
  command
      .add_option_function<uint64_t>(
          "--memory-limit", [&bytes](const uint64_t& limit) { bytes = static_cast<int64_t>(limit); },
          "for intermediate values and results: what does not fit is computed again (64MB)")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
}

void add_seed(CLI::App& command, uint64_t& seed, const std::string& what) {
  command.add_option("--seed", seed, what)
      ->capture_default_str()
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()));
}

}  // namespace anfora::cli
