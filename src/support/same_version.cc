#include "support/same_version.h"

namespace anfora {

const char* const ANFORA_INTERNALS = ANFORA_VERSION;

}  // namespace anfora
