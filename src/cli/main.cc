#include "cli/command_line.h"
#include "support/cpu_baseline.h"

int main(int argc, char** argv) {
  anfora::check_cpu_baseline();  // before this, in fact: see there
  return anfora::cli::run_command_line(argc, argv);
}
