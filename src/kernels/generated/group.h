// Groups of operators by generated code.
//
// The attributes of such a kernel, for a space of `rank` axes:
//     axes          for each input, for each axis: 1 where the input walks along it, 0 where it is repeated
//     views         for each input of which only a part is read: its number and that of its axes; for each axis of the part, the axis of the input,
//                   where the part begins there, and its size, or -1 for all of it. The last axis stays the last
//     statements    what is computed, see group_code.h
//     outputs       numbers of values; output_axes: as axes; output_ranks: how many axes are left, of which the first are the space's;
//                   output_types: of elements
//     reduces       1 where something is summed along the last axis
#pragma once

#include <memory>

#include "kernels/generated/group_code.h"
#include "kernels/generated/machine_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

struct GeneratedGroup {
  MachineCode code;
  int64_t buffers = 0;  // rows of memory that a thread needs
};
using GroupGenerator = GeneratedGroup (*)(const GroupCode& code);

// Code that the data has already is taken as it is; without a generator, it must be there. Null where it does not fit. Throws as
// ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_group(KernelData& data, GroupGenerator generate);

}  // namespace anfora::kernels::generated
