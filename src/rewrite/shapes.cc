// Functions of rules about shapes: the operands that give Reshape and Expand a known shape, what becomes of axes
// and permutations when views and Transposes change places.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "ir/queries.h"
#include "rewrite/expression.h"
#include "support/element_types.h"

namespace anfora::rewrite {
namespace {

using ir::Dim;
using Integers = std::vector<int64_t>;

std::optional<Dims> dims_of(const Quantity& q, ir::DimTable& table) {
  if (const ir::Node* node = as_node(q)) {
    const ir::Type* type = node->type();
    if (!type || !type->is_tensor() || !type->has_rank()) return std::nullopt;
    return Dims(type->dims().begin(), type->dims().end());
  }
  return as_dims(q, table);
}

bool is_one(Dim dim) { return dim.as_constant() == 1; }

Dim product_of_dims(std::span<const Dim> dims, ir::DimTable& table) {
  Dim total = table.constant(1);
  for (Dim d : dims) total = total * d;
  return total;
}

// The rank of a permutation given as a list; empty: it is none.
std::optional<Integers> permutation(const Quantity& q) {
  auto p = as_integers(q);
  if (!p) return std::nullopt;
  Integers sorted = *p;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return std::nullopt;
  }
  return p;
}

bool contains(const Integers& list, int64_t x) { return std::ranges::find(list, x) != list.end(); }
bool are_distinct_axes(const Integers& axes, int64_t rank) {
  std::set<int64_t> seen(axes.begin(), axes.end());
  return seen.size() == axes.size() && (axes.empty() || (*seen.begin() >= 0 && *seen.rbegin() < rank));
}

// Shapes as operands --------------------------------------------------------------------------------------------

// Zeros copy the sizes of x at those places, one -1 is what is left. It is not asked to divide by a size that may be 0.
Quantity reshape_to(const Scope& scope, Arguments a) {
  auto have = dims_of(a[0], scope.dims()), want = dims_of(a[1], scope.dims());
  if (!have || !want || std::ranges::any_of(*want, &Dim::is_unknown)) return NotKnown{};
  Integers list;
  for (size_t i = 0; i < want->size(); ++i) {
    Dim d = (*want)[i];
    bool copied = i < have->size() && provably_equal((*have)[i], d);
    if (auto constant = d.as_constant(); constant && (*constant > 0 || copied)) {
      list.push_back(*constant);
    } else if (copied) {
      list.push_back(0);
    } else if (!constant && !contains(list, -1)) {
      list.push_back(-1);
    } else {
      return NotKnown{};
    }
  }
  if (contains(list, -1)) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] != -1 && (*want)[i].range().low <= 0) return NotKnown{};
    }
    if (!provably_equal(product_of_dims(*have, scope.dims()), product_of_dims(*want, scope.dims()))) return NotKnown{};
  }
  return list;
}

// Where sizes of 1 are put among those of x, to get those of y; from the left, as soon as they are not the next ones of x.
Quantity added_axes(const Scope& scope, Arguments a) {
  auto have = dims_of(a[0], scope.dims()), want = dims_of(a[1], scope.dims());
  if (!have || !want) return NotKnown{};
  Integers axes;
  size_t next = 0;
  for (size_t i = 0; i < want->size(); ++i) {
    if (next < have->size() && provably_equal((*have)[next], (*want)[i])) {
      ++next;
    } else if (is_one((*want)[i])) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      return NotKnown{};
    }
  }
  return next == have->size() ? Quantity(axes) : NotKnown{};
}

Quantity places(const Scope& scope, Arguments a) {
  const auto* texts = std::get_if<std::vector<std::string>>(&a[0]);
  if (const std::string* text = texts ? std::get_if<std::string>(&a[1]) : nullptr) {
    Integers where;
    for (size_t i = 0; i < texts->size(); ++i) {
      if ((*texts)[i] == *text) where.push_back(static_cast<int64_t>(i));
    }
    return where;
  }
  auto list = dims_of(a[0], scope.dims());
  auto value = as_integer(a[1]);
  if (!list || !value) return NotKnown{};
  Integers found;
  for (size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i].as_constant() == *value) found.push_back(static_cast<int64_t>(i));
  }
  return found;
}

