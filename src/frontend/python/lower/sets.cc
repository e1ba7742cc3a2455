// Sets: items that the compiler knows the number of, as of a tuple; a set that is written to is a cell of one that is not. What a run decides is whether two of them are equal: then `in` is a
// computation, and what would need to know how many items there are is an error.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {

Object Lowering::make_set(const std::vector<Object>& items) {
  Items kept;
  bool is_distinct = true;
  for (const Object& item : items) {
    if (item.is<Cell>() || (item.is<Array>() && !Emitter::is_number(item))) {
      emit_.fail(ErrorCode::TypeMismatch, fmt::format("a set cannot hold a {}", describe(item)), "sets hold numbers, texts and tuples of them");
    }
    const std::optional<bool> is_there = known_member(item, kept.items);
    is_distinct = is_distinct && is_there.has_value();
    if (!is_there.value_or(false)) kept.items.push_back(item);
  }
  return {SetObject{std::make_shared<const Items>(std::move(kept)), is_distinct}};
}

// Whether one of the items equals it; empty where only a run knows.
std::optional<bool> Lowering::known_member(const Object& wanted, const std::vector<Object>& items) {
  const Object found = member(wanted, items);
  const bool* known = found.constant<bool>();
  return known ? std::optional(*known) : std::nullopt;
}

// As CPython, which looks whether it is the same object before it compares.
Object Lowering::member(const Object& wanted, const std::vector<Object>& items) {
  Object found{Constant{false}};
  for (const Object& item : items) {
    if (Emitter::is_number(wanted) && !differs(wanted, item)) return {Constant{true}};
    const Object is_equal = truth(compare(Kind::Eq, wanted, item));
    if (const bool* known = is_equal.constant<bool>()) {
      if (*known) return is_equal;
    } else {
      found = found.constant<bool>() ? is_equal : emit_.binary(Kind::BitOr, found, is_equal);
    }
  }
  return found;
}

// Its items, where their number does not depend on the run.
const std::vector<Object>& Lowering::distinct_items(const SetObject& set) {
  if (!set.is_distinct) {
    emit_.fail(ErrorCode::Unsupported, "which items of this set are equal is only known when it runs",
               "`in` is computed; its size and its items need items that the compiler knows");
  }
  return set.items->items;
}

bool Lowering::holds_all(const SetObject& set, const SetObject& others) {
  return std::ranges::all_of(distinct_items(others), [&](const Object& item) {
    const std::optional<bool> is_there = known_member(item, distinct_items(set));
    if (!is_there) distinct_items({set.items, false});
    return *is_there;
  });
}

std::optional<Object> Lowering::compare_sets(Kind op, const Object& left, const Object& right) {
  const SetObject *a = set_of(left), *b = set_of(right);
  if ((a || b) && (op == Kind::Eq || op == Kind::NotEq) && !(a && b)) return Object{Constant{op == Kind::NotEq}};
  if (!a || !b) return std::nullopt;
  const size_t size_a = distinct_items(*a).size(), size_b = distinct_items(*b).size();
  switch (op) {
    case Kind::Eq: return Object{Constant{size_a == size_b && holds_all(*a, *b)}};
    case Kind::NotEq: return Object{Constant{size_a != size_b || !holds_all(*a, *b)}};
    case Kind::LtE: return Object{Constant{holds_all(*b, *a)}};
    case Kind::Lt: return Object{Constant{size_a < size_b && holds_all(*b, *a)}};
    case Kind::GtE: return Object{Constant{holds_all(*a, *b)}};
    case Kind::Gt: return Object{Constant{size_a > size_b && holds_all(*a, *b)}};
    default: return std::nullopt;
  }
}

