// Constants of which a part says all.
#pragma once

#include <optional>

#include "anfora/tensor.h"

namespace anfora {

// A constant that repeats itself along axes, without the repetition: f32[64, 56, 56] as f32[64, 1, 1]. Empty: it does not.
std::optional<Tensor> without_repetition(const Tensor& t);

}  // namespace anfora
