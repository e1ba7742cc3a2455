// Movement of data as one map of indices, written back as the shortest chain.
//
//     Slice(Gather(x, [1, 0, 2]), 0, 1)               the row 0 of the rows 1, 0, 2 of x     =   Slice(x, 1, 2)
//     Concat(Slice(x, 0, 1), Slice(x, 1, 3))          the rows 0 and 1, 2                    =   x
//     ReduceSum(Slice(x, axis 0, backwards), axis 0)  a sum of all rows in another order     =   ReduceSum(x, axis 0)
//
// Transpose, Slice, Gather, Pad, Expand, Tile, the results of Split, and Concat of parts of one value take each element of their result
// from one place, or from nowhere, which is padding. They treat axes one by one: axis i of the result is an axis of the operand, by
// a list of indices along it. Such maps compose. A map is written as at most one Slice, a Gather for each list that is no
// progression, one Expand, one Transpose and one Pad, and takes the place of the chain where these are fewer operators than
// it had. So no chain is spelled otherwise for its own sake, and it ends.
//
// Axes that nothing touches may have any size; lists are as long as kMostIndices. A chain is followed kMostSteps operators.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/queries.h"
#include "passes/expression.h"
#include "passes/permutation.h"
#include "passes/simplify/engines.h"
#include "rewrite/match.h"
#include "support/integers.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;
using Integers = std::vector<int64_t>;

constexpr int64_t kMostIndices = 4096;
constexpr int kMostSteps = 8;
constexpr size_t kMostGathered = 64;  // by a Gather that is made: longer lists are faster as the slices that they come of
constexpr int64_t kPadding = -1;
constexpr int kImpossible = 1 << 20;  // a cost

Integers counted(int64_t first, int64_t size, int64_t step = 1) {
  Integers result(static_cast<size_t>(size));
  for (size_t i = 0; i < result.size(); ++i) result[i] = first + static_cast<int64_t>(i) * step;
  return result;
}

struct Axis {
  int64_t from;                   // the axis of the source
  std::optional<Integers> index;  // along it; none: all of it in order, however long
  friend bool operator==(const Axis&, const Axis&) = default;
};

struct IndexMap {
  Node* source;
  std::vector<Axis> axes;
  std::optional<double> padding;  // what is nowhere in the source

  static IndexMap identity(Node* node) {
    IndexMap map{node, {}, std::nullopt};
    for (int64_t axis = 0; axis < node->type()->rank(); ++axis) map.axes.push_back({axis, std::nullopt});
    return map;
  }
  friend bool operator==(const IndexMap&, const IndexMap&) = default;
  bool is_padding_alone() const {
    return std::ranges::any_of(axes, [](const Axis& axis) {
      return axis.index && std::ranges::all_of(*axis.index, [](int64_t i) { return i == kPadding; });
    });
  }
};

std::optional<int64_t> static_size(const Node* node, int64_t axis) {
  auto size = node->type()->dim(static_cast<int>(axis)).as_constant();
  return size && *size > 0 && *size <= kMostIndices ? size : std::nullopt;
}

// The list, also where it is all in order.
std::optional<Integers> index_along(const IndexMap& map, size_t axis) {
  if (map.axes[axis].index) return map.axes[axis].index;
  auto size = static_size(map.source, map.axes[axis].from);
  return size ? std::optional(counted(0, *size)) : std::nullopt;
}

// First `inner`, whose result is the source of `outer`.
std::optional<IndexMap> composed(const IndexMap& outer, const IndexMap& inner) {
  if (outer.padding && inner.padding && *outer.padding != *inner.padding) return std::nullopt;
  IndexMap result{inner.source, {}, outer.padding ? outer.padding : inner.padding};
  for (const Axis& axis : outer.axes) {
    const Axis& source = inner.axes[static_cast<size_t>(axis.from)];
    result.axes.push_back({source.from, axis.index});
    std::optional<Integers>& index = result.axes.back().index;
    if (!index) index = source.index;
    else if (source.index)
      for (int64_t& i : *index) i = i == kPadding ? i : (*source.index)[static_cast<size_t>(i)];
  }
  return result;
}

