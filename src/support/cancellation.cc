#include "support/cancellation.h"

#include <utility>

namespace anfora {
namespace {

// Between two questions to the host: rarely enough to cost nothing, often enough to be at once for a person.
constexpr std::chrono::milliseconds kPollInterval{5};

// For the alignment see parallel.cc.
alignas(16) thread_local Cancellation* current = nullptr;

}  // namespace

Cancellation* current_cancellation() { return current; }

void Cancellation::poll() {
  auto now = std::chrono::steady_clock::now();
  if (now - polled_ < kPollInterval) return;
  polled_ = now;
  if (poll_()) cancel();
}

CancellationScope::CancellationScope(Cancellation& cancellation) : outer_(std::exchange(current, &cancellation)) {}
CancellationScope::~CancellationScope() { current = outer_; }

InheritedCancellation::InheritedCancellation(Cancellation* cancellation)
    : outer_(std::exchange(current, cancellation)) {}
InheritedCancellation::~InheritedCancellation() { current = outer_; }

}  // namespace anfora