Quantity expand_to(const Scope& scope, Arguments a) {
  auto have = dims_of(a[0], scope.dims()), want = dims_of(a[1], scope.dims());
  if (!have || !want || want->size() < have->size()) return NotKnown{};
  Integers list;
  size_t extra = want->size() - have->size();
  for (size_t i = 0; i < want->size(); ++i) {
    Dim d = (*want)[i];
    if (auto constant = d.as_constant()) {
      list.push_back(*constant);
    } else if (i >= extra && provably_equal((*have)[i - extra], d)) {
      list.push_back(1);
    } else {
      return NotKnown{};
    }
  }
  return list;
}

std::optional<Dims> extents_of(const Scope& scope, Arguments a) {
  const Nodes* nodes = std::get_if<Nodes>(&a[0]);
  auto axis = as_integer(a[1]);
  if (!nodes || !axis) return std::nullopt;
  Dims extents;
  for (ir::Node* node : *nodes) {
    auto dims = dims_of(node, scope.dims());
    if (!dims || *axis < 0 || *axis >= std::ssize(*dims)) return std::nullopt;
    extents.push_back((*dims)[static_cast<size_t>(*axis)]);
  }
  return extents;
}
Quantity extents(const Scope& scope, Arguments a) {
  auto extents = extents_of(scope, a);
  return extents ? from_dims(*extents) : NotKnown{};
}
Quantity extent(const Scope& scope, Arguments a) {
  auto extents = extents_of(scope, a);
  if (!extents) return NotKnown{};
  return from_dim(std::accumulate(extents->begin(), extents->end(), scope.dims().constant(0)));
}

// One of the two is 1 at each place.
Quantity either_is_one(const Scope& scope, Arguments a) {
  auto x = dims_of(a[0], scope.dims()), y = dims_of(a[1], scope.dims());
  if (!x || !y || x->size() != y->size()) return NotKnown{};
  for (size_t i = 0; i < x->size(); ++i) {
    if ((*x)[i].as_constant() != 1 && (*y)[i].as_constant() != 1) return false;
  }
  return true;
}

// Axes ------------------------------------------------------------------------------------------------------------

// Squeeze(Squeeze(x, a), b): axis i of the inner result is the i-th axis of x that a has not.
Quantity squeeze_both(const Scope&, Arguments q) {
  auto a = as_integers(q[0]), b = as_integers(q[1]);
  auto is_negative = [](int64_t axis) { return axis < 0; };
  if (!a || !b || std::ranges::any_of(*a, is_negative) || std::ranges::any_of(*b, is_negative)) return NotKnown{};
  Integers axes = *a;
  for (int64_t i : *b) {
    int64_t axis = 0;
    for (int64_t left = i; contains(*a, axis) || left-- > 0;) ++axis;
    axes.push_back(axis);
  }
  std::ranges::sort(axes);
  return axes;
}

// Unsqueeze(Unsqueeze(x, a), b): an axis of the inner result is the i-th of the outer one that b has not.
Quantity unsqueeze_both(const Scope& scope, Arguments q) {
  const Quantity swapped[] = {q[1], q[0]};
  return squeeze_both(scope, swapped);
}

// Permutations ------------------------------------------------------------------------------------------------------

// The order of what is left of Transpose{p}(x) when those of its axes go.
Quantity perm_without(const Scope&, Arguments q) {
  auto p = permutation(q[0]);
  auto axes = as_integers(q[1]);
  if (!p || !axes || !are_distinct_axes(*axes, std::ssize(*p))) return NotKnown{};
  Integers kept;
  for (size_t i = 0; i < p->size(); ++i) {
    if (!contains(*axes, static_cast<int64_t>(i))) kept.push_back((*p)[i]);
  }
  Integers order;
  for (int64_t axis : kept) order.push_back(std::ranges::count_if(kept, [&](int64_t other) { return other < axis; }));
  return order;
}

// Transpose{p} of x, with x's axes of size 1 where they come to be: the same elements in the same order.
Quantity settled_perm(const Scope& scope, Arguments q) {
  auto perm = permutation(q[0]);
  auto dims = dims_of(q[1], scope.dims());
  if (!perm || !dims || perm->size() != dims->size()) return NotKnown{};
  Integers settled(perm->size()), places;  // of the axes that are not of size 1, before and behind
  for (size_t i = 0; i < perm->size(); ++i) {
    settled[i] = static_cast<int64_t>(i);
    if ((*dims)[static_cast<size_t>((*perm)[i])].as_constant() != 1) places.push_back(settled[i]);
  }
  Integers in_order = places;
  std::ranges::sort(in_order, {}, [&](int64_t i) { return (*perm)[static_cast<size_t>(i)]; });
  for (size_t i = 0; i < places.size(); ++i) settled[static_cast<size_t>(in_order[i])] = places[i];
  return settled;
}

