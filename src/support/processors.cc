#include "support/processors.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace anfora {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// The least quota of a group and those that it is in, below `root`; 0: none. `read` gives that of one folder.
template <class Read>
int least_quota(const fs::path& root, const std::string& group, const Read& read) {
  int least = 0;
  for (fs::path folder = root / fs::path(group).relative_path();; folder = folder.parent_path()) {
    const int quota = read(folder);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    if (folder == root || folder == folder.parent_path()) return least;
  }
}

int quota_of_process() {
  std::ifstream groups("/proc/self/cgroup");
  const fs::path root = "/sys/fs/cgroup";
  int least = 0;
  for (std::string line; std::getline(groups, line);) {  // "0::/group", or "4:cpu,cpuacct:/group" in the first version
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    int quota = 0;
    if (controllers.empty()) {
      quota = least_quota(root, group, [](const fs::path& folder) { return processors_of_quota(first_line(folder / "cpu.max").c_str()); });
    } else if (controllers == "cpu" || controllers.starts_with("cpu,") || controllers.ends_with(",cpu")) {
      quota = least_quota(root / controllers, group, [](const fs::path& folder) {
        const std::string microseconds = first_line(folder / "cpu.cfs_quota_us"), period = first_line(folder / "cpu.cfs_period_us");
        return processors_of_quota((microseconds + " " + period).c_str());
      });
    }
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  }
  return least;
}

}  // namespace

int allowed_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);  // more processors than the set has room for
}

int usable_processors() {
  static const int usable = [] {
    const int quota = quota_of_process();
    return quota > 0 ? std::min(quota, allowed_processors()) : allowed_processors();
  }();
  return usable;
}

int processors_of_quota(const char* text) {
  long long microseconds = 0, period = 0;
  if (std::sscanf(text, "%lld %lld", &microseconds, &period) != 2 || microseconds <= 0 || period <= 0) return 0;
  return static_cast<int>(std::max(microseconds / period, 1LL));
}

}  // namespace anfora
