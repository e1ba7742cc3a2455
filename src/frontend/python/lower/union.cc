#include "frontend/python/lower/union.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"

namespace anfora::python {

using ir::Node;
using ir::Type;

namespace {

const Type* joined_tensor(ir::Context& context, const Type* a, const Type* b) {
  if (a == b) return a;
  if (!a->has_rank() || !b->has_rank() || a->rank() != b->rank()) return context.unranked_type(a->dtype());
  std::vector<ir::Dim> dims;
  for (int i = 0; i < a->rank(); ++i)
    dims.push_back(provably_equal(a->dim(i), b->dim(i)) ? a->dim(i) : context.dims().unknown());
  return context.tensor_type(a->dtype(), dims);
}

bool is_visible(const Node* node, const ir::Graph* graph) { return !node->graph() || graph->is_inside(node->graph()); }

int number_level(DType dtype) { return dtype == DType::Bool ? 0 : dtype == DType::F64 ? 2 : 1; }

DType promoted_number(DType number, DType tensor) {
  const bool fits = number == DType::Bool || (number == DType::I64 && tensor != DType::Bool) ||
                    (number == DType::F64 && is_float(tensor));
  return fits ? tensor : number;
}

// The values of parameters that a call leaves out.
bool are_same(const std::shared_ptr<const Items>& a, const std::shared_ptr<const Items>& b) {
  if (a == b) return true;
  if (!a || !b) return false;
  return std::ranges::equal(a->items, b->items, [](const Object& x, const Object& y) {
    if (x.value.index() != y.value.index()) return false;
    if (const auto* array = x.as<Array>()) return *array == *y.as<Array>();
    if (const auto* constant = x.as<Constant>()) return repr(*constant) == repr(*y.as<Constant>());
    if (const auto* items = x.as<std::shared_ptr<const Items>>()) {
      const auto& others = *y.as<std::shared_ptr<const Items>>();
      return (*items)->type == others->type && are_same(*items, others);
    }
    return is_same(x, y);
  });
}

}  // namespace

bool is_same(const Object& a, const Object& b) {
  if (a.value.index() != b.value.index()) return false;
  if (const auto* cell = a.as<Cell>()) return *cell == *b.as<Cell>();
  if (const auto* generator = a.as<Generator>()) return *generator == *b.as<Generator>();
  if (const auto* builtin = a.as<Builtin>()) return builtin->name == b.as<Builtin>()->name;
  if (const auto* dtype = a.as<DTypeObject>()) return dtype->dtype == b.as<DTypeObject>()->dtype;
  if (a.live()) return a.live()->identity() == b.live()->identity();
  if (const auto* super = a.as<Super>()) return super->self == b.as<Super>()->self && super->type == b.as<Super>()->type;
  if (const auto* method = a.as<Method>()) return method->self == b.as<Method>()->self && method->name == b.as<Method>()->name;
  if (const auto* derivative = a.as<Derivative>()) return derivative->function == b.as<Derivative>()->function;
  if (const auto* custom = a.as<CustomGradient>()) return custom->function == b.as<CustomGradient>()->function;
  if (const Closure* closure = a.closure()) {
    return is_same_but_for_defaults(a, b) && are_same(closure->defaults, b.closure()->defaults) &&
           are_same(closure->keyword_defaults, b.closure()->keyword_defaults);
  }
  return false;
}

bool is_same_but_for_defaults(const Object& a, const Object& b) {
  if (!a.closure() || !b.closure()) return is_same(a, b);
  const Closure &one = *a.closure(), &other = *b.closure();
  return &one == &other || (one.function == other.function && one.captured == other.captured && one.bound.empty() && other.bound.empty());
}

bool is_sequence(const Object& object) {
  const auto* array = object.as<Array>();
  return array && array->node->type() && array->node->type()->kind() == ir::TypeKind::Sequence;
}

template <class F>
std::shared_ptr<const Items> Lowering::Union::parts(const std::vector<Object>& objects, F&& items) {
  Items united{.items = {}, .names = items(objects[0])->names, .type = items(objects[0])->type};
  for (size_t i = 0; i < items(objects[0])->items.size(); ++i) {
    std::vector<Object> at_i;
    for (const Object& o : objects) {
      if (items(o)->items.size() != items(objects[0])->items.size()) differ(objects);
      at_i.push_back(items(o)->items[i]);
    }
    const auto holder = std::exchange(held_in, std::nullopt);
    if (holder == Cell::Kind::Dict && i % 2 == 0 && std::ranges::all_of(at_i, is_known_number)) {
      if (!agree(at_i)) differ(objects);
      united.items.push_back(at_i[0]);
    } else {
      united.items.push_back(unite(at_i));
    }
    held_in = holder;
  }
  return std::make_shared<const Items>(std::move(united));
}

// Of an instance. An attribute that a path has not assigned is the class's there, if that has one.
Object Lowering::Union::attributes(const std::vector<Object>& objects) {
  const auto holder = std::exchange(held_in, std::nullopt);
  const std::string whole = name;
  Items united{.items = {}, .names = {}, .type = objects[0].tuple()->type};
  for (const Object& o : objects) {
    for (const std::string& attribute : o.tuple()->names) {
      if (!std::ranges::count(united.names, attribute)) united.names.push_back(attribute);
    }
  }
  for (const std::string& attribute : united.names) {
    std::vector<Object> values;
    for (const Object& o : objects) {
      const Object* own = find_attribute(*o.tuple(), attribute);
      const auto otherwise = own ? std::nullopt : united.type->member(attribute);
      if (own && !is_no_value(*own)) values.push_back(*own);
      if (otherwise && otherwise->kind == Member::Kind::Value) values.push_back(otherwise->object);
    }
    name = fmt::format("the attribute '{}'", attribute);
    united.items.push_back(values.size() == objects.size() ? unite(values) : no_value());
  }
  name = whole, held_in = holder;
  return {std::make_shared<const Items>(std::move(united))};
}

Object Lowering::Union::unite(const std::vector<Object>& objects) {
  const Object& first = objects[0];
  if (std::ranges::all_of(objects, Emitter::is_numeric) && !std::ranges::any_of(objects, is_sequence))
    return number_or_tensor(objects);
  if (std::ranges::any_of(objects, is_sequence)) return sequence(objects);
  if (std::ranges::all_of(objects, is_text)) return text(objects);
  const bool same_kind =
      std::ranges::all_of(objects, [&](const Object& o) { return o.value.index() == first.value.index(); });
  const bool is_one = std::ranges::all_of(objects, [&](const Object& o) { return is_same(first, o); });
  if (!is_one && std::ranges::all_of(objects, is_function)) return first.closure() && same_kind ? closure(objects) : choice(objects);
  if (!same_kind) differ(objects);
  if (first.is<Cell>()) return cell(objects);
  if (const auto* constant = first.as<Constant>()) {
    for (const Object& o : objects) {
      if (repr(*o.as<Constant>()) != repr(*constant)) differ(objects);
    }
    return first;
  }
  if (held_in == Cell::Kind::Instance) return attributes(objects);
  if (first.tuple()) {
    const bool same_size = std::ranges::all_of(
        objects, [&](const Object& o) { return o.tuple()->items.size() == first.tuple()->items.size(); });
    const auto identity = [](const Object& o) { return o.tuple()->type ? o.tuple()->type->identity() : nullptr; };
    if (!std::ranges::all_of(objects, [&](const Object& o) { return identity(o) == identity(first); })) differ(objects);
    if (same_size) return {parts(objects, [](const Object& o) { return o.tuple(); })};
    if (held_in == Cell::Kind::List) return sequence(objects);
    differ(objects);
  }
  if (first.suspended()) return suspended(objects);
  if (first.is<SliceObject>()) {
    return {SliceObject{parts(objects, [](const Object& o) { return o.as<SliceObject>()->parts.get(); })}};
  }
  if (const auto* iterable = first.as<Iterable>()) {
    for (const Object& o : objects) {
      if (o.as<Iterable>()->kind != iterable->kind) differ(objects);
    }
    return {Iterable{iterable->kind, parts(objects, [](const Object& o) { return o.as<Iterable>()->parts.get(); })}};
  }
  if (first.is<SetObject>()) {
    const bool is_distinct = std::ranges::all_of(objects, [](const Object& o) { return o.as<SetObject>()->is_distinct; });
    return {SetObject{parts(objects, [](const Object& o) { return o.as<SetObject>()->items.get(); }), is_distinct}};
  }
  if (!is_one) differ(objects);
  return first;
}

Object Lowering::Union::suspended(const std::vector<Object>& objects) {
  const Suspended& first = *objects[0].suspended();
  Suspended united{.closure = first.closure, .block = first.block, .variables = {}, .several = {}, .which = nullptr};
  const bool is_one = std::ranges::all_of(objects, [&](const Object& o) { return o.suspended()->block == first.block; });
  if (!is_one || first.block == Suspended::kSeveral) return at_several_blocks(objects);
  for (size_t i = 0; i < first.variables.size() && united.block >= 0; ++i) {
    std::vector<Object> at_i;
    for (const Object& o : objects) {
      if (const std::optional<Object>& variable = o.suspended()->variables[i]) at_i.push_back(*variable);
    }
    const auto holder = std::exchange(held_in, std::nullopt);
    united.variables.push_back(at_i.size() == objects.size() ? std::optional(unite(at_i)) : std::nullopt);
    held_in = holder;
  }
  return {std::make_shared<const Suspended>(std::move(united))};
}

// One that stands elsewhere on each path. On a path that leads to one block, the variables of the others are anything of their kind. Where there is
// nothing of that kind, it may not be asked for items any more.
Object Lowering::Union::at_several_blocks(const std::vector<Object>& objects) {
  const std::shared_ptr<const Closure>& closure = objects[0].suspended()->closure;
  const Object unknown{std::make_shared<const Suspended>(Suspended{closure, Suspended::kUnknown, {}, {}, nullptr})};
  std::vector<std::map<int, const Suspended*>> places;  // of each object
  std::set<int> blocks;
  std::vector<Object> numbers;
  for (const Object& o : objects) {
    const Suspended& own = *o.suspended();
    if (own.block == Suspended::kUnknown) return unknown;
    std::map<int, const Suspended*>& at = places.emplace_back();
    for (const Suspended& one : own.several) at[one.block] = &one;
    if (own.block != Suspended::kSeveral) at[own.block] = &own;
    for (const auto& [block, one] : at) blocks.insert(block);
    numbers.push_back(own.which ? *own.which : make_integer(own.block));
  }
  Suspended united{.closure = closure, .block = Suspended::kSeveral, .variables = {}, .several = {}, .which = nullptr};
  const auto holder = std::exchange(held_in, std::nullopt);
  for (const int block : blocks) {
    Suspended one{.closure = closure, .block = block, .variables = {}, .several = {}, .which = nullptr};
    const auto holder = std::ranges::find_if(places, [&](const auto& at) { return at.contains(block); });
    const std::vector<std::optional<Object>>& known = holder->at(block)->variables;
    for (size_t i = 0; i < known.size(); ++i) {
      std::vector<Object> at_i;
      bool lives = true;
      for (const auto& at : places) {
        const auto own = at.find(block);
        std::optional<Object> value = own != at.end() ? own->second->variables[i] : std::nullopt;
        if (own == at.end() && known[i]) value = placeholder(*known[i]);
        if (own == at.end() && known[i] && !value) return unknown;
        lives = lives && value;
        if (value) at_i.push_back(std::move(*value));
      }
      one.variables.push_back(lives ? std::optional(unite(at_i)) : std::nullopt);
    }
    united.several.push_back(std::move(one));
  }
  united.which = std::make_shared<const Object>(unite(numbers));
  held_in = holder;
  return {std::make_shared<const Suspended>(std::move(united))};
}

// What may stand for an object on a path where nobody reads it; empty: nothing is there.
std::optional<Object> Lowering::Union::placeholder(const Object& like) const {
  if (Emitter::is_number(like) && like.is<Array>()) {
    const DType dtype = emit_.dtype(like);
    return dtype == DType::Bool ? Object{Constant{false}} : dtype == DType::F64 ? Object{Constant{0.0}} : make_integer(0);
  }
  const bool is_scalar = like.is<Array>() && !is_sequence(like) && like.as<Array>()->node->type()->has_rank() && emit_.rank(like.as<Array>()->node) == 0;
  if (is_scalar) return Object{Array{emit_.tensor(make_integer(0), emit_.dtype(like))}};
  if (const auto* array = like.as<Array>()) return is_visible(array->node, graph_) ? std::optional(like) : std::nullopt;
  auto of_parts = [&](const Items& items) -> std::shared_ptr<const Items> {
    Items made{.items = {}, .names = items.names, .type = items.type};
    for (const Object& item : items.items) {
      std::optional<Object> part = placeholder(item);
      if (!part) return nullptr;
      made.items.push_back(std::move(*part));
    }
    return std::make_shared<const Items>(std::move(made));
  };
  const auto* iterable = like.as<Iterable>();
  const auto* slice = like.as<SliceObject>();
  if (!like.tuple() && !iterable && !slice) return like;
  const std::shared_ptr<const Items> made = of_parts(iterable ? *iterable->parts : slice ? *slice->parts : *like.tuple());
  if (!made) return std::nullopt;
  return iterable ? Object{Iterable{iterable->kind, made}} : slice ? Object{SliceObject{made}} : Object{made};
}

Object Lowering::Union::leaf(const std::vector<Object>& objects, const Type* type, bool is_number) {
  if (!has_nodes_) {
    leaves.push_back({objects, type, is_number});
    return {Array{nullptr, is_number}};
  }
  return {Array{nodes_[next_++], is_number}};
}

void Lowering::Union::substitute(std::span<Node* const> nodes) {
  nodes_ = nodes, next_ = 0, has_nodes_ = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<const Node*>& from = lowering_.joined_from_[nodes[i]];
    for (const Object& source : leaves[i].sources) {
      if (const auto* array = source.as<Array>(); array && !array->is_number) from.push_back(array->node);
    }
  }
}

