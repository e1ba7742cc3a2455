// x[…], read and written, with numpy's meaning of indices.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/lowering.h"
#include "frontend/python/operators.h"

namespace anfora::python {

using ir::Node;

namespace {

bool is_tensor_index(const Object& part) {
  return part.is<Array>() && !part.as<Array>()->is_number && part.as<Array>()->node->type()->rank() > 0;
}
bool is_mask(const Object& part) {
  return is_tensor_index(part) && part.as<Array>()->node->type()->dtype() == DType::Bool;
}
bool is_new_axis(const Object& part) { return part.is_none(); }

}  // namespace

int64_t Lowering::known_index(const Object& index, size_t size) {
  const auto known = integer_of(index);
  if (!known) {
    emit_.fail(ErrorCode::Unsupported, "which item is meant must be known to the compiler",
               "items of a tensor may be chosen by what is computed");
  }
  const auto count = static_cast<int64_t>(size);
  if (*known < -count || *known >= count)
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("there is no item {} of {}", *known, count),
               "the first is 0, the last -1");
  return *known < 0 ? *known + count : *known;
}

Object Lowering::subscript(const Object& object, const Object& index) {
  if (written_class(object)) {
    if (auto item = require_special(object, "__getitem__", {index}, "an item")) return *item;
  }
  if (const auto* cell = object.as<Cell>()) {
    const Object& items = content(*cell);
    if (cell->kind == Cell::Kind::Dict) {
      const auto& pairs = items.tuple()->items;
      for (size_t i = 0; i < pairs.size(); i += 2) {
        if (!differs(pairs[i], index)) return pairs[i + 1];
      }
      const auto missing = [&]() -> Object {
        require_uncaught("KeyError");
        raise("the dict has no such key, and a run cannot add one");
      };
      if (auto found = item_by_run_key(pairs, index, missing)) return *found;
      if (auto made = missing_item(object, index)) return *made;
      emit_.fail(
          ErrorCode::InvalidArgument,
          fmt::format("the dict has no such key{}", index.is<Constant>() ? ": " + repr(*index.as<Constant>()) : ""),
          "get() takes another value for a key that is not there");
    }
    if (set_of(object)) emit_.fail(ErrorCode::TypeMismatch, "a set has no order, and no items by position", "sorted(…) makes a list of it");
    if (!items.tuple()) return index.is<SliceObject>() ? part_of_list(items, index) : item(items, index);
    Object found = subscript(items, index);
    return index.is<SliceObject>() ? new_list(found.tuple()->items) : found;
  }
  if (const Items* tuple = object.tuple()) {
    const auto* slice = index.as<SliceObject>();
    if (!slice && !integer_of(index) && Emitter::is_numeric(index)) {
      const bool has_functions = !tuple->items.empty() && std::ranges::all_of(tuple->items, is_function);
      return has_functions ? function_at(tuple->items, index) : item(object, index);
    }
    if (!slice) return tuple->items[static_cast<size_t>(known_index(index, tuple->items.size()))];
    std::vector<Constant> positions, bounds;
    for (size_t i = 0; i < tuple->items.size(); ++i) positions.push_back({Integer(i)});
    for (const Object& part : slice->parts->items) {
      if (!part.is<Constant>())
        emit_.fail(ErrorCode::Unsupported, "which part of a tuple is meant must be known to the compiler",
                   "numpy.array(…) makes a tensor of it, of which a run may take any part");
      bounds.push_back(*part.as<Constant>());
    }
    const auto chosen = python::slice({Tuple{positions}}, bounds[0], bounds[1], bounds[2]);
    if (!chosen)
      emit_.fail(ErrorCode::InvalidArgument, "this is no slice of a tuple", "its parts are integers or None");
    std::vector<Object> items;
    for (const Constant& position : chosen->as<Tuple>().items)
      items.push_back(tuple->items[static_cast<size_t>(position.as<Integer>())]);
    return make_tuple(std::move(items));
  }
  if (const auto* text = object.as<Constant>(); text && index.is<Constant>()) {
    if (auto folded = python::subscript(*text, *index.as<Constant>())) return {*folded};
  }
  if (const auto* builtin = object.as<Builtin>()) {
    if (const auto function = find_subscript(builtin->name)) return call(*function, {.positional = {index}, .named = {}});
  }
  const auto* array = object.as<Array>();
  if (!array || Emitter::is_number(object))
    emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} has no items", describe(object)), kItems);
  if (array->node->type()->kind() == ir::TypeKind::Sequence) return item(object, index);
  return tensor_subscript(array->node, index);
}