// Unsqueeze(Transpose{p}(x), axes) = Transpose{perm_with(p, axes)}(Unsqueeze(x, axes)).
Quantity perm_with(const Scope&, Arguments q) {
  auto p = permutation(q[0]);
  auto axes = as_integers(q[1]);
  if (!p || !axes || !are_distinct_axes(*axes, std::ssize(*p) + std::ssize(*axes))) return NotKnown{};
  Integers others;  // where the axes of x are
  for (int64_t i = 0; i < std::ssize(*p) + std::ssize(*axes); ++i) {
    if (!contains(*axes, i)) others.push_back(i);
  }
  Integers order;
  size_t next = 0;
  for (int64_t i = 0; i < std::ssize(*p) + std::ssize(*axes); ++i) {
    order.push_back(contains(*axes, i) ? i : others[static_cast<size_t>((*p)[next++])]);
  }
  return order;
}

Quantity keeps_order(const Scope& scope, Arguments q) {
  auto p = permutation(q[0]);
  auto shape = dims_of(q[1], scope.dims());
  if (!p || !shape || p->size() != shape->size()) return NotKnown{};
  int64_t last = -1;
  for (int64_t axis : *p) {
    if (is_one((*shape)[static_cast<size_t>(axis)])) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

Quantity swaps_last_two(const Scope&, Arguments q) {
  auto p = permutation(q[0]);
  if (!p) return NotKnown{};
  size_t rank = p->size();
  if (rank < 2) return false;
  Integers swapped(rank);
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[rank - 1], swapped[rank - 2]);
  return *p == swapped;
}

// Reshape(Transpose{p}(x), s) where the axes that Reshape merges, or the axis that it divides, are neighbours in x in the same
// order: whole blocks of axes are permuted, so the Reshape can be done first, block by block.
struct Block {
  size_t from, to;      // axes of Transpose's result
  size_t s_from, s_to;  // of the result
};

std::optional<std::vector<Block>> blocks(std::span<const Dim> t, std::span<const Dim> s, ir::DimTable& table) {
  std::vector<Block> found;
  size_t i = 0, j = 0;
  while (i < t.size() || j < s.size()) {
    Block block{i, i, j, j};
    Dim left = table.constant(1), right = table.constant(1);
    while (block.to == block.from || !provably_equal(left, right)) {
      bool extend_left = block.to == block.from || divide_exactly(right, left).has_value();
      if (extend_left && block.to < t.size()) {
        left = left * t[block.to++];
      } else if (block.s_to < s.size()) {
        right = right * s[block.s_to++];
      } else {
        return std::nullopt;
      }
    }
    i = block.to;
    j = block.s_to;
    // Ones at the end belong to the last block.
    bool rest_is_one = i == t.size() && std::ranges::all_of(s.subspan(j), is_one);
    if (rest_is_one) j = block.s_to = s.size();
    found.push_back(block);
  }
  return found;
}

struct ReshapeFirst {
  Dims shape;  // of the Reshape
  Integers perm;
};

std::optional<ReshapeFirst> reshape_first(const Scope& scope, Arguments q) {
  auto p = permutation(q[0]);
  auto x = dims_of(q[1], scope.dims()), s = dims_of(q[2], scope.dims());
  if (!p || !x || !s || p->size() != x->size()) return std::nullopt;
  for (const Dims& dims : {*x, *s}) {
    if (std::ranges::any_of(dims, [](Dim d) { return d.is_unknown() || d.as_constant() == 0; })) return std::nullopt;
  }
  Dims t;
  for (int64_t axis : *p) t.push_back((*x)[static_cast<size_t>(axis)]);
  auto parts = blocks(t, *s, scope.dims());
  if (!parts) return std::nullopt;
  for (const Block& block : *parts) {
    for (size_t i = block.from + 1; i < block.to; ++i) {
      if ((*p)[i] != (*p)[i - 1] + 1) return std::nullopt;
    }
  }
  std::vector<Block> order = *parts;  // as the blocks are in x
  std::ranges::sort(order, {}, [&](const Block& block) { return (*p)[block.from]; });
  ReshapeFirst result{{}, Integers(s->size())};
  for (const Block& block : order) {
    for (size_t j = block.s_from; j < block.s_to; ++j) {
      result.perm[j] = std::ssize(result.shape);
      result.shape.push_back((*s)[j]);
    }
  }
  return result;
}

Quantity shape_before_transpose(const Scope& scope, Arguments q) {
  auto first = reshape_first(scope, q);
  return first ? from_dims(first->shape) : NotKnown{};
}
Quantity perm_after_reshape(const Scope& scope, Arguments q) {
  auto first = reshape_first(scope, q);
  return first ? Quantity(first->perm) : NotKnown{};
}

// Transpose{q}(Reshape(t, s)) where Transpose keeps whole blocks: the same as a Reshape of t, transposed by this. Axes of size 1 belong to no block:
// those of t come first.
Quantity perm_before_reshape(const Scope& scope, Arguments a) {
  auto q = permutation(a[0]);
  auto t = dims_of(a[1], scope.dims()), s = dims_of(a[2], scope.dims());
  if (!q || !t || !s || q->size() != s->size()) return NotKnown{};
  for (const Dims& dims : {*t, *s}) {
    if (std::ranges::any_of(dims, [](Dim d) { return d.is_unknown() || d.as_constant() == 0; })) return NotKnown{};
  }
  Integers perm, kept;  // kept: axes of t
  Dims from, to;
  for (size_t axis = 0; axis < t->size(); ++axis) (is_one((*t)[axis]) ? perm : kept).push_back(static_cast<int64_t>(axis));
  std::ranges::copy_if(*t, std::back_inserter(from), std::not_fn(is_one));
  std::ranges::copy_if(*s, std::back_inserter(to), std::not_fn(is_one));
  std::vector<size_t> order;  // of the axes of `to`
  for (int64_t axis : *q) {
    const auto before = std::span(*s).first(static_cast<size_t>(axis));
    if (!is_one((*s)[static_cast<size_t>(axis)])) order.push_back(static_cast<size_t>(std::ranges::count_if(before, std::not_fn(is_one))));
  }
  auto parts = blocks(from, to, scope.dims());
  if (!parts) return NotKnown{};
  for (size_t i = 0; i < order.size();) {
    auto block = std::ranges::find(*parts, order[i], &Block::s_from);
    if (block == parts->end() || block->s_to == block->s_from) return NotKnown{};
    for (size_t axis = block->s_from; axis < block->s_to; ++axis, ++i) {
      if (i == order.size() || order[i] != axis) return NotKnown{};
    }
    for (size_t axis = block->from; axis < block->to; ++axis) perm.push_back(kept[axis]);
  }
  return perm.size() == t->size() ? Quantity(perm) : NotKnown{};
}

// Values --------------------------------------------------------------------------------------------------------------

Quantity step(const Scope&, Arguments q) {
  auto list = as_integers(q[0]);
  if (!list || list->size() < 2) return NotKnown{};
  int64_t difference;
  if (__builtin_sub_overflow((*list)[1], (*list)[0], &difference)) return NotKnown{};
  for (size_t i = 1; i < list->size(); ++i) {
    int64_t next;
    if (__builtin_sub_overflow((*list)[i], (*list)[i - 1], &next) || next != difference) return NotKnown{};
  }
  return difference;
}

Quantity disjoint(const Scope&, Arguments q) {
  auto a = as_integers(q[0]), b = as_integers(q[1]);
  if (!a || !b) return NotKnown{};
  return std::ranges::none_of(*a, [&](int64_t x) { return contains(*b, x); });
}

// The axis along which a tensor of integers counts 0, 1, 2, …, while it has the size 1 along all others or is the same there;
// of a tensor of zeros, which counts along any axis of size 1, -1. Empty: it does not.
std::optional<int> counted_axis(const ir::Node* node, int depth = 0) {
  constexpr int kDeepest = 8;
  const ir::Type* type = node->type();
  if (!type || !type->is_tensor() || !type->has_rank() || depth > kDeepest) return std::nullopt;
  auto dims = type->dims();
  if (const Tensor* t = ir::constant_tensor(node)) {
    if (t->dtype() != DType::I64 || t->size() == 0) return std::nullopt;
    auto values = t->data<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != static_cast<int64_t>(i)) return std::nullopt;
    }
    if (values.size() == 1) return -1;
    auto axis = std::ranges::find_if(dims, [](Dim d) { return d.as_constant() != 1; });
    if (std::any_of(axis + 1, dims.end(), [](Dim d) { return d.as_constant() != 1; })) return std::nullopt;
    return static_cast<int>(axis - dims.begin());
  }
  const ir::Apply* apply = node->as_apply();
  if (!apply || apply->num_inputs() == 0) return std::nullopt;
  if (apply->is("Range")) {
    auto is = [&](size_t i, int64_t value) {
      const Tensor* t = ir::constant_tensor(apply->input(i));
      return t && t->dtype() == DType::I64 && t->size() == 1 && t->data<int64_t>()[0] == value;
    };
    return is(0, 0) && is(2, 1) ? std::optional(0) : std::nullopt;
  }
  const ir::Node* from = apply->input(0);
  if (!from->type() || !from->type()->is_tensor() || !from->type()->has_rank()) return std::nullopt;
  auto before = from->type()->dims();
  auto axis = apply->is("Expand") || apply->is("Unsqueeze") || apply->is("Reshape") ? counted_axis(from, depth + 1)
                                                                                    : std::nullopt;
  if (!axis || *axis < 0) return axis;
  if (apply->is("Expand")) {
    int moved = *axis + static_cast<int>(dims.size() - before.size());
    return provably_equal(before[static_cast<size_t>(*axis)], dims[static_cast<size_t>(moved)]) ? std::optional(moved)
                                                                                                : std::nullopt;
  }
  // A view that has the same sizes but for ones keeps the order of axes.
  std::vector<int> axes_before, axes_after;
  auto collect = [](std::span<const Dim> sizes, std::vector<int>& axes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].as_constant() != 1) axes.push_back(static_cast<int>(i));
    }
  };
  collect(before, axes_before);
  collect(dims, axes_after);
  auto is_same = [&](int i, int j) {
    return provably_equal(before[static_cast<size_t>(i)], dims[static_cast<size_t>(j)]);
  };
  if (!std::ranges::equal(axes_before, axes_after, is_same)) return std::nullopt;
  auto at = std::ranges::find(axes_before, *axis);
  return at == axes_before.end() ? -1 : axes_after[static_cast<size_t>(at - axes_before.begin())];
}