// Nothing where they are all the same.
bool Lowering::Union::agree(const std::vector<Object>& objects) const {
  const Object& first = objects[0];
  if (const auto* array = first.as<Array>()) {
    return is_visible(array->node, graph_) &&
           std::ranges::all_of(objects, [&](const Object& o) { return o.as<Array>() && *o.as<Array>() == *array; });
  }
  return std::ranges::all_of(objects, [&](const Object& o) {
    return o.is<Constant>() && repr(*o.as<Constant>()) == repr(*first.as<Constant>());
  });
}

// Which of several texts it is may be a value of the run.
Object Lowering::Union::text(const std::vector<Object>& objects) {
  const bool is_known = text_of(objects[0]).has_value();
  if ((is_known || !is_forced) && agree(objects)) return objects[0];
  return leaf(objects, emit_.module().context().tensor_type(DType::String, std::span<const ir::Dim>()), false);
}

Object Lowering::Union::number_or_tensor(const std::vector<Object>& objects) {
  if (!is_forced && agree(objects)) return objects[0];
  ir::Context& context = emit_.module().context();
  const bool are_numbers = std::ranges::all_of(objects, Emitter::is_number);
  DType dtype = DType::Undefined;
  if (are_numbers) {
    dtype = DType::Bool;
    for (const Object& o : objects) {
      if (number_level(emit_.dtype(o)) > number_level(dtype)) dtype = emit_.dtype(o);
    }
    return leaf(objects, context.tensor_type(dtype, std::span<const ir::Dim>()), true);
  }
  for (const Object& o : objects) {
    if (Emitter::is_number(o)) continue;
    if (dtype == DType::Undefined) dtype = emit_.dtype(o);
    if (dtype != emit_.dtype(o)) differ(objects);
  }
  const Type* type = nullptr;
  for (const Object& o : objects) {
    if (Emitter::is_number(o) && dtype == DType::String) differ(objects);
    if (Emitter::is_number(o) && promoted_number(emit_.dtype(o), dtype) != dtype) differ(objects);
    const auto* array = o.as<Array>();
    const Type* own =
        array && !array->is_number ? array->node->type() : context.tensor_type(dtype, std::span<const ir::Dim>());
    type = type ? joined_tensor(context, type, own) : own;
  }
  return leaf(objects, type, false);
}

