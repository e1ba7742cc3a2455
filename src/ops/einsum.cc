#include <vector>

#include "kernels/reference/einsum_equation.h"
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// The size of every label of the equation. A size of 1 broadcasts.
Dims label_dims(const InferenceContext& ctx, const kernels::EinsumEquation& equation) {
  const Dim one = ctx.dim(1);
  Dims sizes(static_cast<size_t>(equation.label_count), one);
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    auto dims = ctx.dims(i);
    for (size_t d = 0; d < dims->size(); ++d) {
      const int label = equation.inputs[i][d];
      Dim& size = sizes[static_cast<size_t>(label)];
      const Dim here = (*dims)[d];
      if (label < equation.ellipsis_rank) {
        size = broadcast_dim(ctx, size, here);
      } else if (size == one) {
        size = here;
      } else if (here != one) {
        size = merge_dim(ctx, size, here);
      }
    }
  }
  return sizes;
}

std::optional<kernels::EinsumEquation> equation_of(const InferenceContext& ctx) {
  std::vector<int> ranks;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    auto rank = ctx.rank(i);
    if (!rank) return std::nullopt;
    ranks.push_back(*rank);
  }
  return kernels::parse_einsum(ctx.attribute_string("equation"), ranks);
}

void infer_einsum(InferenceContext& ctx) {
  auto equation = equation_of(ctx);
  if (!equation) return ctx.set_unranked(0, ctx.dtype(0));
  Dims sizes = label_dims(ctx, *equation), result;
  for (int label : equation->output) result.push_back(sizes[static_cast<size_t>(label)]);
  ctx.set_tensor(0, ctx.dtype(0), result);
}

// The operands one after the other, from the left: what all later ones and the output do not have is summed at once. Sums over a
// product are two operations for each element of it, a product or a sum alone one.
double einsum_flops(const InferenceContext& ctx) {
  auto equation = equation_of(ctx);
  if (!equation) return 0;
  std::vector<double> sizes(static_cast<size_t>(equation->label_count), 1);
  for (size_t i = 0; i < equation->inputs.size(); ++i) {  // sizes that are assumed may contradict each other
    const Dims dims = *ctx.dims(i);
    for (size_t d = 0; d < dims.size(); ++d) {
      double& size = sizes[static_cast<size_t>(equation->inputs[i][d])];
      size = std::max(size, static_cast<double>(dims[d].as_constant().value_or(1)));
    }
  }
  std::vector<int> last(sizes.size(), -1);  // the last operand that has the label; past all of them: the output has it
  const int operands = static_cast<int>(equation->inputs.size());
  for (int i = 0; i < operands; ++i) {
    for (int label : equation->inputs[static_cast<size_t>(i)]) last[static_cast<size_t>(label)] = i;
  }
  for (int label : equation->output) last[static_cast<size_t>(label)] = operands;
  double count = 0;
  std::vector<bool> present(sizes.size());
  for (int i = 0; i < operands; ++i) {
    for (int label : equation->inputs[static_cast<size_t>(i)]) present[static_cast<size_t>(label)] = true;
    double elements = 1;
    bool sums = false;
    for (size_t label = 0; label < sizes.size(); ++label) {
      if (!present[label]) continue;
      elements *= sizes[label];
      if (last[label] != i) continue;
      sums = sums || sizes[label] != 1;
      present[label] = false;
    }
    count += elements * ((i > 0 ? 1 : 0) + (sums ? 1 : 0));
  }
  return count;
}

}  // namespace

void declare_einsum(Declarations& declare) {
  declare.op("Einsum", 28)
      .doc("The product of the operands, summed over the labels of the equation that its output does not have.")
      .variadic_input("Inputs", "T")
      .output("Output", "T")
      .type("T", kNumbers)
      .required_attribute("equation", AttributeKind::String)
      .infer(infer_einsum)
      .flops(einsum_flops)
      .fusion(FusionKind::Anchor)
      .widens().total();
}

}  // namespace anfora::ops
