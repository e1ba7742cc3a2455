// Names by patterns, as a shell has them for files: * for any characters, ? for one, [a-z] for one of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anfora::driver {

class NamePatterns {
 public:
  explicit NamePatterns(const std::vector<std::string>& patterns);

  bool empty() const { return patterns_.empty(); }
  // Remembers which patterns a name matched.
  bool matches(std::string_view name);
  // Throws NotFound when there is a pattern that no name has matched; `what` it should have: "initializer".
  void require_use(std::string_view what) const;

 private:
  struct Pattern {
    std::string text;
    bool is_used = false;
  };
  std::vector<Pattern> patterns_;
};

}  // namespace anfora::driver
