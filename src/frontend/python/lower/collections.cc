// What Python's module collections adds to dicts, lists and tuples.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {
namespace {

// A class that namedtuple() makes in a compiled function.
class NamedTuple : public Live {
 public:
  NamedTuple(std::string name, std::vector<std::string> fields) : name_(std::move(name)), fields_(std::move(fields)) {}
  std::string describe() const override { return name_; }
  std::optional<Object> attribute(const std::string&) const override { return std::nullopt; }
  std::optional<Object> overload(std::span<const std::string>) const override { return std::nullopt; }
  std::vector<std::string> fields() const override { return fields_; }
  bool is_a(const Live& type) const override { return type.identity() == this; }
  bool is_a(std::string_view type) const override { return type == "tuple"; }
  bool is_base_of(std::string_view) const override { return false; }
  const void* identity() const override { return this; }
  bool is_equal_by_identity() const override { return true; }

 private:
  std::string name_;
  std::vector<std::string> fields_;
};

}  // namespace

Object Lowering::make_collection(const std::string& name, Arguments arguments) {
  std::vector<Object>& given = arguments.positional;
  auto need = [&](size_t least, size_t most) {
    if (given.size() >= least && given.size() <= most) return;
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() takes {} arguments, {} are given", name, most, given.size()),
               "others that CPython takes are not supported");
  };
  if (name == "namedtuple") {
    need(2, 2);
    std::vector<std::string> fields;
    if (auto text = text_of(given[1])) {
      std::ranges::replace(*text, ',', ' ');
      for (size_t at = 0, end; (at = text->find_first_not_of(' ', at)) != std::string::npos; at = end) {
        end = std::min(text->find(' ', at), text->size());
        fields.push_back(text->substr(at, end - at));
      }
    } else {
      for (const Object& field : items_of(given[1])) fields.push_back(text_of(field).value_or(""));
    }
    const std::shared_ptr<const Live> type = std::make_shared<NamedTuple>(text_of(given[0]).value_or("a named tuple"), std::move(fields));
    return {type};
  }
  if (name == "deque") {
    need(0, 2);
    std::optional<Object> longest = given.size() > 1 ? std::optional(given[1]) : std::nullopt;
    for (auto& [key, value] : arguments.named) {
      if (key == "maxlen") longest = value;
    }
    const Object deque = new_list(given.empty() ? std::vector<Object>() : items_of(given[0]));
    if (longest && !longest->is_none() && !integer_of(*longest)) {
      emit_.fail(ErrorCode::Unsupported, "maxlen of a deque must be known to the compiler", "popleft() takes items out");
    }
    collections_[deque.as<Cell>()->id] = {name, std::nullopt, longest ? integer_of(*longest) : std::nullopt};
    shorten(*deque.as<Cell>(), true);
    return deque;
  }
  const Object dict = new_dict({});
  Collection& collection = collections_[dict.as<Cell>()->id];
  collection.type = name;
  if (name == "Counter") {
    need(0, 1);
    collection.missing = Object{Builtin{"int"}};
    if (!given.empty()) count_items(dict, given[0]);
    given.clear();
  } else if (name == "defaultdict") {
    need(0, 2);
    if (!given.empty() && !given[0].is_none()) collection.missing = given[0];
    if (!given.empty()) given.erase(given.begin());
  }
  need(0, 1);
  update_dict(dict, arguments);
  return dict;
}

// Of a dict that makes what is not there.
std::optional<Object> Lowering::missing_item(const Object& dict, const Object& key) {
  const size_t id = dict.as<Cell>()->id;
  const auto collection = collections_.find(id);
  if (collection == collections_.end() || !collection->second.missing) return std::nullopt;
  Object made = call(*collection->second.missing, {});
  if (collection->second.type != "Counter") here_.store[id] = with_item(dict, key, made);
  return made;
}

void Lowering::count_items(const Object& counter, const Object& items) {
  auto add = [&](const Object& key, const Object& count) {
    here_.store[counter.as<Cell>()->id] = with_item(counter, key, binary(Kind::Add, subscript(counter, key), count));
  };
  if (const auto* cell = items.as<Cell>(); cell && cell->kind == Cell::Kind::Dict) {
    const std::vector<Object> pairs = content(*cell).tuple()->items;
    for (size_t i = 0; i < pairs.size(); i += 2) add(pairs[i], pairs[i + 1]);
    return;
  }
  for (const Object& key : items_of(items)) add(key, make_integer(1));
}

// Drops what a deque has no place for.
void Lowering::shorten(const Cell& deque, bool at_front) {
  const auto collection = collections_.find(deque.id);
  if (collection == collections_.end() || !collection->second.longest) return;
  const Object held = content(deque);
  if (!held.tuple()) {
    emit_.fail(ErrorCode::Unsupported, "a deque with maxlen needs a length that the compiler knows", "popleft() takes items out");
  }
  std::vector<Object> items = held.tuple()->items;
  const auto longest = static_cast<size_t>(*collection->second.longest);
  if (items.size() <= longest) return;
  const auto excess = static_cast<std::ptrdiff_t>(items.size() - longest);
  at_front ? items.erase(items.begin(), items.begin() + excess) : items.erase(items.end() - excess, items.end());
  here_.store[deque.id] = make_tuple(std::move(items));
}

// Those that lists have not; empty: there is no such method.
std::optional<Object> Lowering::call_deque_method(const Cell& deque, const std::string& name, const std::vector<Object>& given) {
  const Object none{Constant{NoneValue()}};
  const Object self{deque};
  auto as_list = [&](const std::string& method, std::vector<Object> arguments) {
    return call_method({std::make_shared<const Object>(self), method}, {.positional = std::move(arguments), .named = {}});
  };
  const size_t needed = name == "popleft" ? 0 : 1;
  if (given.size() != needed && name != "rotate")
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() takes {} argument{}", name, needed, needed == 1 ? "" : "s"));
  if (name == "popleft") return as_list("pop", {make_integer(0)});
  if (name == "appendleft") {
    as_list("insert", {make_integer(0), given[0]});
    shorten(deque, false);
    return none;
  }
  if (name == "extendleft") {
    for (const Object& item : items_of(given[0])) call_deque_method(deque, "appendleft", {item});
    return none;
  }
  if (name == "rotate") {
    const auto by = given.empty() ? std::optional<int64_t>(1) : integer_of(given[0]);
    std::vector<Object> items = items_of(self);
    if (!by) emit_.fail(ErrorCode::Unsupported, "by how much a deque is rotated must be known to the compiler");
    const auto size = static_cast<int64_t>(items.size());
    if (size > 0) std::ranges::rotate(items, items.end() - ((*by % size) + size) % size);
    here_.store[deque.id] = make_tuple(std::move(items));
    return none;
  }
  return std::nullopt;
}

Object Lowering::copy_of(const Cell& cell) {
  Object copy = make_cell(cell.kind, content(cell));
  if (auto collection = collections_.find(cell.id); collection != collections_.end()) {
    const Collection same = collection->second;
    collections_[copy.as<Cell>()->id] = same;
  }
  return copy;
}

}  // namespace anfora::python