// Of a list whose length a run decides: of numbers, since the items of others may differ in size.
Object Lowering::part_of_list(const Object& list, const Object& slice) {
  const auto& items = *list.as<Array>();
  if (emit_.rank(stacked(items.node)) != 1) {
    emit_.fail(ErrorCode::Unsupported, "a slice of a list of tensors whose length is only known when it runs is not supported",
               "numpy.stack() makes a tensor of it; a comprehension takes items one by one");
  }
  Node* part = tensor_subscript(stacked(items.node), slice).as<Array>()->node;
  return make_cell(Cell::Kind::List, Object{Array{unstacked(part), items.is_number}});
}

// One entry for each axis and each new one: an integer, a slice, None, or a tensor of positions.
std::vector<Object> Lowering::expanded_index(Node* tensor, const Object& index) {
  std::vector<Object> given;
  if (const Items* tuple = index.tuple()) {
    given = tuple->items;
  } else {
    given = {index};
  }
  size_t axes = 0, ellipsis = given.size();
  for (size_t i = 0; i < given.size(); ++i) {
    Object& part = given[i];
    if (part.tuple() || part.is<Cell>()) part = {Array{emit_.tensor(known_items(part))}};
    if (part.constant<EllipsisValue>()) {
      ellipsis = i;
    } else if (!is_new_axis(part)) {
      const bool is_other = part.is<Constant>() && !integer_of(part);
      if (is_other || part.constant<bool>() || part.is<Iterable>())
        emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} is no index", describe(part)),
                   "an index is an integer, a slice, None, ..., or a tensor of integers or truth values");
      axes += is_mask(part) ? static_cast<size_t>(part.as<Array>()->node->type()->rank()) : 1;
    }
  }
  const auto rank = static_cast<size_t>(emit_.rank(tensor));
  if (axes > rank)
    emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} indices for {} axes", axes, rank), "None adds an axis");
  const Object none{Constant{NoneValue()}};
  const Object all{SliceObject{std::make_shared<const Items>(Items{{none, none, none}, {}})}};
  std::vector<Object> whole(rank - axes, all), expanded;
  for (size_t i = 0; i < given.size(); ++i) {
    if (i == ellipsis) {
      expanded.insert(expanded.end(), whole.begin(), whole.end());
    } else {
      expanded.push_back(given[i]);
    }
  }
  if (ellipsis == given.size()) expanded.insert(expanded.end(), whole.begin(), whole.end());
  return expanded;
}

// numpy puts the axes of a tensor first where slices lie between it and an integer: x[0, :, [1, 3]]. Where they stay is elsewhere then.
void Lowering::require_adjacent(std::span<const Object> index) {
  auto is_advanced = [](const Object& part) { return is_tensor_index(part) || Emitter::is_numeric(part); };
  auto first = std::ranges::find_if(index, is_advanced);
  auto tensor = std::ranges::find_if(index, is_tensor_index);
  if (tensor == index.end() || std::find_if_not(index.begin(), tensor, is_advanced) == tensor) return;
  auto end = std::find_if_not(first, index.end(), is_advanced);
  if (std::find_if(end, index.end(), is_advanced) == index.end()) return;
  emit_.fail(ErrorCode::Unsupported, "an integer and a tensor as indices with slices between them are not supported",
             "index in two steps");
}

Object Lowering::tensor_subscript(Node* tensor, const Object& index) {
  const std::vector<Object> parts = expanded_index(tensor, index);
  require_adjacent(parts);
  return {Array{indexed(tensor, parts)}};
}