// One operator as a map -----------------------------------------------------------------------------------------------------

std::optional<IndexMap> map_of(const Apply& node, int depth);

// A map that touches some axes of operand 0: `list` tells what it takes along one.
template <class List>
std::optional<IndexMap> along_axes(const Apply& node, const Integers& axes, List list) {
  IndexMap map = IndexMap::identity(node.input(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= static_cast<int64_t>(map.axes.size())) return std::nullopt;
    auto size = static_size(node.input(0), axes[i]);
    std::optional<Integers> index = size ? list(i, *size) : std::nullopt;
    if (!index || index->empty() || static_cast<int64_t>(index->size()) > kMostIndices) return std::nullopt;
    map.axes[static_cast<size_t>(axes[i])].index = std::move(index);
  }
  return map;
}

IndexMap map_of_permutation(const Apply& node) {
  IndexMap map = IndexMap::identity(node.input(0));
  const Permutation permutation = permutation_of(node, node.input(0)->type()->rank());
  for (size_t i = 0; i < permutation.size(); ++i) map.axes[i].from = permutation[i];
  return map;
}

std::optional<IndexMap> map_of_slice(const Apply& node) {
  auto starts = constant_integers(node, 1), ends = constant_integers(node, 2), axes = constant_integers(node, 3);
  auto steps = node.has_input(4) ? constant_integers(node, 4) : std::optional(Integers(starts ? starts->size() : 0, 1));
  if (!starts || !ends || !axes || !steps) return std::nullopt;
  return along_axes(node, *axes, [&](size_t i, int64_t size) -> std::optional<Integers> {
    const int64_t step = (*steps)[i], highest = step > 0 ? size : size - 1, lowest = step > 0 ? 0 : -1;
    auto bound = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, lowest, highest); };
    const int64_t start = bound((*starts)[i]), end = (*ends)[i] < -size ? lowest : bound((*ends)[i]);
    if (step == 0) return std::nullopt;
    const int64_t length = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    return length > 0 ? std::optional(counted(start, length, step)) : std::nullopt;
  });
}

std::optional<IndexMap> map_of_gather(const Apply& node) {
  auto indices = constant_integers(node, 1);
  if (!indices || constant_tensor(node.input(1))->rank() != 1) return std::nullopt;
  const auto axis = axis_of(node, rank_of(node.input(0)));
  if (!axis) return std::nullopt;
  return along_axes(node, {*axis}, [&](size_t, int64_t size) -> std::optional<Integers> {
    Integers index = *indices;
    for (int64_t& i : index) {
      if (i < 0) i += size;
      if (i < 0 || i >= size) return std::nullopt;
    }
    return index;
  });
}

std::optional<IndexMap> map_of_pad(const Apply& node) {
  auto pads = constant_integers(node, 1);
  const auto value = node.has_input(2) ? rewrite::splat_value(node.input(2)) : std::optional(0.0);
  auto axes = node.has_input(3) ? constant_integers(node, 3) : std::optional(identity(node.input(0)->type()->rank()));
  if (!pads || !value || !axes || pads->size() != 2 * axes->size() || node.attributes().get_string("mode", "constant") != "constant")
    return std::nullopt;
  Integers touched, before, after;
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*pads)[i] == 0 && (*pads)[i + axes->size()] == 0) continue;
    touched.push_back((*axes)[i]);
    before.push_back((*pads)[i]);
    after.push_back((*pads)[i + axes->size()]);
  }
  auto map = along_axes(node, touched, [&](size_t i, int64_t size) -> std::optional<Integers> {
    const int64_t length = before[i] + size + after[i];
    if (length <= 0 || length > kMostIndices) return std::nullopt;
    Integers index = counted(-before[i], length);
    for (int64_t& at : index) at = at < 0 || at >= size ? kPadding : at;
    return index;
  });
  if (map) map->padding = *value;
  return map;
}

