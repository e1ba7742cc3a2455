// How the program writes numbers and tables.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "driver/report_text.h"

namespace anfora::cli {

using driver::counted;
using driver::human_bytes;
using driver::human_count;
using driver::human_flops;
using driver::signed_count;

// Padded with spaces to so many columns; characters are counted, not bytes.
std::string left_aligned(const std::string& text, size_t width);
std::string right_aligned(const std::string& text, size_t width);
size_t display_width(const std::string& text);

// On several lines. Names come from models and need not be UTF-8: what is not becomes U+FFFD.
void print_json(std::FILE* to, const nlohmann::ordered_json& json);

// ANSI codes on a terminal, empty elsewhere (and where NO_COLOR is set).
std::string bold();
std::string dim();
std::string green();
std::string red();
std::string yellow();
std::string plain();
driver::Style style();  // of them all

// What compiling has to say, on standard error: a command's results are on standard output.
void print_note(const std::string& note);

// A line that overwrites itself on a terminal's standard error once work takes longer than two seconds.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  // A fraction in [0, 1], or negative when it is not known; `step` says what is being done.
  void update(double fraction, const std::string& step = {});

 private:
  std::string what_;
  int64_t started_ms_;
  int64_t drawn_ms_ = 0;
  bool drawn_ = false;
};

}  // namespace anfora::cli
