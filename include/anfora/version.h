// The version of Anfora: of these headers, and of the library that a program runs with.
#pragma once

#define ANFORA_VERSION_MAJOR 0
#define ANFORA_VERSION_MINOR 1
#define ANFORA_VERSION_PATCH 0
#define ANFORA_VERSION "0.1.0"

namespace [[gnu::visibility("default")]] anfora {

// Of the library: "0.1.0".
const char* version();

}  // namespace anfora
