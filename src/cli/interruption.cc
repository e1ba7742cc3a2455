#include "cli/interruption.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <atomic>
#include <cmath>
#include <cstring>

#include "cli/command.h"
#include "support/temporary_files.h"

namespace anfora::cli {
namespace {

// Within this time a command ends by itself, or it is ended.
constexpr double kGraceSeconds = 0.5;
// How soon to try again where files are just put into place.
constexpr double kRetrySeconds = 0.02;

// All that handlers touch: lock-free atomics, and memory that was written before they were installed.
Cancellation cancellation;
std::atomic<int> ended_by = 0;  // the first signal
char timeout_message[128];

void ring_after(double seconds) {
  const double whole = std::floor(seconds);
  itimerval timer = {};
  timer.it_value.tv_sec = static_cast<time_t>(whole);
  timer.it_value.tv_usec = std::max<suseconds_t>(static_cast<suseconds_t>((seconds - whole) * 1e6), whole > 0 ? 0 : 1);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

const char* message_of(int signal) {
  return signal == SIGALRM ? timeout_message : signal == SIGTERM ? "anfora: terminated\n" : "anfora: interrupted\n";
}

int exit_code_of(int signal) { return signal == SIGALRM ? kTimedOut : signal == SIGTERM ? kTerminated : kInterrupted; }

void end_now(int signal) {
  if (!remove_temporary_files()) return ring_after(kRetrySeconds);
  const char* message = message_of(signal);
  // Nothing can be done if nobody listens.
  [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, message, std::strlen(message));
  _exit(exit_code_of(signal));
}

extern "C" void on_signal(int signal) {
  const int saved = errno;
  int none = 0;
  if (ended_by.compare_exchange_strong(none, signal)) {
    cancellation.cancel();
    ring_after(kGraceSeconds);
  } else {
    end_now(none);
  }
  errno = saved;
}

}  // namespace

Cancellation& handle_interruptions() {
  for (int signal : {SIGINT, SIGTERM, SIGALRM}) {
    struct sigaction action = {}, before = {};
    // What the parent has the process ignore (nohup, a job in the background of a script) it goes on ignoring.
    if (signal != SIGALRM && sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
  return cancellation;
}

void add_timeout(CLI::App& command) {
  auto set = [](const double& limit) {
    fmt::format_to_n(timeout_message, sizeof timeout_message - 1, "anfora: stopped after {} s, as --timeout says\n",
                     limit);
    ring_after(limit);
  };
  command.add_option_function<double>("--timeout", set, "give up after that many seconds; nothing is written then")
      ->type_name("SECONDS")
      ->check(seconds(1e-3));
}

int report_interruption() {
  ring_after(0);  // nothing is left to be ended
  const int signal = ended_by;
  std::fputs(message_of(signal), stderr);
  return exit_code_of(signal);
}

}  // namespace anfora::cli
