#include "cli/text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace anfora::cli {
namespace {

bool is_colored(int descriptor) { return isatty(descriptor) && !std::getenv("NO_COLOR"); }
std::string code(const char* text) { return is_colored(STDOUT_FILENO) ? text : ""; }

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

constexpr int64_t kQuietMs = 2000;  // work that ends sooner shows nothing
constexpr int64_t kRedrawMs = 100;
constexpr int kBarWidth = 30;

}  // namespace

void print_json(std::FILE* to, const nlohmann::ordered_json& json) {
  fmt::print(to, "{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}
std::string left_aligned(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, display_width(text)), ' ');
}
std::string right_aligned(const std::string& text, size_t width) {
  return std::string(width - std::min(width, display_width(text)), ' ') + text;
}

std::string bold() { return code("\033[1m"); }
std::string dim() { return code("\033[2m"); }
std::string green() { return code("\033[32m"); }
std::string red() { return code("\033[31m"); }
std::string yellow() { return code("\033[33m"); }
std::string plain() { return code("\033[0m"); }
driver::Style style() { return {bold(), dim(), green(), red(), plain()}; }

void print_note(const std::string& note) { fmt::print(stderr, "{}\n", note); }

Progress::Progress(std::string what) : what_(std::move(what)), started_ms_(now_ms()) {}

void Progress::update(double fraction, const std::string& step) {
  int64_t now = now_ms();
  if (now - started_ms_ < kQuietMs || now - drawn_ms_ < kRedrawMs || !isatty(STDERR_FILENO)) return;
  drawn_ms_ = now;
  drawn_ = true;
  std::string bar;
  if (fraction >= 0) {
    int filled = static_cast<int>(fraction * kBarWidth);
    bar = fmt::format(" [{}{}] {:3.0f} %", std::string(filled, '#'), std::string(kBarWidth - filled, ' '),
                      fraction * 100);
  }
  fmt::print(stderr, "\r\033[K{}{} {} ({:.0f} s)", what_, bar, step, static_cast<double>(now - started_ms_) / 1000);
  std::fflush(stderr);
}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

}  // namespace anfora::cli
