// Behind all passes, where the result is to be stored: Einsums that took more operators in parts (einsum.cc).
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>

#include "passes/pass.h"

namespace anfora::passes {

using EinsumPlaces = boost::unordered_flat_set<const ir::Location*>;

// Where the module has Einsums. What becomes of one lies in the same place.
EinsumPlaces places_of_einsums(const ir::Module& module);
// Parts that lie there become one again. Returns how many Einsums came.
size_t rejoin_einsums(ir::Module& module, const EinsumPlaces& places, const PassOptions& options,
                      rewrite::Remarks& remarks);

}  // namespace anfora::passes
