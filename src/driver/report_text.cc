#include "driver/report_text.h"

#include <fmt/format.h>

#include <cmath>

namespace anfora::driver {
namespace {

std::string scaled(double value, const char* const* units, int count) {
  int i = 0;
  while (i + 1 < count && std::abs(value) >= 999.5) {
    value /= 1000;
    ++i;
  }
  return i == 0 ? fmt::format("{:.0f} {}", value, units[i]) : fmt::format("{:.1f} {}", value, units[i]);
}

}  // namespace

std::string human_bytes(int64_t bytes) {
  static const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  return scaled(static_cast<double>(bytes), units, 5);
}
std::string human_flops(double flops) {
  static const char* const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"};
  return scaled(flops, units, 5);
}
std::string human_count(int64_t count) {
  static const char* const units[] = {"", "k", "M", "G"};
  std::string text = scaled(static_cast<double>(count), units, 4);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}
std::string signed_count(int64_t count) {
  return count < 0 ? fmt::format("−{}", -count) : count > 0 ? fmt::format("+{}", count) : "0";
}

std::string counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace anfora::driver
