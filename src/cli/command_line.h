// The command `anfora`, for the program and for the Python package, which has it inside its extension module.
#pragma once

namespace anfora::cli {

// Runs the command that argv[1] names and gives the exit code. Once in a process: it handles SIGINT, SIGTERM and SIGALRM from then on.
int run_command_line(int argc, char** argv);

}  // namespace anfora::cli
