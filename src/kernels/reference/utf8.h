// The characters of UTF-8 strings.
#pragma once

#include <cstdint>
#include <string_view>

namespace anfora::kernels {

// Calls body(code point, bytes) for each character; a byte that belongs to none comes as code point -1.
template <class Body>
void for_each_character(std::string_view text, Body&& body) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    int32_t code = length == 1 ? lead : length == 0 ? -1 : lead & (0x7f >> length);
    for (size_t k = 1; k < length && code >= 0; ++k) {
      const bool continues = i + k < text.size() && (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
      code = continues ? code << 6 | (text[i + k] & 0x3f) : -1;
    }
    const size_t used = code < 0 ? 1 : length;
    body(code, text.substr(i, used));
    i += used;
  }
}

}  // namespace anfora::kernels
