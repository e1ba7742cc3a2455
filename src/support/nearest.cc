#include "support/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace anfora {
namespace {

// Longer names are compared by this many letters; names of inputs are short.
constexpr size_t kMostLetters = 128;

// The table of Wagner and Fischer, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string_view best;
  size_t best_distance = 0;
  name = name.substr(0, kMostLetters);
  for (const std::string& candidate : candidates) {
    std::string_view letters = std::string_view(candidate).substr(0, kMostLetters);
    size_t distance = edit_distance(name, letters);
    if (distance > (std::max(name.size(), letters.size()) + 2) / 3) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Error unknown_name(std::string_view what, std::string_view name, std::span<const std::string> names) {
  std::string_view nearest = nearest_name(name, names);
  return Error(ErrorCode::InvalidArgument, fmt::format("the model has no {} '{}'", what, name))
      .with_hint(nearest.empty() ? fmt::format("its {}s: {}", what, fmt::join(names, ", "))
                                 : fmt::format("did you mean '{}'?", nearest));
}

}  // namespace anfora