std::optional<Object> Lowering::combine_sets(Kind op, const Object& left, const Object& right) {
  const SetObject *a = set_of(left), *b = set_of(right);
  if (!a || !b) return std::nullopt;
  std::vector<Object> items;
  auto add = [&](const SetObject& from, const SetObject& other, bool are_in_other) {
    for (const Object& item : distinct_items(from)) {
      const std::optional<bool> is_there = known_member(item, distinct_items(other));
      if (!is_there) distinct_items({from.items, false});
      if (*is_there == are_in_other) items.push_back(item);
    }
  };
  switch (op) {
    case Kind::BitOr:
      items = a->items->items;
      items.insert(items.end(), b->items->items.begin(), b->items->items.end());
      break;
    case Kind::BitAnd: add(*a, *b, true); break;
    case Kind::Sub: add(*a, *b, false); break;
    case Kind::BitXor: add(*a, *b, false), add(*b, *a, false); break;
    default: return std::nullopt;
  }
  const Object made = make_set(items);
  return left.is<Cell>() ? make_cell(Cell::Kind::Set, made) : made;
}

const SetObject* Lowering::set_of(const Object& object) const {
  const auto* cell = object.as<Cell>();
  return cell && cell->kind == Cell::Kind::Set ? content(*cell).as<SetObject>() : object.as<SetObject>();
}

// Of a set: null where there is no such method. Others are taken for sets where CPython does: s.union([1, 2]).
std::optional<Object> Lowering::call_set_method(const Object& set, const std::string& name, const std::vector<Object>& given) {
  const auto* cell = set.as<Cell>();
  const Object held = cell ? content(*cell) : set;
  auto as_set = [&](const Object& items) { return set_of(items) ? Object{*set_of(items)} : make_set(items_of(items)); };
  auto need = [&](size_t least, size_t most) {
    if (given.size() >= least && given.size() <= most) return;
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() takes {} argument{}", name, most, most == 1 ? "" : "s"),
               "others that CPython takes are not supported");
  };
  struct Combination {
    std::string_view name, update;
    Kind op;
  };
  static constexpr Combination kCombinations[] = {
      {"union", "update", Kind::BitOr},
      {"intersection", "intersection_update", Kind::BitAnd},
      {"difference", "difference_update", Kind::Sub},
      {"symmetric_difference", "symmetric_difference_update", Kind::BitXor},
  };
  const Object none{Constant{NoneValue()}};
  auto write = [&](Object content) {
    require_own(*cell);
    here_.store[cell->id] = std::move(content);
    return none;
  };
  for (const Combination& combination : kCombinations) {
    if (name != combination.name && name != combination.update) continue;
    Object result = held;
    for (const Object& other : given) result = *combine_sets(combination.op, result, as_set(other));
    if (name == combination.update) return cell ? std::optional(write(std::move(result))) : std::nullopt;
    return cell ? make_cell(Cell::Kind::Set, std::move(result)) : result;
  }
  if (name == "issubset") return need(1, 1), compare_sets(Kind::LtE, held, as_set(given[0]));
  if (name == "issuperset") return need(1, 1), compare_sets(Kind::GtE, held, as_set(given[0]));
  if (name == "isdisjoint") {
    need(1, 1);
    return Object{Constant{combine_sets(Kind::BitAnd, held, as_set(given[0]))->as<SetObject>()->items->items.empty()}};
  }
  if (name == "copy") return need(0, 0), cell ? make_cell(Cell::Kind::Set, held) : held;
  if (!cell) return std::nullopt;
  if (name == "clear") return need(0, 0), write(make_set({}));
  if (name == "add") return need(1, 1), write(*combine_sets(Kind::BitOr, held, make_set(given)));
  if (name == "discard") return need(1, 1), write(*combine_sets(Kind::Sub, held, make_set(given)));
  if (name == "remove") {
    need(1, 1);
    if (!holds_all(*held.as<SetObject>(), *make_set(given).as<SetObject>())) {
      emit_.fail(ErrorCode::InvalidArgument, "the set has no such item", "discard() takes out what may not be there");
    }
    return write(*combine_sets(Kind::Sub, held, make_set(given)));
  }
  if (name == "pop") {
    need(0, 0);
    const Object only = make_tuple(items_of(held));  // of several, which one is not defined
    if (only.tuple()->items.empty()) emit_.fail(ErrorCode::InvalidArgument, "pop() of an empty set", "test for items before: if s");
    write(make_set({}));
    return only.tuple()->items[0];
  }
  return std::nullopt;
}

}  // namespace anfora::python
