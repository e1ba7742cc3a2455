// How reports write numbers and set off words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anfora::driver {

std::string human_bytes(int64_t bytes);                    // "98.4 MB"
std::string human_flops(double flops);                     // "8.2 GFLOP"
std::string human_count(int64_t count);                    // "25.6 M"
std::string signed_count(int64_t count);                   // "−212", "+3", "0"
std::string counted(size_t count, std::string_view what);  // "1 node", "2 nodes"

// What begins and ends a style on a terminal; empty where text has none.
struct Style {
  std::string bold, dim, green, red, plain;
};

}  // namespace anfora::driver