Node* Lowering::indexed(Node* tensor, std::span<const Object> index) {
  // Slices first: they keep the axes where they are.
  std::vector<Object> starts, ends, steps;
  std::vector<int64_t> axes;
  int64_t axis = 0;
  for (const Object& part : index) {
    if (is_new_axis(part)) continue;
    if (const auto* slice = part.as<SliceObject>()) {
      const std::vector<Object>& bounds = slice->parts->items;
      const bool is_whole = std::ranges::all_of(bounds, [](const Object& o) { return o.is_none(); });
      if (!is_whole) {
        const Object step = bounds[2].is_none() ? make_integer(1) : bounds[2];
        const auto known_step = integer_of(step);
        if (!known_step || *known_step == 0) {
          emit_.fail(ErrorCode::Unsupported,
                     known_step ? "the step of a slice is 0" : "the step of a slice must be known to the compiler");
        }
        const bool is_back = *known_step < 0;
        starts.push_back(!bounds[0].is_none() ? bounds[0] : make_integer(is_back ? INT64_MAX : 0));
        ends.push_back(!bounds[1].is_none() ? bounds[1] : make_integer(is_back ? INT64_MIN : INT64_MAX));
        steps.push_back(step);
        axes.push_back(axis);
      }
    }
    axis += is_mask(part) ? part.as<Array>()->node->type()->rank() : 1;
  }
  if (!axes.empty())
    tensor = emit_.op("Slice",
                      {tensor, emit_.vector(starts), emit_.vector(ends), emit_.integers(axes), emit_.vector(steps)});

  // Then tensors of positions, which are broadcast and lie side by side; then integers, from the back.
  std::vector<Node*> positions;
  std::vector<int64_t> position_axes;
  axis = 0;
  for (const Object& part : index) {
    if (is_new_axis(part)) continue;
    if (is_mask(part)) {
      Node* found = emit_.op("NonZero", {part.as<Array>()->node});
      for (int d = 0; d < part.as<Array>()->node->type()->rank(); ++d) {
        positions.push_back(emit_.op("Gather", {found, emit_.integer(d)}, {{"axis", 0}}));
        position_axes.push_back(axis++);
      }
      continue;
    }
    if (is_tensor_index(part)) {
      positions.push_back(part.as<Array>()->node);
      position_axes.push_back(axis);
    }
    ++axis;
  }
  if (positions.size() == 1) {
    tensor = emit_.op("Gather", {tensor, positions[0]}, {{"axis", static_cast<int>(position_axes[0])}});
  } else if (positions.size() > 1) {
    for (size_t i = 0; i < positions.size(); ++i) {
      if (position_axes[i] != static_cast<int64_t>(i)) {
        emit_.fail(ErrorCode::Unsupported, "several tensors as indices are supported for the first axes only",
                   "transpose() before");
      }
    }
    for (const Object& part : index) {
      if (Emitter::is_number(part))
        emit_.fail(ErrorCode::Unsupported, "integers beside several tensors as indices are not supported",
                   "index in two steps");
    }
    Node* sum = positions[0];
    for (size_t i = 1; i < positions.size(); ++i)
      sum = emit_.op("Add", {emit_.cast(sum, DType::I64), emit_.cast(positions[i], DType::I64)});
    Node* shape = emit_.op("Shape", {sum});
    std::vector<Node*> columns;
    for (Node* p : positions)
      columns.push_back(
          emit_.op("Unsqueeze", {emit_.op("Expand", {emit_.cast(p, DType::I64), shape}), emit_.integers({-1})}));
    tensor = emit_.op("GatherND", {tensor, emit_.apply("Concat", columns, {{"axis", int64_t{-1}}})});
  }
  // Where an axis is now: a tensor of positions leaves its own axes in the place of the one it indexes.
  std::vector<std::pair<int64_t, const Object*>> integers;
  std::vector<int64_t> new_axes;
  int64_t before = 0, result = 0;
  bool has_positions = false;
  for (const Object& part : index) {
    if (is_new_axis(part)) {
      new_axes.push_back(result++);
    } else if (is_tensor_index(part)) {
      if (!std::exchange(has_positions, true)) {
        const int rank = is_mask(part)           ? 1
                         : positions.size() == 1 ? part.as<Array>()->node->type()->rank()
                                                 : broadcast_rank(positions);
        before += rank, result += rank;
      }
    } else if (part.is<SliceObject>()) {
      ++before, ++result;
    } else {
      integers.emplace_back(before++, &part);
    }
  }
  for (auto i = integers.rbegin(); i != integers.rend(); ++i) {
    tensor = emit_.op("Gather", {tensor, emit_.tensor(*i->second)}, {{"axis", static_cast<int>(i->first)}});
  }
  return new_axes.empty() ? tensor : emit_.op("Unsqueeze", {tensor, emit_.integers(new_axes)});
}

int Lowering::broadcast_rank(std::span<Node* const> tensors) {
  int rank = 0;
  for (const Node* node : tensors) rank = std::max(rank, node->type()->rank());
  return rank;
}

