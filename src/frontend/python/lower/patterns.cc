// Patterns of `match` (PEP 634). What the compiler knows of a value, its type or how many items it has, decides at once; the rest is computed, each
// part only where all before it agree, since it may not be there otherwise.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/activation.h"

namespace anfora::python {

// Each is asked for only where those before it hold.
Object Lowering::all_hold(std::span<const std::function<Object()>> tests) {
  if (tests.empty()) return {Constant{true}};
  const Object first = truth(tests[0]());
  return choose(first, [&] { return all_hold(tests.subspan(1)); }, [&] { return Object{Constant{false}}; });
}

Object Lowering::matches(const Tree& pattern, const Object& subject) {
  const Object never{Constant{false}};
  std::vector<std::function<Object()>> tests;
  auto add_parts = [&](const Parts& parts) {
    for (const auto& [inner, part] : parts) tests.emplace_back([this, inner, part] { return matches(*inner, part()); });
  };
  switch (pattern.kind) {
    case Kind::MatchAs: return pattern.child("pattern") ? matches(*pattern.child("pattern"), subject) : Object{Constant{true}};
    case Kind::MatchSingleton: return compare(Kind::Is, subject, make_constant(pattern.constant));
    case Kind::MatchValue: {
      const Object value = evaluate(*pattern.child("value"));
      const bool are_texts = (text_of(subject) || builtin_type_of(subject) == "str") && text_of(value);
      const bool are_numbers = Emitter::is_numeric(subject) && Emitter::is_numeric(value);
      if (!are_texts && !are_numbers && (text_of(value) || Emitter::is_number(value)) && !subject.live()) return never;
      return truth(compare(Kind::Eq, subject, value));
    }
    case Kind::MatchOr: {
      const Tree::Trees& choices = pattern.list("patterns");
      std::function<Object(size_t)> from = [&](size_t i) {
        const Object own = matches(*choices[i], subject);
        return i + 1 == choices.size() ? own : choose(own, [&] { return Object{Constant{true}}; }, [&] { return from(i + 1); });
      };
      return from(0);
    }
    case Kind::MatchSequence: {
      if (!counts_as_sequence(subject)) return never;
      const Tree::Trees& patterns = pattern.list("patterns");
      const bool has_star = std::ranges::any_of(patterns, [](const Tree* p) { return p->is(Kind::MatchStar); });
      const Object fixed = make_integer(static_cast<int64_t>(patterns.size() - (has_star ? 1 : 0)));
      tests.emplace_back([&, has_star, fixed] { return compare(has_star ? Kind::GtE : Kind::Eq, length(subject), fixed); });
      add_parts(parts_of_sequence(pattern, subject));
      return all_hold(tests);
    }
    case Kind::MatchMapping: {
      const auto* cell = subject.as<Cell>();
      if (!cell || cell->kind != Cell::Kind::Dict) return never;
      const std::vector<Object>& pairs = content(*cell).tuple()->items;
      std::vector<Object> keys;
      for (size_t i = 0; i < pairs.size(); i += 2) keys.push_back(pairs[i]);
      for (const Tree* key : pattern.list("keys")) {
        if (!known_member(evaluate(*key), keys).value_or(false)) return never;
      }
      add_parts(parts_of_mapping(pattern, subject));
      return all_hold(tests);
    }
    case Kind::MatchClass: {
      const std::optional<Parts> parts = parts_of_instance(pattern, subject);
      if (!parts) return never;
      add_parts(*parts);
      return all_hold(tests);
    }
    default: emit_.fail(ErrorCode::Unsupported, fmt::format("{} is not supported in a pattern", pattern.name), "write it as if and elif");
  }
}

// The names that a pattern binds, for a subject that it matches.
void Lowering::capture(const Tree& pattern, const Object& subject, Captures& captures) {
  auto add_parts = [&](const Parts& parts) {
    for (const auto& [inner, part] : parts) capture(*inner, part(), captures);
  };
  switch (pattern.kind) {
    case Kind::MatchAs:
      if (const Tree* inner = pattern.child("pattern")) capture(*inner, subject, captures);
      if (!pattern.text("name").empty()) captures.emplace_back(&pattern, subject);
      return;
    case Kind::MatchOr: {  // each choice binds the same names
      const Tree::Trees& choices = pattern.list("patterns");
      std::vector<const Tree*> names;
      for_each_binding(*choices[0], [&](const Tree& name) { names.push_back(&name); });
      if (names.empty()) return;
      std::function<Object(size_t)> from = [&](size_t i) {
        auto values = [&] {
          Captures own;
          capture(*choices[i], subject, own);
          std::vector<Object> ordered;
          for (const Tree* name : names) {
            ordered.push_back(std::ranges::find(own, bound_name(*name), [](const auto& c) { return bound_name(*c.first); })->second);
          }
          return make_tuple(std::move(ordered));
        };
        return i + 1 == choices.size() ? values() : choose(matches(*choices[i], subject), values, [&] { return from(i + 1); });
      };
      const Object values = from(0);
      for (size_t i = 0; i < names.size(); ++i) captures.emplace_back(names[i], values.tuple()->items[i]);
      return;
    }
    case Kind::MatchSequence: {
      add_parts(parts_of_sequence(pattern, subject));
      for (const Tree* inner : pattern.list("patterns")) {
        if (inner->is(Kind::MatchStar) && !inner->text("name").empty()) captures.emplace_back(inner, rest_of_sequence(pattern, subject));
      }
      return;
    }
    case Kind::MatchMapping: {
      add_parts(parts_of_mapping(pattern, subject));
      if (pattern.text("rest").empty()) return;
      std::vector<Object> keys, rest;
      for (const Tree* key : pattern.list("keys")) keys.push_back(evaluate(*key));
      const std::vector<Object>& pairs = content(*subject.as<Cell>()).tuple()->items;
      for (size_t i = 0; i < pairs.size(); i += 2) {
        if (!known_member(pairs[i], keys).value_or(false)) rest.insert(rest.end(), {pairs[i], pairs[i + 1]});
      }
      captures.emplace_back(&pattern, new_dict(std::move(rest)));
      return;
    }
    case Kind::MatchClass: return add_parts(*parts_of_instance(pattern, subject));
    default: return;
  }
}

// Neither texts nor arrays count as sequences.
bool Lowering::counts_as_sequence(const Object& object) const {
  if (const Items* tuple = object.tuple()) return !tuple->type || tuple->type->is_a("tuple");
  if (const auto* cell = object.as<Cell>()) return cell->kind == Cell::Kind::List;
  if (const Live* live = object.live(); live && live->is_a("collections.abc.Sequence")) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("the items of {} cannot be compiled", live->describe()), "match a list or tuple of them");
  }
  const auto* iterable = object.as<Iterable>();
  return iterable && iterable->kind == Iterable::Kind::Range;
}