// Expand and Tile of the same rank, by the sizes of what they make.
std::optional<IndexMap> map_of_repetition(const Apply& node) {
  const Type *before = node.input(0)->type(), *after = node.type();
  if (before->rank() != after->rank()) return std::nullopt;
  Integers touched;
  for (int axis = 0; axis < after->rank(); ++axis) {
    if (!provably_equal(before->dim(axis), after->dim(axis))) touched.push_back(axis);
  }
  return along_axes(node, touched, [&](size_t i, int64_t size) -> std::optional<Integers> {
    auto length = static_size(&node, touched[i]);
    if (!length) return std::nullopt;
    Integers index = counted(0, *length);
    for (int64_t& at : index) at %= size;
    return index;
  });
}

std::optional<IndexMap> map_of_part(const Apply& item) {
  const Apply* split = item.input(0)->as_apply();
  if (!split || !split->is("Split") || !ranked_type(split->input(0))) return std::nullopt;
  const auto axis = axis_of(*split, rank_of(split->input(0)));
  if (!axis) return std::nullopt;
  int64_t start = 0;
  const int64_t which = item.attributes().require_int("index");
  for (int64_t i = 0; i < which; ++i) {
    const Type* part = split->type()->element(static_cast<size_t>(i));
    auto size = part->is_tensor() && part->has_rank() ? part->dim(static_cast<int>(*axis)).as_constant() : std::nullopt;
    if (!size) return std::nullopt;
    start += *size;
  }
  return along_axes(*split, {*axis}, [&](size_t, int64_t) -> std::optional<Integers> {
    auto length = static_size(&item, *axis);
    return length ? std::optional(counted(start, *length)) : std::nullopt;
  });
}

// As far down as operators are maps.
IndexMap deepest_map(Node* node, int depth) {
  IndexMap map = IndexMap::identity(node);
  for (int step = 0; step < kMostSteps && depth > 0; ++step) {
    const Apply* next = map.source->as_apply();
    auto inner = next ? map_of(*next, depth - 1) : std::nullopt;
    auto all = inner ? composed(map, *inner) : std::nullopt;
    if (!all) break;
    map = std::move(*all);
  }
  return map;
}

// The number that all elements are.
std::optional<double> uniform_value(const IndexMap& map) {
  if (map.is_padding_alone()) return map.padding;
  return constant_tensor(map.source) && !map.padding ? rewrite::splat_value(map.source) : std::nullopt;
}

// As long as `part` along the axis, of padding only, and otherwise like `model`.
std::optional<IndexMap> padding_like(const IndexMap& model, const IndexMap& part, size_t axis) {
  auto value = uniform_value(part);
  auto index = index_along(part, axis);
  if (!value || !index) return std::nullopt;
  IndexMap result = model;
  result.padding = value;
  result.axes[axis].index = Integers(index->size(), kPadding);
  return result;
}

// `b` behind `a` along an axis, where both are parts of one value, or one of them is padding.
std::optional<IndexMap> joined(const IndexMap& a, const IndexMap& b, size_t axis) {
  if (a.axes.size() != b.axes.size()) return std::nullopt;
  if (a.source != b.source) {
    if (auto padding = padding_like(a, b, axis)) return joined(a, *padding, axis);
    auto padding = padding_like(b, a, axis);
    return padding ? joined(*padding, b, axis) : std::nullopt;
  }
  if (a.padding && b.padding && *a.padding != *b.padding) return std::nullopt;
  IndexMap result = a;
  if (!a.padding) result.padding = b.padding;
  for (size_t i = 0; i < a.axes.size(); ++i) {
    if (a.axes[i].from != b.axes[i].from) return std::nullopt;
    if (i != axis && a.axes[i].index == b.axes[i].index) continue;
    auto first = index_along(a, i), second = index_along(b, i);
    if (!first || !second || (i != axis && *first != *second)) return std::nullopt;
    if (i != axis) continue;
    first->insert(first->end(), second->begin(), second->end());
    if (static_cast<int64_t>(first->size()) > kMostIndices) return std::nullopt;
    result.axes[i].index = std::move(first);
  }
  return result;
}