// The object with one item, or a part, replaced.
Object Lowering::with_item(const Object& object, const Object& index, const Object& value) {
  if (const auto* cell = object.as<Cell>()) {
    const bool is_choice = cell->kind == Cell::Kind::List && !integer_of(index) && Emitter::is_numeric(index);
    const Object held = is_choice ? as_sequence(object) : content(*cell);
    if (cell->kind == Cell::Kind::Dict) {
      std::vector<Object> pairs = held.tuple()->items;
      if (are_run_keys(pairs, index)) {
        for (size_t i = 0; i < pairs.size(); i += 2) {
          const Object old = pairs[i + 1];
          pairs[i + 1] = choose(compare(Kind::Eq, index, pairs[i]), [&] { return value; }, [&] { return old; });
        }
        subscript(object, index);  // a key that is not there is an error of the run
        return make_tuple(std::move(pairs));
      }
      size_t at = 0;
      while (at < pairs.size() && differs(pairs[at], index)) at += 2;
      require_known_key(index);
      if (at == pairs.size()) pairs.insert(pairs.end(), {index, value});
      pairs[at + 1] = value;
      return make_tuple(std::move(pairs));
    }
    if (set_of(object)) emit_.fail(ErrorCode::TypeMismatch, "items of a set cannot be assigned", "add() and discard() change it");
    if (!held.tuple()) {
      Node* sequence = held.as<Array>()->node;
      Node* item = list_item(sequence, value);
      return {Array{emit_.op("SequenceReplace", {sequence, item, emit_.tensor(index)}),
                    held.as<Array>()->is_number && Emitter::is_number(value)}};
    }
    std::vector<Object> items = held.tuple()->items;
    if (index.is<SliceObject>()) {
      std::vector<Object> positions;
      for (size_t i = 0; i < items.size(); ++i) positions.push_back(make_integer(static_cast<int64_t>(i)));
      const Object chosen = subscript(make_tuple(positions), index);
      const std::vector<Object>& places = chosen.tuple()->items;
      const std::vector<Object> values = items_of(value);
      const Object& step = index.as<SliceObject>()->parts->items[2];
      if (step.is_none() || integer_of(step) == 1) {
        const auto size = static_cast<int64_t>(items.size());
        const int64_t start = integer_of(index.as<SliceObject>()->parts->items[0]).value_or(0);
        const auto begin = items.begin() + std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
        items.insert(items.erase(begin, begin + static_cast<std::ptrdiff_t>(places.size())), values.begin(), values.end());
        return make_tuple(std::move(items));
      }
      if (values.size() != places.size()) {
        emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} values for {} items", values.size(), places.size()),
                   "a part with a step keeps its length");
      }
      for (size_t i = 0; i < places.size(); ++i) items[static_cast<size_t>(*integer_of(places[i]))] = values[i];
      return make_tuple(std::move(items));
    }
    items[static_cast<size_t>(known_index(index, items.size()))] = value;
    return make_tuple(std::move(items));
  }
  Node* tensor = object.as<Array>()->node;
  const DType dtype = tensor->type()->dtype();
  Node* update = emit_.tensor(as_array(value), dtype);
  const std::vector<Object> parts = expanded_index(tensor, index);
  // x[i, j] = v along the first axes.
  size_t leading = 0;
  while (leading < parts.size() && Emitter::is_number(parts[leading])) ++leading;
  const bool rest_is_whole =
      std::ranges::all_of(parts.begin() + static_cast<std::ptrdiff_t>(leading), parts.end(), [](const Object& part) {
        const auto* slice = part.as<SliceObject>();
        return slice && std::ranges::all_of(slice->parts->items, [](const Object& o) { return o.is_none(); });
      });
  if (leading > 0 && rest_is_whole) {
    Node* position = emit_.vector(std::span(parts).first(leading));
    if (parts.size() > leading)
      update = emit_.op("Expand", {update, emit_.op("Shape", {tensor}, {{"start", static_cast<int>(leading)}})});
    if (parts.size() == leading && (!update->type()->has_rank() || update->type()->rank() > 0))
      update = emit_.op("Reshape", {update, emit_.integers(std::span<const int64_t>())});
    return {Array{emit_.op("ScatterND", {tensor, position, update})}};
  }
  if (parts.size() == 1 && is_mask(parts[0]) && update->type()->has_rank() && update->type()->rank() == 0) {
    Node* mask = parts[0].as<Array>()->node;
    for (int axis = mask->type()->rank(); axis < emit_.rank(tensor); ++axis)
      mask = emit_.op("Unsqueeze", {mask, emit_.integers({-1})});
    return {Array{emit_.op("Where", {mask, update, tensor})}};
  }
  // Any other part: where its elements lie in the whole, in order.
  Node* shape = emit_.op("Shape", {tensor});
  Node* count = emit_.op("Size", {tensor});
  Node* places = emit_.op("Reshape", {emit_.op("Range", {emit_.integer(0), count, emit_.integer(1)}), shape});
  require_adjacent(parts);
  places = indexed(places, parts);
  update = emit_.op("Reshape", {emit_.op("Expand", {update, emit_.op("Shape", {places})}), emit_.integers({-1})});
  Node* flat = emit_.op("ScatterElements", {emit_.op("Reshape", {tensor, emit_.integers({-1})}),
                                            emit_.op("Reshape", {places, emit_.integers({-1})}), update});
  return {Array{emit_.op("Reshape", {flat, shape})}};
}

}  // namespace anfora::python