Lowering::Parts Lowering::parts_of_sequence(const Tree& pattern, const Object& subject) {
  const Tree::Trees& patterns = pattern.list("patterns");
  Parts parts;
  bool is_behind_star = false;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i]->is(Kind::MatchStar)) {
      is_behind_star = true;
      continue;
    }
    const int64_t from_end = static_cast<int64_t>(patterns.size() - i);
    parts.emplace_back(patterns[i], [this, subject, i, is_behind_star, from_end] {
      const Object index = is_behind_star ? binary(Kind::Sub, length(subject), make_integer(from_end)) : make_integer(static_cast<int64_t>(i));
      return subject.is<Iterable>() ? item(subject, index) : subscript(subject, index);
    });
  }
  return parts;
}

// The list that the name with a star is.
Object Lowering::rest_of_sequence(const Tree& pattern, const Object& subject) {
  const Tree::Trees& patterns = pattern.list("patterns");
  const auto before = std::ranges::find_if(patterns, [](const Tree* p) { return p->is(Kind::MatchStar); }) - patterns.begin();
  const auto behind = static_cast<std::ptrdiff_t>(patterns.size()) - before - 1;
  if (sequence_of(subject)) {
    const Object none{Constant{NoneValue()}};
    Items slice{{make_integer(before), behind > 0 ? make_integer(-behind) : none, none}, {}, {}};
    return part_of_list(content(*subject.as<Cell>()), {SliceObject{std::make_shared<const Items>(std::move(slice))}});
  }
  const std::vector<Object> items = items_of(subject);
  return new_list({items.begin() + before, items.end() - behind});
}

Lowering::Parts Lowering::parts_of_mapping(const Tree& pattern, const Object& subject) {
  Parts parts;
  for (size_t i = 0; i < pattern.list("keys").size(); ++i) {
    const Tree* key = pattern.list("keys")[i];
    parts.emplace_back(pattern.list("patterns")[i], [this, subject, key] { return subscript(subject, evaluate(*key)); });
  }
  return parts;
}

// Empty where it is no instance of the class, or has not the attributes. Patterns by position are about those that the class lists in
// __match_args__; int(x), str(x) and the like are about the value itself.
std::optional<Lowering::Parts> Lowering::parts_of_instance(const Tree& pattern, const Object& subject) {
  static constexpr std::string_view kWholes[] = {"bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"};
  const Object type = evaluate(*pattern.child("cls"));
  const auto* builtin = type.as<Builtin>();
  if (!builtin && !type.live() && !type.is<DTypeObject>()) {
    emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} is no class", describe(type)), "a pattern is written Class(…), a name alone is bound");
  }
  if (!is_instance(subject, type)) return std::nullopt;
  Parts parts;
  const Tree::Trees& by_position = pattern.list("patterns");
  std::vector<std::string> names;
  if (const Live* live = type.live()) {
    if (auto listed = live->attribute("__match_args__")) {
      for (const Object& name : items_of(*listed)) names.push_back(text_of(name).value_or(""));
    } else {
      names = live->fields();
    }
  }
  const bool is_whole = builtin && std::ranges::count(kWholes, builtin->name) > 0;
  const size_t most = is_whole ? 1 : names.size();
  if (by_position.size() > most) {
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() takes {} patterns by position, {} are given", describe(type), most, by_position.size()),
               "write the attribute: Class(name=pattern)");
  }
  if (is_whole && !by_position.empty()) parts.emplace_back(by_position[0], [subject] { return subject; });
  std::vector<std::pair<std::string, const Tree*>> attributes;
  for (size_t i = 0; i < by_position.size() && !is_whole; ++i) attributes.emplace_back(names[i], by_position[i]);
  for (size_t i = 0; i < pattern.list("kwd_patterns").size(); ++i) attributes.emplace_back(pattern.texts("kwd_attrs")[i], pattern.list("kwd_patterns")[i]);
  for (const auto& [name, inner] : attributes) {
    if (subject.live() && !subject.live()->attribute(name)) return std::nullopt;
    parts.emplace_back(inner, [this, subject, name] { return attribute(subject, name); });
  }
  return parts;
}

}  // namespace anfora::python