// The operands of a Concat as maps, neighbours that are parts of one value together.
std::vector<IndexMap> parts_of_concat(const Apply& concat, int depth) {
  const auto axis = axis_of(concat, rank_of(&concat));
  if (!axis) return {};
  std::vector<IndexMap> parts;
  for (const Use& use : concat.operands()) {
    if (rank_of(use.node) != rank_of(&concat)) return {};
    IndexMap next = deepest_map(use.node, depth);
    auto both = parts.empty() ? std::nullopt : joined(parts.back(), next, static_cast<size_t>(*axis));
    if (both) parts.back() = std::move(*both);
    else parts.push_back(std::move(next));
  }
  return parts;
}

std::optional<IndexMap> map_of(const Apply& node, int depth) {
  if (node.primitive() == Primitive::TupleGetItem) return map_of_part(node);
  if (node.primitive() != Primitive::Operation || node.num_outputs() != 1) return std::nullopt;
  if (node.num_inputs() == 0 || !ranked_type(&node) || !ranked_type(node.input(0))) return std::nullopt;
  switch (node.op().movement) {
    case Movement::Permutation: return map_of_permutation(node);
    case Movement::Slice: return map_of_slice(node);
    case Movement::Gather: return map_of_gather(node);
    case Movement::Pad: return map_of_pad(node);
    case Movement::Repetition: return map_of_repetition(node);
    case Movement::None: break;
  }
  if (!node.is("Concat") || depth == 0) return std::nullopt;
  std::vector<IndexMap> parts = parts_of_concat(node, depth - 1);
  return parts.size() == 1 ? std::optional(std::move(parts.front())) : std::nullopt;
}

// A map that takes nothing but of one operand of a Concat, as a map of that.
std::optional<IndexMap> within_operand(const IndexMap& map) {
  const Apply* concat = map.source->as_apply();
  if (!concat || !concat->is("Concat")) return std::nullopt;
  const auto axis = axis_of(*concat, rank_of(concat));
  auto taken = axis ? std::ranges::find(map.axes, *axis, &Axis::from) : map.axes.end();
  if (taken == map.axes.end() || !taken->index) return std::nullopt;
  int64_t start = 0;
  for (const Use& use : concat->operands()) {
    auto size = ranked_type(use.node) ? static_size(use.node, *axis) : std::nullopt;
    if (!size) return std::nullopt;
    auto is_here = [&](int64_t i) { return i == kPadding || (i >= start && i < start + *size); };
    if (std::ranges::all_of(*taken->index, is_here)) {
      IndexMap result = map;
      result.source = use.node;
      for (int64_t& i : *result.axes[static_cast<size_t>(taken - map.axes.begin())].index) i -= i == kPadding ? 0 : start;
      return result;
    }
    start += *size;
  }
  return std::nullopt;
}

// A map as operators -----------------------------------------------------------------------------------------------------------

// What makes a list of indices along an axis: a progression, repetition or others, with padding around.
struct Taking {
  enum class Kind : uint8_t { All, Slice, Gather, Repetition } kind = Kind::All;
  Integers index;
  int64_t before = 0, after = 0;
};

