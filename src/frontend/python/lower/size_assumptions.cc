#include "frontend/python/lower/size_assumptions.h"

#include <algorithm>
#include <cstdlib>

#include "ir/queries.h"

namespace anfora::python {

using namespace ir;

void SizeAssumptions::consider(const Apply& node) {
  if (node.is("Slice")) return consider_slice(node);
  if (node.num_inputs() != 2) return;
  const Type *a = ranked_type(node.input(0)), *b = ranked_type(node.input(1));
  if (!a || !b) return;
  const auto ranks = static_cast<size_t>(std::min(a->rank(), b->rank()));
  if (node.is("MatMul")) {
    if (ranks > 0) assume_equal(a->dims().back(), b->dims()[b->dims().size() - (b->rank() == 1 ? 1 : 2)]);
  } else if (node.op().fusion == FusionKind::Broadcast) {
    for (size_t i = 1; i <= ranks; ++i) assume_equal(a->dims()[a->dims().size() - i], b->dims()[b->dims().size() - i]);
  }
}

// The bounds that are known lie in the axis.
void SizeAssumptions::consider_slice(const Apply& slice) {
  const Tensor* axes = slice.num_inputs() > 3 ? constant_tensor(slice.input(3)) : nullptr;
  const Type* type = ranked_type(slice.input(0));
  if (!axes || axes->dtype() != DType::I64 || !type) return;
  for (size_t bound : {1, 2}) {
    const Tensor* known = constant_tensor(slice.input(bound));
    if (!known || known->dtype() != DType::I64 || known->size() != axes->size()) continue;
    for (size_t i = 0; i < static_cast<size_t>(axes->size()); ++i) {
      const int64_t at = known->data<int64_t>()[i], listed = axes->data<int64_t>()[i];
      const int64_t axis = listed < 0 ? listed + type->rank() : listed;
      if (axis < 0 || axis >= type->rank()) return;  // which inference refuses
      if (at > Range::kLowest && at < Range::kHighest) assume_at_least(type->dims()[static_cast<size_t>(axis)], std::abs(at));
    }
  }
}

const int64_t* SizeAssumptions::size_of(Dim dim) const {
  const auto found = dim.is_symbol() ? sizes_.find(dim.symbol_name()) : sizes_.end();
  return found == sizes_.end() ? nullptr : &found->second;
}

void SizeAssumptions::assume_at_least(Dim dim, int64_t least) {
  const int64_t* size = size_of(dim);
  if (!size || *size < least || dim.range().low >= least) return;
  Range& range = ranges_.try_emplace(std::string(dim.symbol_name()), dim.range()).first->second;
  range.low = std::max(range.low, least);
}

void SizeAssumptions::assume_equal(Dim a, Dim b) {
  if (!size_of(a)) std::swap(a, b);
  const int64_t* size = size_of(a);
  if (!size || b.as_constant() != *size) return;
  ranges_.insert_or_assign(std::string(a.symbol_name()), Range{*size, *size});
}

}  // namespace anfora::python
