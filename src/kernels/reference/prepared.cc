#include "kernels/reference/prepared.h"

namespace anfora::kernels {

const PreparedRegistry& prepared_reference_kernels() {
  static const PreparedRegistry registry = [] {
    PreparedRegistry all;
    prepare_poolings(all);
    prepare_lowered(all);
    prepare_ml_features(all);
    prepare_ml_trees(all);
    prepare_placed_runs(all);
    prepare_text(all);
    return all;
  }();
  return registry;
}

}  // namespace anfora::kernels