std::optional<Taking> taking_of(const IndexMap& map, size_t axis) {
  Taking taking;
  if (!map.axes[axis].index) return taking;
  taking.index = *map.axes[axis].index;
  Integers& index = taking.index;
  while (!index.empty() && index.back() == kPadding) index.pop_back(), ++taking.after;
  auto first = std::ranges::find_if(index, [](int64_t i) { return i != kPadding; });
  taking.before = first - index.begin();
  index.erase(index.begin(), first);
  if (std::ranges::count(index, kPadding)) return std::nullopt;
  auto size = static_size(map.source, map.axes[axis].from);
  if (!size) return std::nullopt;
  const int64_t step = index.size() > 1 ? index[1] - index[0] : 1;
  const bool is_progression = step != 0 && index == counted(index[0], static_cast<int64_t>(index.size()), step);
  if (is_progression && step == 1 && static_cast<int64_t>(index.size()) == *size) return taking;
  if (!is_progression && *size > 1 && index.size() > kMostGathered) return std::nullopt;
  using enum Taking::Kind;
  taking.kind = is_progression ? Slice : *size == 1 ? Repetition : Gather;
  return taking;
}

class Writer {
 public:
  explicit Writer(const IndexMap& map) : map_(map), is_padding_alone_(map.is_padding_alone()) {
    if (is_padding_alone_) return;
    for (size_t i = 0; i < map.axes.size(); ++i) {
      auto taking = taking_of(map, i);
      is_possible_ = is_possible_ && taking;
      takings_.push_back(taking.value_or(Taking()));
    }
  }

  int cost() const {
    if (is_padding_alone_) return 0;
    if (!is_possible_) return kImpossible;
    auto any = [&](auto predicate) { return static_cast<int>(std::ranges::any_of(takings_, predicate)); };
    return any([](const Taking& t) { return t.kind == Taking::Kind::Slice; }) +
           any([](const Taking& t) { return t.kind == Taking::Kind::Repetition; }) + any(is_padded) + is_transposed() +
           static_cast<int>(std::ranges::count(takings_, Taking::Kind::Gather, &Taking::kind));
  }

  // Null where a number is not one of the element type.
  Node* write(Rewriter& rewriter) const {
    if (is_padding_alone_) return padding_alone(rewriter);
    Node* value = map_.source;
    Integers starts, ends, axes, steps;
    Integers shape(map_.axes.size(), 1);
    bool repeats = false;
    for (size_t i = 0; i < takings_.size(); ++i) {
      const Integers& index = takings_[i].index;
      if (takings_[i].kind == Taking::Kind::Slice) {
        const int64_t step = index.size() > 1 ? index[1] - index[0] : 1;
        const int64_t size = *static_size(map_.source, map_.axes[i].from);
        starts.push_back(index.front());
        ends.push_back(step > 0 ? index.back() + 1 : index.back() - 1 - size);
        axes.push_back(map_.axes[i].from);
        steps.push_back(step);
      }
      if (takings_[i].kind == Taking::Kind::Repetition) {
        repeats = true;
        shape[static_cast<size_t>(map_.axes[i].from)] = static_cast<int64_t>(index.size());
      }
    }
    if (!axes.empty()) {
      const bool by_ones = std::ranges::all_of(steps, [](int64_t step) { return step == 1; });
      Node *from = rewriter.integers(starts), *to = rewriter.integers(ends), *along = rewriter.integers(axes);
      value = by_ones ? rewriter.apply("Slice", {value, from, to, along})
                      : rewriter.apply("Slice", {value, from, to, along, rewriter.integers(steps)});
    }
    for (size_t i = 0; i < takings_.size(); ++i) {
      if (takings_[i].kind != Taking::Kind::Gather) continue;
      value = rewriter.apply("Gather", {value, rewriter.integers(takings_[i].index)},
                             AttributeSet().with("axis", map_.axes[i].from));
    }
    if (repeats) value = rewriter.apply("Expand", {value, rewriter.integers(shape)});
    if (is_transposed()) {
      Integers permutation;
      for (const Axis& axis : map_.axes) permutation.push_back(axis.from);
      value = rewriter.apply("Transpose", {value}, AttributeSet().with("perm", permutation));
    }
    return std::ranges::any_of(takings_, is_padded) ? padded(rewriter, value) : value;
  }

 private:
  static bool is_padded(const Taking& taking) { return taking.before + taking.after > 0; }
  bool is_transposed() const { return !std::ranges::is_sorted(map_.axes, {}, &Axis::from); }

