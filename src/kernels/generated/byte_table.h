// What a function of one byte gives, looked up.
#pragma once

#include <array>
#include <cstdint>

namespace anfora::kernels::generated {

using ByteTable = std::array<uint8_t, 256>;

// to[i] = table[from[i]]; `to` may be `from`.
void look_up(const ByteTable& table, const uint8_t* from, int64_t count, uint8_t* to);

}  // namespace anfora::kernels::generated
