// Lists, dicts and functions that are others on each path.
//
//     if c:                      The two lists become a new one, in whose content they differ: nobody can tell, since nothing
//         a = [1, 2]             else refers to either. Where something does, or may, all of them keep their items from here
//     else:                      on ("frozen"): what changes one would change the others or not, as the run went.
//         a = [3, 4]
//
// Functions of one text are merged by what they captured, in the same way. Others become a Choice, whose number is decided by the run.
#include <algorithm>

#include "frontend/python/lower/union.h"

namespace anfora::python {

void Lowering::Union::merge_cells(std::span<const State> states, std::set<size_t> others) {
  states_ = states, others_ = std::move(others);
}

std::set<size_t> Lowering::Union::merged() const {
  std::set<size_t> ids;
  for (const auto& [from, cell] : merged_) ids.insert(cell.id);
  return ids;
}

void Lowering::Union::freeze(const std::vector<size_t>& ids) {
  lowering_.frozen_cells_.insert(ids.begin(), ids.end());
  if (auto found = merged_.find(ids); found != merged_.end()) lowering_.frozen_cells_.insert(found->second.id);
}

Object Lowering::Union::cell(const std::vector<Object>& objects) {
  const Cell first = *objects[0].as<Cell>();
  std::vector<size_t> ids;
  for (const Object& o : objects) {
    const Cell& other = *o.as<Cell>();
    if (other.kind != first.kind || (first.type && other.type->identity() != first.type->identity())) differ(objects);
    ids.push_back(o.as<Cell>()->id);
  }
  const bool is_one = std::ranges::all_of(ids, [&](size_t id) { return id == first.id; });
  if (states_.size() != objects.size()) {
    if (!is_one) differ(objects);
    return objects[0];
  }
  auto has = [](const State& state, size_t id) { return state.store.contains(id); };
  if (is_one && !std::ranges::all_of(states_, [&](const State& state) { return has(state, first.id); }) && !std::ranges::count(kept_, first.id))
    kept_.push_back(first.id);
  std::vector<std::vector<size_t>> shared;  // with these, and not with all of them
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto [at, is_new] = united_with_.try_emplace({i, ids[i]}, ids);
    if (!is_new && at->second != ids) shared.push_back(at->second);
  }
  if (!is_one && !merged_.contains(ids)) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!has(states_[i], ids[i])) differ(objects);
    }
    merged_[ids] = *lowering_.make_cell(first.kind, std::nullopt, first.type).as<Cell>();
    merged_order_.push_back(ids);
    auto& collections = lowering_.collections_;
    auto type_of = [&](size_t id) { return collections.contains(id) ? collections.at(id).type : ""; };
    if (!std::ranges::all_of(ids, [&](size_t id) { return type_of(id) == type_of(first.id); })) differ(objects);
    if (collections.contains(first.id)) collections[merged_[ids].id] = Collection(collections.at(first.id));
    if (std::ranges::any_of(ids, [&](size_t id) { return lowering_.callers_cells_.contains(id); })) lowering_.callers_cells_.insert(merged_[ids].id);
    if (std::ranges::any_of(ids, [&](size_t id) { return others_.contains(id) || lowering_.frozen_cells_.contains(id); })) shared.push_back(ids);
  }
  if (!shared.empty()) {
    if (first.kind == Cell::Kind::Variable) differ(objects);
    freeze(ids);
    for (const auto& other : shared) freeze(other);
  }
  return is_one ? objects[0] : Object{merged_[ids]};
}

void Lowering::Union::unite_contents(State& united) {
  bound_at.clear();
  name = "a list, dict, object or variable";
  for (size_t k = 0, kept = 0; k < merged_order_.size() || kept < kept_.size();) {  // both grow
    std::vector<Object> objects;
    if (k < merged_order_.size()) {
      const std::vector<size_t> ids = merged_order_[k++];
      for (size_t i = 0; i < ids.size(); ++i) objects.push_back(states_[i].store.at(ids[i]));
      held_in = merged_[ids].kind;
      united.store[merged_[ids].id] = unite(objects);
      held_in = std::nullopt;
      continue;
    }
    const size_t id = kept_[kept++];
    const auto holder = std::ranges::find_if(states_, [&](const State& state) { return state.store.contains(id); });
    if (holder == states_.end()) continue;
    for (const State& state : states_) {
      const auto found = state.store.find(id);
      auto content = found == state.store.end() ? placeholder(holder->store.at(id)) : std::optional(found->second);
      if (!content) differ({holder->store.at(id)});
      objects.push_back(std::move(*content));
    }
    held_in = lowering_.cell_kinds_.contains(id) ? std::optional(lowering_.cell_kinds_.at(id)) : std::nullopt;
    united.store[id] = unite(objects);
    held_in = std::nullopt;
  }
}

