// Tests that ask for more threads than there are CPUs get up to 16: how work is split among many shows on small machines, too.
#include "support/parallel.h"

namespace anfora {
namespace {

[[maybe_unused]] const bool has_many_threads = [] {
  allow_threads(16);
  return true;
}();

}  // namespace
}  // namespace anfora
