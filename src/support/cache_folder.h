// Where what was computed once is kept for later processes of this user.
#pragma once

#include <filesystem>
#include <optional>

namespace anfora {

// What ANFORA_CACHE names, else anfora in XDG_CACHE_HOME or ~/.cache; none where that is "off" or there is no home. It need not exist.
std::optional<std::filesystem::path> cache_folder();

// Makes a folder of the cache, for its owner only. Throws std::filesystem::filesystem_error.
void make_cache_folder(const std::filesystem::path& folder);

}  // namespace anfora
