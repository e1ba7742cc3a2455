#pragma once

namespace anfora::cli {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace anfora::cli
