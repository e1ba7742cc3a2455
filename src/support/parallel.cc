// oneTBB: where a thread comes late (a busy machine, a container with a quota of CPUs), the calling thread takes its
// share as well. With a team of threads and a barrier, as in OpenMP, every kernel would wait for the latest.
#include "support/parallel.h"

#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <typeinfo>
#include <vector>

#include "anfora/error.h"
#include "support/cancellation.h"
#include "support/processors.h"

// ThreadSanitizer does not see how oneTBB, which is not compiled for it, hands work to a thread and waits for it: these tell it.
#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* what);
extern "C" void __tsan_release(void* what);
#else
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
#endif

namespace anfora {
namespace {

// The end of work by other threads, also where it ends by an exception: what they have said by __tsan_release() happened before.
struct AwaitedWork {
  void* what;
  ~AwaitedWork() { __tsan_acquire(what); }
};

// Ranges that each thread gets on average, so that a slow one does not hold up the others; more where they would have an item or two,
// as some would be twice as long as others.
constexpr int64_t kRangesOfAThread = 4;

// Nested loops run on the thread that meets them. It would otherwise take up ranges of the outer loop while it waits.
// Aligned, or mold 1.10 now and then writes a program that does not start: its read-only part begins at the thread's data,
// which at an alignment below the next section's may end up in a page of its own that is not loaded.
alignas(16) thread_local bool in_range = false;

// More than there are CPUs would only be asked for, and told about on standard error.
int& most_threads() {
  static int most = tbb::info::default_concurrency();
  return most;
}

// Arenas live as long as the process: threads that they lent may still be on the way out.
tbb::task_arena& arena_of(int threads) {
  using Arenas = std::vector<std::atomic<tbb::task_arena*>>;
  static auto& arenas = *new Arenas(static_cast<size_t>(most_threads()) + 1);
  std::atomic<tbb::task_arena*>& arena = arenas[static_cast<size_t>(threads)];
  if (tbb::task_arena* made = arena.load(std::memory_order_acquire)) return *made;
  auto made = std::make_unique<tbb::task_arena>(threads);
  tbb::task_arena* other = nullptr;
  return arena.compare_exchange_strong(other, made.get()) ? *made.release() : *other;
}

// Arenas of a single thread, for one caller at a time: in a shared one, callers would wait for each other. They lend no thread to anybody.
// A new one comes with one for each thread, so that a thread that comes late finds one.
class SingleArenas {
 public:
  tbb::task_arena* take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) add(std::max(thread_count(), 1));
    tbb::task_arena* arena = free_.back();
    free_.pop_back();
    return arena;
  }
  void give_back(tbb::task_arena* arena) {
    std::lock_guard lock(mutex_);
    free_.push_back(arena);
  }

 private:
  void add(int count) {
    made_ += static_cast<size_t>(count);
    free_.reserve(made_);  // giving back must not fail
    for (int i = 0; i < count; ++i) {
      auto arena = std::make_unique<tbb::task_arena>(1);
      arena->execute([] {});  // makes what an arena makes when it is first used
      free_.push_back(arena.release());
    }
  }

  std::mutex mutex_;
  std::vector<tbb::task_arena*> free_;
  size_t made_ = 0;
};

// The arena that the caller's work is to run in, as long as this lives.
class CallersArena {
 public:
  explicit CallersArena(int threads) : is_single_(threads == 1), arena_(is_single_ ? singles().take() : &arena_of(threads)) {}
  CallersArena(const CallersArena&) = delete;
  ~CallersArena() {
    if (is_single_) singles().give_back(arena_);
  }
  tbb::task_arena& operator*() const { return *arena_; }

 private:
  static SingleArenas& singles() {
    static auto& all = *new SingleArenas;
    return all;
  }

  bool is_single_;
  tbb::task_arena* arena_;
};

// oneTBB starts threads when they are first needed, and throws a plain runtime_error where the system gives none.
template <class Work>
void on_threads(Work&& work) {
  try {
    work();
  } catch (const std::runtime_error& error) {
    if (typeid(error) != typeid(std::runtime_error)) throw;
    throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot start threads: {}", error.what()))
        .with_hint("one thread needs no other (--threads 1); ulimit -v and -u bound what a process may have");
  }
}

}  // namespace

int thread_count() { return tbb::this_task_arena::max_concurrency(); }

void allow_threads(int most) {
  static tbb::global_control workers(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(most));
  most_threads() = most;
}

namespace detail {

void with_threads(int threads, void* state, void (*body)(void* state)) {
  // Where the arena is full, another thread does the work.
  Cancellation* cancellation = current_cancellation();
  auto work = [&] {
    __tsan_acquire(&cancellation);
    InheritedCancellation inherited(cancellation);
    struct Leave {
      void* what;
      ~Leave() { __tsan_release(what); }
    } leave{&cancellation};
    body(state);
  };
  __tsan_release(&cancellation);
  const AwaitedWork awaited{&cancellation};
  on_threads([&] {
    const CallersArena arena(std::clamp(threads > 0 ? threads : usable_processors(), 1, most_threads()));
    (*arena).execute(work);
  });
}

void parallel_ranges(int64_t count, int64_t grain, void* state, RangeBody body) {
  if (count <= 0) return;
  Cancellation* cancellation = in_range ? nullptr : current_cancellation();
  if (cancellation) cancellation->check();
  int64_t threads = thread_count();
  grain = std::max<int64_t>(grain, 1);
  if (count < 2 * grain || threads <= 1 || in_range) return body(state, 0, count);
  int64_t ranges = count / grain;
  if (ranges > 2 * threads * kRangesOfAThread) ranges = threads * kRangesOfAThread;
  auto range = [&](int64_t i) {
    __tsan_acquire(&ranges);
    if (cancellation && cancellation->is_cancelled()) throw Cancelled();
    in_range = true;
    struct Leave {
      void* what;
      ~Leave() {
        in_range = false;
        __tsan_release(what);
      }
    } leave{&ranges};
    body(state, count * i / ranges, count * (i + 1) / ranges);
  };
  __tsan_release(&ranges);
  const AwaitedWork awaited{&ranges};
  on_threads([&] { tbb::parallel_for(int64_t{0}, ranges, range, tbb::simple_partitioner()); });
}

void isolated(void* state, void (*body)(void* state)) {
  tbb::this_task_arena::isolate([&] { body(state); });
}

}  // namespace detail
}  // namespace anfora