  Node* padded(Rewriter& rewriter, Node* value) const {
    Integers pads;
    for (const Taking& taking : takings_) pads.push_back(taking.before);
    for (const Taking& taking : takings_) pads.push_back(taking.after);
    if (*map_.padding == 0) return rewriter.apply("Pad", {value, rewriter.integers(pads)});
    auto number = rewrite::scalar_of(map_.source->type()->dtype(), *map_.padding);
    return number ? rewriter.apply("Pad", {value, rewriter.integers(pads), rewriter.constant(*std::move(number))}) : nullptr;
  }
  Node* padding_alone(Rewriter& rewriter) const {
    Integers shape;
    for (size_t i = 0; i < map_.axes.size(); ++i) {
      auto index = index_along(map_, i);
      if (!index) return nullptr;
      shape.push_back(static_cast<int64_t>(index->size()));
    }
    auto number = rewrite::scalar_of(map_.source->type()->dtype(), *map_.padding);
    return number ? rewriter.apply("Expand", {rewriter.constant(*std::move(number)), rewriter.integers(shape)}) : nullptr;
  }

  const IndexMap& map_;
  const bool is_padding_alone_;
  std::vector<Taking> takings_;
  bool is_possible_ = true;
};

// Rules ----------------------------------------------------------------------------------------------------------------------

// Whether nobody reads it but that application.
bool is_read_by(const Node* node, const Node* reader) {
  return std::ranges::all_of(node->uses(), [&](const Use& use) { return use.user == reader; });
}

// Whether there is an equal application, with which CSE will merge it. Users are looked at up to a number.
bool has_twin(const Apply& apply) {
  constexpr int kMostUsers = 16;
  int seen = 0;
  for (const Use& use : apply.input(0)->uses()) {
    if (++seen > kMostUsers) break;
    const Apply& other = *use.user;
    if (&other != &apply && other.graph() == apply.graph() && other.has_uses() && are_same_expression(other, apply)) return true;
  }
  return false;
}

// How many operators go when nobody reads a value any more but `reader`, up to a source.
int operators_above(const Node* node, const Node* reader, const Node* source) {
  int count = 0;
  for (const Node* user = reader; node != source && is_read_by(node, user);) {
    const Apply* apply = node->as_apply();
    if (!apply || apply->num_inputs() == 0) break;
    count += apply->primitive() == Primitive::Operation;
    if (apply->is("Concat")) {  // to each of its parts once
      boost::container::small_vector<const Node*, 8> seen;
      for (const Use& use : apply->operands()) {
        if (std::ranges::count(seen, use.node)) continue;
        seen.push_back(use.node);
        count += operators_above(use.node, apply, source);
      }
      break;
    }
    user = node;
    node = apply->input(0);
  }
  return count;
}

// The chain that ends in the root, by the map that saves the most.
Node* shorten_movement(Rewriter& rewriter, Apply& root) {
  std::optional<IndexMap> best;
  int most = 0;
  if (!ranked_type(&root)) return nullptr;
  IndexMap map = IndexMap::identity(&root);
  for (int step = 0; step < kMostSteps; ++step) {
    const Apply* next = map.source->as_apply();
    auto inner = next ? map_of(*next, 2) : std::nullopt;
    auto all = inner ? composed(map, *inner) : within_operand(map);
    if (!all) break;
    map = std::move(*all);
    if (constant_tensor(map.source)) break;  // left to constant folding
    const int before = (root.primitive() == Primitive::Operation) + operators_above(root.input(0), &root, map.source);
    if (const int saved = before - Writer(map).cost(); saved > most) {
      most = saved;
      best = map;
    }
  }
  return best ? Writer(*best).write(rewriter) : nullptr;
}

