#include "kernels/onednn/onednn_kernels.h"

namespace anfora::kernels {

const PreparedRegistry& onednn_kernels() {
  static const PreparedRegistry registry = [] {
    PreparedRegistry all;
    return all;
  }();
  return registry;
}

}  // namespace anfora::kernels
