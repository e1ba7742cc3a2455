#include "support/temporary_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

namespace anfora {
namespace fs = std::filesystem;

namespace {

// Names at fixed addresses, for a signal handler can take no lock and allocate nothing. More files than this are not written at a
// time; those beyond it are only removed by their owner.
constexpr int kSlots = 16;
constexpr size_t kLongestName = 1024;

enum class State { Free, Filling, Named };
struct Slot {
  std::atomic<State> state = State::Free;
  char name[kLongestName];
};
Slot slots[kSlots];
std::atomic<int> groups_in_progress = 0;

int take_slot(const std::string& name) {
  if (name.size() >= kLongestName) return -1;
  for (int i = 0; i < kSlots; ++i) {
    State expected = State::Free;
    if (!slots[i].state.compare_exchange_strong(expected, State::Filling)) continue;
    std::memcpy(slots[i].name, name.c_str(), name.size() + 1);
    slots[i].state = State::Named;
    return i;
  }
  return -1;
}

}  // namespace

TemporaryFile::TemporaryFile(fs::path path) : path_(std::move(path)), slot_(take_slot(path_.string())) {}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), slot_(std::exchange(other.slot_, -1)) {}

TemporaryFile& TemporaryFile::operator=(TemporaryFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(slot_, other.slot_);
  return *this;
}

TemporaryFile::~TemporaryFile() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  forget();
}

void TemporaryFile::forget() {
  if (slot_ >= 0) slots[slot_].state = State::Free;
  slot_ = -1;
  path_.clear();
}

fs::path temporary_name(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  return target.parent_path() / fmt::format(".{}.{}.{}.tmp", target.filename().string(), getpid(), counter++);
}

bool remove_temporary_files() noexcept {
  if (groups_in_progress > 0) return false;
  for (Slot& slot : slots) {
    if (slot.state == State::Named) unlink(slot.name);
  }
  for (Slot& slot : slots) {  // the folders, once their files are gone
    if (slot.state == State::Named) rmdir(slot.name);
  }
  return true;
}

PuttingIntoPlace::PuttingIntoPlace() { ++groups_in_progress; }
PuttingIntoPlace::~PuttingIntoPlace() { --groups_in_progress; }

}  // namespace anfora
