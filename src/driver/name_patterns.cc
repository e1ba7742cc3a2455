#include "driver/name_patterns.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include "anfora/error.h"

namespace anfora::driver {

NamePatterns::NamePatterns(const std::vector<std::string>& patterns) {
  for (const std::string& text : patterns) patterns_.push_back({text});
}

bool NamePatterns::matches(std::string_view name) {
  const std::string text(name);
  bool found = false;
  for (Pattern& pattern : patterns_) {
    if (fnmatch(pattern.text.c_str(), text.c_str(), 0) != 0) continue;
    pattern.is_used = found = true;
  }
  return found;
}

void NamePatterns::require_use(std::string_view what) const {
  for (const Pattern& pattern : patterns_) {
    if (pattern.is_used) continue;
    throw Error(ErrorCode::NotFound, fmt::format("there is no {} '{}'", what, pattern.text))
        .with_hint("* stands for any characters, ? for one");
  }
}

}  // namespace anfora::driver
