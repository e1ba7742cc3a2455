// Where work may be cancelled (anfora/cancellation.h): between passes, rewrites, folded operators, instructions of the machine and
// ranges of a parallel loop. Passes and kernels need not ask; a new loop that may take seconds calls check_cancelled().
#pragma once

#include "anfora/cancellation.h"

namespace anfora {

// That of the calling thread's scope; null: there is none.
Cancellation* current_cancellation();

// Throws Cancelled where the calling thread's scope says so.
inline void check_cancelled() {
  if (Cancellation* cancellation = current_cancellation()) cancellation->check();
}

// The scope of `cancellation`, which may be null, on a thread that works for another one.
class InheritedCancellation {
 public:
  explicit InheritedCancellation(Cancellation* cancellation);
  ~InheritedCancellation();
  InheritedCancellation(const InheritedCancellation&) = delete;
  InheritedCancellation& operator=(const InheritedCancellation&) = delete;

 private:
  Cancellation* outer_;
};

}  // namespace anfora
