// Where a thread comes late (a busy machine, a container with a quota of CPUs), the calling thread takes its share as well. With a
// barrier, as in OpenMP, every kernel would wait for the latest.
#include "support/parallel.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <typeinfo>
#include <utility>
#include <vector>

#include "anfora/error.h"
#include "support/cancellation.h"
#include "support/lasting_objects.h"
#include "support/processors.h"
#include "support/team.h"
#include "support/thread_sanitizer.h"

namespace anfora {
namespace {

// The end of work by other threads, also where it ends by an exception: what they have said by happens_before() happened before.
struct AwaitedWork {
  void* what;
  ~AwaitedWork() { happens_after(what); }
};

// Ranges that each thread gets on average, so that a slow one, or one that another process has put off its CPU, does not hold up the others
// for long; more where they would have an item or two, as some would be twice as long as others.
constexpr int64_t kRangesOfAThread = 8;

// Nested loops run on the thread that meets them. It would otherwise take up ranges of the outer loop while it waits.
// Aligned, or mold 1.10 now and then writes a program that does not start: its read-only part begins at the thread's data,
// which at an alignment below the next section's may end up in a page of its own that is not loaded.
alignas(16) thread_local bool in_range = false;

// More than there are CPUs would only be asked for, and told about on standard error.
int& most_threads() {
  static int most = tbb::info::default_concurrency();
  return most;
}

struct Arena {
  explicit Arena(int most) : threads(most), callers(most) {}
  tbb::task_arena threads;
  Callers callers;
};

// Arenas live as long as the process: threads that they lent may still be on the way out.
Arena& arena_of(int threads) {
  using Arenas = std::vector<std::atomic<Arena*>>;
  static auto& arenas = *new Arenas(static_cast<size_t>(most_threads()) + 1);
  std::atomic<Arena*>& arena = arenas[static_cast<size_t>(threads)];
  if (Arena* made = arena.load(std::memory_order_acquire)) return *made;
  auto made = std::make_unique<Arena>(threads);
  Arena* other = nullptr;
  return arena.compare_exchange_strong(other, made.get()) ? *made.release() : *other;
}

// One of an arena's callers.
class Caller {
 public:
  explicit Caller(Callers& callers) : callers_(callers) { callers_.come(); }
  ~Caller() {
    enter();
    callers_.go();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  void enter() {
    if (std::exchange(waits_, false)) callers_.enter();
  }

 private:
  Callers& callers_;
  bool waits_ = true;
};

// The arena that the caller's work is to run in, as long as this lives. Arenas of a single thread are for one caller at a time: in a shared one,
// callers would wait for each other. They lend no thread to anybody.
class CallersArena {
 public:
  explicit CallersArena(int threads) : is_single_(threads == 1), arena_(is_single_ ? take_single() : &arena_of(threads)) {}
  CallersArena(const CallersArena&) = delete;
  ~CallersArena() {
    if (is_single_) singles().give_back(arena_);
  }
  Arena& operator*() const { return *arena_; }

 private:
  static LastingObjects<Arena>& singles() {
    static auto& all = *new LastingObjects<Arena>;
    return all;
  }
  // A new one comes with one for each thread, so that a thread that comes late finds one.
  static Arena* take_single() {
    return singles().take(thread_count(), [] {
      auto arena = std::make_unique<Arena>(1);
      arena->threads.execute([] {});  // makes what an arena makes when it is first used
      return arena;
    });
  }

  bool is_single_;
  Arena* arena_;
};

// Where the calling thread's own work runs; null: with_threads() was not called.
thread_local Arena* entered = nullptr;

// Of the calling thread's loops, with helpers from where it is. It may be had by a late helper for longer than by its thread.
struct OwnTeam {
  Team::Handle team;
  const Arena* arena = nullptr;
};
thread_local OwnTeam own;

Team& own_team() {
  if (own.team && own.arena != entered) own.team->release();
  if (!own.team || own.arena != entered) own = {Team::take(entered ? &entered->callers : nullptr), entered};
  return *own.team;
}

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
  auto work = [&](Arena& arena) {
    happens_after(&cancellation);
    const EngagedThread engaged;
    InheritedCancellation inherited(cancellation);
    struct Leave {
      void* what;
      Arena* outer;
      ~Leave() {
        entered = outer;
        happens_before(what);
      }
    } leave{&cancellation, std::exchange(entered, &arena)};
    body(state);
  };
  happens_before(&cancellation);
  const AwaitedWork awaited{&cancellation};
  on_threads([&] {
    const CallersArena callers(std::clamp(threads > 0 ? threads : usable_processors(), 1, most_threads()));
    Arena& arena = *callers;
    if (entered == &arena) return body(state);
    Caller caller(arena.callers);
    arena.threads.execute([&] {
      caller.enter();
      work(arena);
    });
  });
}

void parallel_ranges(int64_t count, int64_t grain, void* state, RangeBody body) {
  if (count <= 0) return;
  Cancellation* cancellation = in_range ? nullptr : current_cancellation();
  if (cancellation) cancellation->check();
  const int64_t threads = thread_count();
  grain = std::max<int64_t>(grain, 1);
  if (count < 2 * grain || threads <= 1 || in_range) return body(state, 0, count);
  int64_t ranges = count / grain;
  if (ranges > 2 * threads * kRangesOfAThread) ranges = threads * kRangesOfAThread;
  ranges = std::min(ranges, Team::kMostRanges);
  auto range = [&](int64_t i) {
    if (cancellation && cancellation->is_cancelled()) throw Cancelled();
    in_range = true;
    struct Leave {
      ~Leave() { in_range = false; }
    } leave;
    body(state, count * i / ranges, count * (i + 1) / ranges);
  };
  on_threads([&] { own_team().run(threads, ranges, &range, [](void* of, int64_t i) { (*static_cast<decltype(range)*>(of))(i); }); });
}

void isolated(void* state, void (*body)(void* state)) {
  tbb::this_task_arena::isolate([&] { body(state); });
}

}  // namespace detail

void lend_threads() {
  if (own.team && !in_range) own.team->release();
}

}  // namespace anfora