// Coordinates that are computed: each operand of a Concat along the last axis counts along an axis of its own, behind that of
// the operand before.
bool enumerates_by_counting(const ir::Node* node, std::span<const Dim> shape) {
  const ir::Apply* concat = node->as_apply();
  const ir::Type* type = node->type();
  if (!concat || !concat->is("Concat") || !type || !type->is_tensor() || !type->has_rank() || type->rank() == 0)
    return false;
  auto places = type->dims().first(type->dims().size() - 1);
  if (ir::axis_of(*concat, type->rank()) != std::ssize(places) || concat->num_inputs() != shape.size()) return false;
  int last = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    auto axis = counted_axis(concat->input(i));
    if (!axis) return false;
    if (*axis < 0) {
      if (shape[i].as_constant() != 1) return false;
      continue;
    }
    if (*axis <= last || *axis >= std::ssize(places)) return false;
    if (!provably_equal(places[static_cast<size_t>(*axis)], shape[i])) return false;
    for (int between = last + 1; between < *axis; ++between) {
      if (places[static_cast<size_t>(between)].as_constant() != 1) return false;
    }
    last = *axis;
  }
  return std::ranges::all_of(places.subspan(static_cast<size_t>(last + 1)), is_one);
}

// Indices as GatherND and ScatterND take them: coordinates along the last axis.
Quantity enumerates(const Scope& scope, Arguments q) {
  const ir::Node* node = as_node(q[0]);
  auto dims = dims_of(q[1], scope.dims());
  if (!node || !dims) return NotKnown{};
  const Tensor* t = ir::constant_tensor(node);
  if (!t) return enumerates_by_counting(node, *dims);
  auto shape = as_integers(q[1]);
  if (t->dtype() != DType::I64 || !shape) return NotKnown{};
  const size_t depth = shape->size();
  auto values = t->data<int64_t>();
  bool fits = depth > 0 && t->rank() > 0 && t->dim(t->rank() - 1) == static_cast<int64_t>(depth) &&
              std::ranges::all_of(*shape, [](int64_t d) { return d > 0; }) &&
              t->size() / static_cast<int64_t>(depth) == element_count(*shape);
  if (!fits) return false;
  Integers at(depth, 0);
  for (size_t i = 0; i < values.size(); i += depth) {
    if (!std::ranges::equal(values.subspan(i, depth), at)) return false;
    for (size_t axis = depth; axis-- > 0 && ++at[axis] == (*shape)[axis];) at[axis] = 0;
  }
  return true;
}

