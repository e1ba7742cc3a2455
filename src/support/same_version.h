// The compiler's libraries use more of libanfora_runtime than its public names, which hold for a minor version: they need the one of their own
// version. Its version is part of a name that they ask for, so that the loader refuses another one.
#pragma once

#include "anfora/version.h"

#define ANFORA_JOIN(what, major, minor, patch) what##_##major##_##minor##_##patch
#define ANFORA_JOIN_VALUES(what, major, minor, patch) ANFORA_JOIN(what, major, minor, patch)
// internals_of_0_1_0
#define ANFORA_INTERNALS \
  ANFORA_JOIN_VALUES(internals_of, ANFORA_VERSION_MAJOR, ANFORA_VERSION_MINOR, ANFORA_VERSION_PATCH)

namespace anfora {

extern const char* const ANFORA_INTERNALS;

}  // namespace anfora
