#pragma once

#include "anfora/tensor.h"

namespace anfora {

// Frees the elements of a tensor, for which nobody looks any more; its type and shape stay. From time to time what the allocator has kept
// of freed memory goes back to the system: weights that were folded or packed leave holes behind that others of their size do not fill.
void release_elements(Tensor& tensor);

// What the allocator has kept of freed memory goes back to the system, where it is a megabyte or more. Takes some tenths of a millisecond then.
void release_free_memory();

}  // namespace anfora
