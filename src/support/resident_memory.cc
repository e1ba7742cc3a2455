#include "support/resident_memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace anfora {
namespace {

// A line of /proc/self/status: "VmHWM:     12345 kB".
int64_t read_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == field) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

int64_t resident_bytes() { return read_status("VmRSS:"); }
int64_t peak_resident_bytes() { return read_status("VmHWM:"); }
void reset_peak_resident_bytes() { std::ofstream("/proc/self/clear_refs") << 5; }

}  // namespace anfora
