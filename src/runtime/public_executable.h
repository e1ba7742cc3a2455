// The inside of anfora::Executable (include/anfora/executable.h): what the compiler makes one of.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "anfora/executable.h"
#include "runtime/runnable_program.h"

namespace anfora {

struct Executable::State {
  std::vector<ValueInfo> inputs, outputs;
  std::unique_ptr<runtime::RunnableProgram> program;
};

namespace runtime {

std::vector<ValueInfo> value_infos(std::span<const ValueSpec> values);

}  // namespace runtime
}  // namespace anfora