// Whether the last axis holds the same twice: a constant of such halves, a Concat of one operand with itself, and what
// is computed of these element by element, or is a view that keeps the axis.
bool has_equal_halves(const ir::Node* node, int depth) {
  constexpr int kDeepest = 8;
  const ir::Type* type = node ? node->type() : nullptr;
  if (!type || !type->is_tensor() || !type->has_rank() || type->rank() == 0 || depth > kDeepest) return false;
  const int last = static_cast<int>(type->rank()) - 1;
  if (const Tensor* t = ir::constant_tensor(node)) {
    if (t->dtype() == DType::String || t->size() == 0 || t->dim(last) % 2 != 0) return false;
    const size_t half = static_cast<size_t>(t->dim(last)) / 2 * element_bytes(t->dtype());
    const auto* bytes = static_cast<const std::byte*>(t->raw());
    for (const std::byte* row = bytes; row < bytes + t->bytes(); row += 2 * half) {
      if (std::memcmp(row, row + half, half) != 0) return false;
    }
    return true;
  }
  const ir::Apply* apply = node->as_apply();
  if (!apply || apply->num_inputs() == 0) return false;
  if (apply->is("Concat")) {
    return apply->num_inputs() == 2 && apply->input(0) == apply->input(1) && ir::axis_of(*apply, type->rank()) == last;
  }
  auto extent = [](const ir::Node* x) -> std::optional<Dim> {
    bool ranked = x->type() && x->type()->is_tensor() && x->type()->has_rank() && x->type()->rank() > 0;
    return ranked ? std::optional(x->type()->dims().back()) : std::nullopt;
  };
  if (apply->op().fusion == ir::FusionKind::View) {
    auto before = extent(apply->input(0));
    return before && provably_equal(*before, type->dims().back()) && has_equal_halves(apply->input(0), depth + 1);
  }
  if (apply->op().fusion != ir::FusionKind::Elementwise && apply->op().fusion != ir::FusionKind::Broadcast)
    return false;
  return std::ranges::all_of(apply->operands(), [&](const ir::Use& use) {
    const Tensor* constant = ir::constant_tensor(use.node);
    auto own = extent(use.node);
    bool is_broadcast = (constant && constant->size() == 1) || (own && is_one(*own));
    return is_broadcast || has_equal_halves(use.node, depth + 1);
  });
}
Quantity equal_halves(const Scope&, Arguments q) {
  const ir::Node* node = as_node(q[0]);
  return node ? Quantity(has_equal_halves(node, 0)) : NotKnown{};
}

