// The invariants of the IR that need type inference: 16 (typed) and 17 (inferred) of docs/ir.md.
#pragma once

#include "ir/verify.h"

namespace anfora::analysis {

// Infers the module anew, compares what it finds with the types that nodes have, and leaves those in place. The module is
// valid by ir::verify. Costs one inference.
std::vector<ir::Violation> verify_types(ir::Module& module);

// ir::verify, then verify_types; throws at the first violation.
void verify_typed_or_throw(ir::Module& module, ErrorCode code = ErrorCode::Internal);

}  // namespace anfora::analysis