Object Lowering::Union::sequence(const std::vector<Object>& objects) {
  if (!is_forced && std::ranges::all_of(objects, is_sequence) && agree(objects)) return objects[0];
  const Type* element = nullptr;
  bool are_numbers = true;
  bool has_sequence = false;
  auto add = [&](const Type* type) {
    const bool are_tuples = are_numbers && !has_sequence && element && element->rank() == 0 && type->rank() == 0;
    if (are_tuples && type->dtype() != element->dtype()) {  // numbers, an int among floats
      if (number_level(type->dtype()) > number_level(element->dtype())) element = type;
      return;
    }
    if (element && type->dtype() != element->dtype()) differ(objects);
    element = element ? joined_tensor(emit_.module().context(), element, type) : type;
  };
  for (const Object& o : objects) {
    if (is_sequence(o)) {
      has_sequence = true;
      add(o.as<Array>()->node->type()->element());
      are_numbers = are_numbers && o.as<Array>()->is_number;
    } else if (o.tuple()) {
      for (const Object& item : o.tuple()->items) {
        are_numbers = are_numbers && Emitter::is_number(item);
        add(item_type(item, objects));
      }
    } else {
      differ(objects);
    }
  }
  if (!element) differ(objects);
  return leaf(objects, emit_.module().context().sequence_type(element), are_numbers);
}