Quantity is_unit_matrix(const Scope&, Arguments q) {
  const ir::Node* node = as_node(q[0]);
  const Tensor* t = node ? ir::constant_tensor(node) : nullptr;
  if (!t) return NotKnown{};
  if (t->rank() != 2 || t->dim(0) != t->dim(1) || t->dim(0) == 0) return false;
  bool is_number = (is_float(t->dtype()) && element_bits(t->dtype()) >= 16) ||
                   (is_integer(t->dtype()) && element_bits(t->dtype()) >= 8);
  if (!is_number) return false;
  return dispatch<Numbers>(t->dtype(), [&]<class T>() {
    auto values = t->data<T>();
    const auto size = static_cast<size_t>(t->dim(0));
    for (size_t i = 0; i < values.size(); ++i) {
      if (static_cast<double>(static_cast<ComputeType<T>>(values[i])) != (i % (size + 1) == 0 ? 1 : 0)) return false;
    }
    return true;
  });
}

Quantity scalar(const Scope&, Arguments q) {
  if (const int64_t* integer = std::get_if<int64_t>(&q[0])) return Tensor::scalar(*integer);
  const ir::Node* node = as_node(q[0]);
  const Tensor* t = node ? ir::constant_tensor(node) : std::get_if<Tensor>(&q[0]);
  return t && t->size() == 1 ? Quantity(t->reshaped(std::span<const int64_t>())) : NotKnown{};
}

