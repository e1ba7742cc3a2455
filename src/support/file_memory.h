// Memory that lies in a file: for what is not read for a while, and would not fit beside what is.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace anfora {

// A copy in a temporary file without a name (in TMPDIR, or /tmp), mapped where the pointer says. The system writes its pages to the disk and
// drops them as it needs memory, and reads them when they are touched. What is written there stays in memory. With the last pointer the file
// goes. Throws ResourceExhausted where the file does not fit, Io where there can be none.
std::shared_ptr<void> copy_into_file(std::span<const std::byte> bytes);

}  // namespace anfora
