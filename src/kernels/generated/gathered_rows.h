// The rows of LoweredPointwise's operand: those of several tensors [batch, spatial…, channels] side by side, times S, plus T, activated. They are
// gathered as the product needs them, and never written to memory as a whole.
#pragma once

#include <optional>

#include "kernels/generated/gather_code.h"
#include "kernels/generated/machine_code.h"
#include "kernels/input_shapes.h"
#include "kernels/prepared.h"
#include "kernels/strided_product.h"

namespace anfora::kernels::generated {

inline constexpr std::string_view kPointwise = "LoweredPointwise";

// Inputs behind the addends; the tensors beside the first come last.
enum PointwiseInput : uint8_t { kRowScale = 4, kRowShift, kMoreRows };

class GatheredRows {
 public:
  // Nothing where an activation has no code.
  static std::optional<GatherCode> code(const KernelData& data);
  // Nothing where the shapes do not fit, which the reference kernel has words for, or there is nothing to compute.
  static std::optional<GatheredRows> resolve(const InputShapes& shapes);

  // Inputs 2 and 3 are added: a row, and what has the shape of the result.
  StridedProduct product(const InputShapes& shapes) const;
  // The same as one of a batch for each of images(), which have an S of their own.
  StridedProduct products_of_images(const InputShapes& shapes) const;
  int64_t images() const { return element_count(y_shape_) / (y_shape_.back() * image_rows_); }
  // Rows [first, first + count) to `to`, by that code.
  void gather(EntryPoint code, Isa isa, KernelContext& context, int64_t first, int64_t count, float* to, int64_t stride) const;

 private:
  int64_t depth_ = 0;
  int64_t image_rows_ = 0;  // that have the same S
  Shape y_shape_;
};

}  // namespace anfora::kernels::generated
