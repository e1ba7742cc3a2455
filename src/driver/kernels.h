// The kernels that a model is compiled with: those whose code is generated for it, before the libraries'.
#pragma once

#include <vector>

#include "kernels/prepared.h"

namespace anfora {

// In the order in which they are tried; plan::compile() knows the libraries' itself.
std::vector<const kernels::PreparedRegistry*> generating_kernels();

}  // namespace anfora