Quantity attribute(const Scope&, Arguments q) {
  const ir::Node* node = as_node(q[0]);
  const ir::Apply* apply = node ? node->as_apply() : nullptr;
  const std::string* name = std::get_if<std::string>(&q[1]);
  if (!apply || !name) return NotKnown{};
  const AttributeValue* value = ir::attribute_or_default(*apply, *name);
  if (value) return from_attribute(*value);
  return q.size() > 2 ? q[2] : NotKnown{};
}

constexpr Function kShapeFunctions[] = {
    {"reshape_to", 2, 2, reshape_to,
     "reshape_to(x, shape): the list with which Reshape gives x that shape, also a symbolic one, by 0 and -1"},
    {"added_axes", 2, 2, added_axes,
     "added_axes(x, y): the axes with which Unsqueeze gives x the shape of y, where it can"},
    {"places", 2, 2, places, "places(list, value): all i for which list[i] is the value"},
    {"expand_to", 2, 2, expand_to,
     "expand_to(x, shape): the list with which Expand gives x that shape: 1 where x has a symbolic size already"},
    {"extents", 2, 2, extents, "extents(xs, axis): the sizes along an axis of several"},
    {"extent", 2, 2, extent, "extent(xs, axis): the sizes along an axis of several, added"},
    {"either_is_one", 2, 2, either_is_one, "either_is_one(a, b): whether one of two lists is 1 at each place"},
    {"squeeze_both", 2, 2, squeeze_both, "squeeze_both(a, b): the axes of Squeeze(Squeeze(x, a), b) as one Squeeze"},
    {"unsqueeze_both", 2, 2, unsqueeze_both,
     "unsqueeze_both(a, b): the axes of Unsqueeze(Unsqueeze(x, a), b) as one Unsqueeze"},
    {"perm_without", 2, 2, perm_without,
     "perm_without(p, axes): how Transpose{p} permutes what is left without those axes of its result"},
    {"perm_with", 2, 2, perm_with, "perm_with(p, axes): Unsqueeze(·, axes) of Transpose{p} as Transpose of Unsqueeze"},
    {"settled_perm", 2, 2, settled_perm,
     "settled_perm(p, x): Transpose{p}(x) permutes the same elements if x has its axes of size 1 where they come to "
     "be"},
    {"keeps_order", 2, 2, keeps_order,
     "keeps_order(p, shape): whether Transpose{p} of a tensor of that shape moves axes of size 1 only"},
    {"swaps_last_two", 1, 1, swaps_last_two, "swaps_last_two(p): whether Transpose{p} transposes matrices"},
    {"shape_before_transpose", 3, 3, shape_before_transpose,
     "shape_before_transpose(p, x, s): Reshape(Transpose{p}(x), s), where it keeps whole blocks of axes, is a "
     "Transpose of "
     "Reshape(x, this)"},
    {"perm_after_reshape", 3, 3, perm_after_reshape, "perm_after_reshape(p, x, s): which Transpose that is"},
    {"perm_before_reshape", 3, 3, perm_before_reshape,
     "perm_before_reshape(q, x, s): Transpose{q}(Reshape(x, s)), where Transpose keeps whole blocks of axes of x, is a "
     "Reshape of Transpose{this}(x)"},
    {"step", 1, 1, step, "step(list): the difference of neighbours, where it is the same for all"},
    {"disjoint", 2, 2, disjoint, "disjoint(a, b): whether no element of one list is in the other"},
    {"enumerates", 2, 2, enumerates,
     "enumerates(i, shape): whether indices, as of GatherND, are all places of that shape in order"},
    {"equal_halves", 1, 1, equal_halves,
     "equal_halves(x): whether both halves along the last axis are shown to be equal"},
    {"is_unit_matrix", 1, 1, is_unit_matrix, "is_unit_matrix(c): ones on the diagonal, else zeros"},
    {"scalar", 1, 1, scalar,
     "scalar(c): a constant, or a tensor attribute, of one element as a scalar; an integer as one of i64"},
    {"attribute", 2, 3, attribute, "attribute(n, 'name', otherwise): of an application; the last where it has none"},
};

}  // namespace

std::span<const Function> functions_about_shapes() { return kShapeFunctions; }

}  // namespace anfora::rewrite