// Of one text: one that captured what the others did.
Object Lowering::Union::closure(const std::vector<Object>& objects) {
  const Closure& first = *objects[0].closure();
  auto is_alike = [&](const Object& o) {
    const Closure& other = *o.closure();
    auto same_names = [](const auto& a, const auto& b) { return a.first == b.first; };
    return other.function == first.function && std::ranges::equal(other.captured, first.captured, same_names) &&
           std::ranges::equal(other.bound, first.bound, same_names);
  };
  if (states_.size() != objects.size() || !std::ranges::all_of(objects, is_alike)) return choice(objects);
  Closure united = first;
  for (auto& [variable, cell] : united.captured) {
    std::vector<Object> cells;
    for (const Object& o : objects) cells.push_back({o.closure()->captured.at(variable)});
    cell = *this->cell(cells).as<Cell>();
  }
  for (size_t i = 0; i < first.bound.size(); ++i) {
    std::vector<Object> values;
    for (const Object& o : objects) values.push_back(*o.closure()->bound[i].second);
    united.bound[i].second = std::make_shared<const Object>(unite(values));
  }
  for (const auto field : {&Closure::defaults, &Closure::keyword_defaults}) {
    if (first.*field) united.*field = parts(objects, [&](const Object& o) { return (o.closure()->*field).get(); });
  }
  return {std::make_shared<const Closure>(std::move(united))};
}

Object Lowering::Union::choice(const std::vector<Object>& objects) {
  std::map<int64_t, std::vector<std::optional<Object>>> functions;  // by object: what it is there
  std::vector<Object> numbers;
  for (size_t i = 0; i < objects.size(); ++i) {
    auto add = [&](int64_t number, const Object& function) {
      auto& found = functions.try_emplace(number, objects.size()).first->second[i];
      if (!found) found = function;
    };
    const Choice* choice = objects[i].choice();
    if (!choice) add(lowering_.function_number(objects[i]), objects[i]);
    for (size_t k = 0; choice && k < choice->numbers.size(); ++k) add(choice->numbers[k], choice->functions->items[k]);
    numbers.push_back(choice ? *choice->which : make_integer(lowering_.function_number(objects[i])));
  }
  Choice united;
  Items items;
  for (const auto& [number, at] : functions) {
    united.numbers.push_back(number);
    items.items.push_back(with_defaults(at));
    if (const Closure* closure = items.items.back().closure()) {
      for (const auto& [variable, captured] : closure->captured) cell(std::vector<Object>(objects.size(), Object{captured}));
    }
  }
  united.functions = std::make_shared<const Items>(std::move(items));
  const size_t first = leaves.size();
  united.which = std::make_shared<const Object>(number_or_tensor(numbers));
  if (leaves.size() > first) leaves[first].functions = united.numbers;
  return {std::make_shared<const Choice>(std::move(united))};
}

// The function that some of the paths have, with the values of its parameters that a call leaves out; the other paths have any.
Object Lowering::Union::with_defaults(const std::vector<std::optional<Object>>& functions) {
  const Object& first = **std::ranges::find_if(functions, [](const auto& function) { return function.has_value(); });
  if (!first.closure()) return first;
  Closure united = *first.closure();
  for (const auto field : {&Closure::defaults, &Closure::keyword_defaults}) {
    if (!(united.*field)) continue;
    Items items = *(united.*field);
    for (size_t k = 0; k < items.items.size(); ++k) {
      std::vector<Object> present, values;
      for (const auto& function : functions) {
        if (function) present.push_back((function->closure()->*field)->items[k]);
      }
      if (!is_forced && std::ranges::all_of(present, Emitter::is_numeric) && agree(present)) continue;
      const std::optional<Object> other = placeholder(present[0]);
      if (!other) differ({present[0]});
      for (const auto& function : functions) values.push_back(function ? (function->closure()->*field)->items[k] : *other);
      items.items[k] = unite(values);
    }
    united.*field = std::make_shared<const Items>(std::move(items));
  }
  return {std::make_shared<const Closure>(std::move(united))};
}

// The lists and dicts that an object refers to; `through`: also those in their content there.
void Lowering::add_cells(const Object& object, const State* through, std::set<size_t>& cells) const {
  auto add_items = [&](const std::shared_ptr<const Items>& items) {
    for (size_t i = 0; items && i < items->items.size(); ++i) add_cells(items->items[i], through, cells);
  };
  auto add_cell = [&](size_t id) {
    if (!cells.insert(id).second || !through) return;
    if (const auto content = through->store.find(id); content != through->store.end()) add_cells(content->second, through, cells);
  };
  if (const auto* cell = object.as<Cell>()) add_cell(cell->id);
  if (const auto* generator = object.as<Generator>()) add_cell(generator->id);
  if (const auto* items = std::get_if<std::shared_ptr<const Items>>(&object.value)) add_items(*items);
  if (const auto* iterable = object.as<Iterable>()) add_items(iterable->parts);
  if (const auto* method = object.as<Method>()) add_cells(*method->self, through, cells);
  if (const auto* super = object.as<Super>()) add_cells(*super->self, through, cells);
  if (const Choice* choice = object.choice()) add_items(choice->functions);
  const Suspended* suspended = object.suspended();
  const Closure* closure = suspended ? suspended->closure.get() : object.closure();
  if (closure) {
    for (const auto& [name, cell] : closure->captured) add_cell(cell.id);
    for (const auto& [name, value] : closure->bound) add_cells(*value, through, cells);
    add_items(closure->defaults);
    add_items(closure->keyword_defaults);
  }
  if (suspended) {
    for (const auto& variable : suspended->variables) {
      if (variable) add_cells(*variable, through, cells);
    }
  }
}

}  // namespace anfora::python
