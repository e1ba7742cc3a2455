// What ends a command early: Ctrl-C, SIGTERM, --timeout.
//
// The command is asked to stop (anfora/cancellation.h), and what it has in hand is dropped. Where it does not answer within
// half a second, since it is inside of one long kernel, or when it is interrupted again, the process ends at once, after removing
// its temporary files: outputs appear whole or not at all either way.
#pragma once

#include "anfora/cancellation.h"

namespace CLI {
class App;
}

namespace anfora::cli {

// Installs the handlers of signals. What the process cancels, it cancels by this one object.
Cancellation& handle_interruptions();

// --timeout SECONDS; the time runs from the moment that the options were read.
void add_timeout(CLI::App& command);

// Says what ended the command, and returns its exit code.
int report_interruption();

}  // namespace anfora::cli