// The only part of a Split that is read, as a Slice.
Node* slice_of_split(Rewriter& rewriter, Apply& root) {
  if (!root.input(0)->has_one_use()) return nullptr;
  auto part = ranked_type(&root) ? map_of_part(root) : std::nullopt;
  if (!part) return nullptr;
  Writer writer(*part);
  return writer.cost() <= 1 ? writer.write(rewriter) : nullptr;
}

// A Concat whose neighbours are parts of one value.
Node* shorten_concat(Rewriter& rewriter, Apply& root) {
  if (root.num_inputs() < 2) return nullptr;
  std::vector<IndexMap> parts = parts_of_concat(root, 2);
  if (parts.empty() || parts.size() == root.num_inputs()) return nullptr;
  int before = 1, after = parts.size() > 1;
  boost::container::small_vector<const Node*, 8> seen;
  for (const Use& use : root.operands()) {
    if (std::ranges::count(seen, use.node)) continue;
    seen.push_back(use.node);
    before += operators_above(use.node, &root, deepest_map(use.node, 2).source);
  }
  for (const IndexMap& part : parts) after += Writer(part).cost();
  if (after >= before) return nullptr;
  boost::container::small_vector<Node*, 8> operands;
  for (const IndexMap& part : parts) {
    operands.push_back(Writer(part).write(rewriter));
    if (!operands.back()) return nullptr;
  }
  return operands.size() == 1 ? operands.front() : rewriter.apply(root.op(), operands, root.attributes());
}

// A reduction of what is moved along the axes that it reduces, or along others: Reduce(x[:, p][q]) = Reduce(x[:, p′])[q], where p′ is p in
// order, without padding for a sum, each index once for an extremum.
Node* reduce_moved(Rewriter& rewriter, Apply& root) {
  const Type* type = ranked_type(root.input(0));
  auto axes = constant_integers(root, 1);
  if (!type || !axes || axes->empty() || root.attributes().get_int("keepdims", 1) == 0) return nullptr;
  const bool ignores_repeats = root.op().reduces == Reduces::Repeats, ignores_zeros = root.op().reduces == Reduces::Zeros;
  const IndexMap map = deepest_map(root.input(0), 2);
  if ((map.padding && (*map.padding != 0 || !ignores_zeros)) || map.source == root.input(0) || !ranked_type(map.source)) return nullptr;
  IndexMap chosen = IndexMap::identity(map.source), moved = map;  // before and after
  Integers reduced;
  for (int64_t axis : *axes) {
    if (axis < 0 || axis >= type->rank()) return nullptr;
    const int64_t from = map.axes[static_cast<size_t>(axis)].from;
    auto index = index_along(map, static_cast<size_t>(axis));
    auto size = static_size(map.source, from);
    if (!index || !size) return nullptr;
    std::ranges::sort(*index);
    if (ignores_zeros) std::erase(*index, kPadding);
    if (ignores_repeats) index->erase(std::unique(index->begin(), index->end()), index->end());
    if (index->empty()) return nullptr;
    if (*index != counted(0, *size)) chosen.axes[static_cast<size_t>(from)].index = std::move(index);
    moved.axes[static_cast<size_t>(axis)].index = std::nullopt;
    reduced.push_back(from);
  }
  const int before = operators_above(root.input(0), &root, map.source);
  if (Writer(chosen).cost() + Writer(moved).cost() >= before) return nullptr;
  std::ranges::sort(reduced);
  Node* operand = Writer(chosen).write(rewriter);
  moved.source = rewriter.apply(root.op(), std::vector<Node*>{operand, rewriter.integers(reduced)}, root.attributes());
  return Writer(moved).write(rewriter);
}

// Whether constant folding is left to make it a constant.
bool is_constant(const Node* node) {
  const Apply* apply = node->as_apply();
  return constant_tensor(node) || (apply && apply->num_inputs() > 0 && std::ranges::all_of(apply->operands(), [](const Use& use) {
                                     return constant_tensor(use.node);
                                   }));
}

