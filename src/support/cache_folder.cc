#include "support/cache_folder.h"

#include <cstdlib>
#include <string>

namespace anfora {
namespace fs = std::filesystem;

std::optional<fs::path> cache_folder() {
  auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string named = variable("ANFORA_CACHE"); !named.empty()) {
    if (named == "off") return std::nullopt;
    return named;
  }
  fs::path base = variable("XDG_CACHE_HOME");
  if (base.empty() && !variable("HOME").empty()) base = fs::path(variable("HOME")) / ".cache";
  if (!base.is_absolute()) return std::nullopt;
  return base / "anfora";
}

void make_cache_folder(const fs::path& folder) {
  if (fs::create_directories(folder)) fs::permissions(folder, fs::perms::owner_all);
}

}  // namespace anfora
