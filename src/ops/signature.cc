#include "ops/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "anfora/error.h"
#include "ir/parse.h"
#include "kernels/operator_signature.h"
#include "ops/infer_helpers.h"

namespace anfora::ops {
namespace {

using kernels::OperatorSignature;
using kernels::SignatureTerm;

// What unification gave the variables.
struct Bindings {
  std::map<std::string, DType> elements;
  std::map<std::string, Dim> sizes;
  std::optional<Dims> leading;
};

void bind_element(InferenceContext& ctx, Bindings& bound, const SignatureTerm& term, size_t i) {
  const DType dtype = ctx.dtype(i);
  if (dtype == DType::Undefined) return;
  const auto fixed = dtype_from_name(term.element);
  const DType wanted = fixed ? *fixed : bound.elements.emplace(term.element, dtype).first->second;
  if (wanted != dtype)
    ctx.fail(fmt::format("operand {} is of {}, not of {}", i, anfora::name(dtype), anfora::name(wanted)));
}

void bind_sizes(InferenceContext& ctx, Bindings& bound, const SignatureTerm& term, size_t i) {
  const auto given = ctx.dims(i);
  if (!given) return;
  if (term.has_leading ? given->size() < term.dims.size() : given->size() != term.dims.size()) {
    ctx.fail(fmt::format("operand {} has {} axes, not {}{}", i, given->size(), term.dims.size(),
                         term.has_leading ? " or more" : ""));
  }
  const auto first = given->end() - static_cast<std::ptrdiff_t>(term.dims.size());
  if (term.has_leading) {
    const Dims leading(given->begin(), first);
    bound.leading = bound.leading ? merge_dims(ctx, *bound.leading, leading) : leading;
  }
  for (size_t k = 0; k < term.dims.size(); ++k) {
    const Dim wanted = ir::parse_dim(ctx.context(), term.dims[k]), size = *(first + static_cast<std::ptrdiff_t>(k));
    if (wanted.is_unknown()) continue;
    if (wanted.is_symbol()) {
      auto [known, is_new] = bound.sizes.try_emplace(std::string(wanted.symbol_name()), size);
      if (!is_new) known->second = merge_dim(ctx, known->second, size);
    } else {
      merge_dim(ctx, wanted, size);
    }
  }
}

const Type* type_of(InferenceContext& ctx, const Bindings& bound, const SignatureTerm& term, size_t& unknowns) {
  const auto fixed = dtype_from_name(term.element);
  const auto variable = bound.elements.find(term.element);
  const DType dtype = fixed ? *fixed : variable != bound.elements.end() ? variable->second : DType::Undefined;
  if (term.has_leading && !bound.leading) return ctx.context().unranked_type(dtype);
  Dims dims = term.has_leading ? *bound.leading : Dims();
  for (const std::string& text : term.dims) {
    bool is_known = text != "?";
    Dim dim = ir::parse_dim(ctx.context(), text);
    dim = substitute(dim, [&](Dim symbol) -> std::optional<Dim> {
      auto found = bound.sizes.find(std::string(symbol.symbol_name()));
      is_known = is_known && found != bound.sizes.end();
      return found == bound.sizes.end() ? std::nullopt : std::optional(found->second);
    });
    dims.push_back(is_known ? dim : ctx.fresh_dim(unknowns++));
  }
  return ctx.context().tensor_type(dtype, dims);
}

}  // namespace

void infer_signature(InferenceContext& ctx) {
  const OperatorSignature signature = kernels::parse_signature(ctx.op().signature);
  Bindings bound;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    bind_element(ctx, bound, signature.inputs[i], i);
    bind_sizes(ctx, bound, signature.inputs[i], i);
  }
  size_t unknowns = 0;
  for (size_t i = 0; i < std::min(ctx.num_outputs(), signature.outputs.size()); ++i)
    ctx.set_output(i, type_of(ctx, bound, signature.outputs[i], unknowns));
}

}  // namespace anfora::ops