// What is moved of an elementwise operator, or of a Concat along another axis, is that of what its operands move.
//
//     Gather(Add(Gather(x, [1, 0, 2]), y), [1, 0, 2])   =   Add(x, Gather(y, [1, 0, 2]))
Node* move_operands(Rewriter& rewriter, Apply& root) {
  Apply* inner = root.num_inputs() > 0 ? root.input(0)->as_apply() : nullptr;
  const bool is_movable = inner && inner->primitive() == Primitive::Operation && inner->has_one_use() && inner->num_outputs() == 1 &&
                          inner->op().effect == Effect::Pure && ranked_type(inner) && ranked_type(&root);
  const bool is_concat = is_movable && inner->is("Concat");
  if (!is_movable || (!is_concat && inner->op().fusion != FusionKind::Elementwise && inner->op().fusion != FusionKind::Broadcast)) return nullptr;
  const auto outer = map_of(root, 1);
  if (!outer || outer->padding || outer->axes.size() != static_cast<size_t>(inner->type()->rank())) return nullptr;
  AttributeSet attributes = inner->attributes();
  if (is_concat) {
    const auto axis = axis_of(*inner, rank_of(inner));
    auto along = axis ? std::ranges::find(outer->axes, *axis, &Axis::from) : outer->axes.end();
    if (along == outer->axes.end() || along->index) return nullptr;
    attributes = attributes.with("axis", static_cast<int64_t>(along - outer->axes.begin()));
  }
  std::vector<IndexMap> maps;
  std::vector<const Node*> seen;
  int before = 1, after = 0;
  for (const Use& use : inner->operands()) {
    if (!ranked_type(use.node) || constant_tensor(use.node) || (!is_concat && !same_shape(*use.node, *inner))) return nullptr;
    IndexMap below = deepest_map(use.node, 1);
    auto all = composed(*outer, below);
    if (!all || is_constant(below.source)) return nullptr;
    const Apply* mover = use.node->as_apply();
    const bool stays = std::ranges::count(seen, use.node) || (mover && mover->num_inputs() > 0 && has_twin(*mover));
    if (!stays) before += operators_above(use.node, inner, below.source);
    seen.push_back(use.node);
    if (!std::ranges::count(maps, *all)) after += Writer(*all).cost();
    maps.push_back(std::move(*all));
  }
  if (after >= before) return nullptr;
  boost::container::small_vector<Node*, 4> operands;
  for (auto map = maps.begin(); map != maps.end(); ++map) {
    auto same = std::find(maps.begin(), map, *map);
    operands.push_back(same == map ? Writer(*map).write(rewriter) : operands[static_cast<size_t>(same - maps.begin())]);
    if (!operands.back()) return nullptr;
  }
  return rewriter.apply(inner->op(), operands, attributes);
}

constexpr std::string_view kMovement = "a chain of Slice, Gather, Transpose, … = a shorter one";
constexpr std::string_view kConcat = "parts of one value put together = a part of it";
constexpr std::string_view kReduction = "a reduction does not depend on the order of what it reduces";

bool is_movement(const Operator& op) { return op.movement != Movement::None; }
bool is_movement_or_part(const Operator& op) { return is_movement(op) || op.primitive == Primitive::TupleGetItem; }
bool is_reduction(const Operator& op) { return op.reduces != Reduces::Nothing; }

constexpr Rule kIndexMaps[] = {
    {"shorter-movement", is_movement_or_part, kMovement, Promise::Exact, shorten_movement},
    {"move-operands", is_movement, "what is moved of f(x, y) = f of what is moved of x and y", Promise::Exact, move_operands},
    {"only-part", "TupleGetItem", "a Split of which one part is read = a Slice", Promise::Exact, slice_of_split},
    {"concat-of-parts", "Concat", kConcat, Promise::Exact, shorten_concat},
    {"reduce-moved", is_reduction, kReduction, Promise::Real, reduce_moved},
};

}  // namespace

std::span<const Rule> index_map_rules() { return kIndexMaps; }

}  // namespace anfora::passes