const Type* Lowering::Union::item_type(const Object& item, const std::vector<Object>& objects) {
  if (!Emitter::is_numeric(item)) differ(objects);
  if (const auto* array = item.as<Array>()) return array->node->type();
  return emit_.module().context().tensor_type(emit_.dtype(item), std::span<const ir::Dim>());
}

void Lowering::Union::differ(const std::vector<Object>& objects) {
  size_t other = 1;
  while (other + 1 < objects.size() && describe(objects[other]) == describe(objects[0])) ++other;
  other = std::min(other, objects.size() - 1);
  const bool are_alike = describe(objects[0]) == describe(objects[other]);
  const bool is_another = are_alike && held_in != Cell::Kind::List && !text_of(objects[0]) && !objects[0].is<SetObject>();
  auto told = [&](size_t i) {
    const Tree* at = i < bound_at.size() ? bound_at[i] : nullptr;
    const Items* list = held_in == Cell::Kind::List ? objects[i].tuple() : nullptr;
    const auto* text = objects[i].constant<std::u32string>();
    const auto* set = objects[i].as<SetObject>();
    const std::string kind = list   ? fmt::format("list of {}", list->items.size())
                             : set  ? fmt::format("set of {}", set->items->items.size())
                             : text ? repr({*text})
                                    : describe(objects[i]);
    return at ? fmt::format("{} (line {})", kind, at->position.line) : kind;
  };
  emit_.fail(ErrorCode::TypeMismatch,
             fmt::format("{} is {} on one path to here, {}{} on another", name, told(0), is_another ? "another " : "", told(other)),
             are_alike ? "which of them must not depend on what is only known when it runs" : "give it one type on all paths");
}

}  // namespace anfora::python
