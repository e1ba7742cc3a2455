// Functions, and items of lists and dicts, of which a run decides which one is meant.
#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/union.h"

namespace anfora::python {

int64_t Lowering::function_number(const Object& function) {
  auto found = std::ranges::find_if(functions_, [&](const Object& known) { return is_same_but_for_defaults(known, function); });
  if (found == functions_.end()) found = functions_.insert(functions_.end(), function);
  return found - functions_.begin();
}

// A branch for each of them.
Object Lowering::call_choice(const Choice& choice, const Arguments& arguments, size_t first) {
  const Object& function = choice.functions->items[first];
  if (first + 1 == choice.numbers.size()) return call(function, arguments);
  const Object is_it = compare(Kind::Eq, *choice.which, make_integer(choice.numbers[first]));
  return choose(is_it, [&] { return call(function, arguments); }, [&] { return call_choice(choice, arguments, first + 1); });
}

// The item beside the number that is this one.
Object Lowering::item_by_number(const std::vector<Object>& numbers, const std::vector<Object>& items, const Object& number,
                                const std::function<Object()>& otherwise, size_t first) {
  if (first == items.size()) return otherwise();
  return choose(
      compare(Kind::Eq, number, numbers[first]), [&] { return items[first]; },
      [&] { return item_by_number(numbers, items, number, otherwise, first + 1); });
}

// Whether only a run knows which of these keys it is.
bool Lowering::are_run_keys(const std::vector<Object>& pairs, const Object& key) {
  const auto* array = key.as<Array>();
  if (!array || pairs.empty()) return false;
  const bool are_texts = is_text(key);
  if (!array->is_number && !are_texts) return false;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (are_texts ? !text_of(pairs[i]) : !is_known_number(pairs[i])) return false;
  }
  return true;
}

// Empty: the compiler knows the key, or can compare it with none.
std::optional<Object> Lowering::item_by_run_key(const std::vector<Object>& pairs, const Object& key, const std::function<Object()>& otherwise) {
  if (is_known(key) || pairs.empty()) return std::nullopt;
  if (!are_run_keys(pairs, key)) require_known_key(key);
  std::vector<Object> keys, items;
  for (size_t i = 0; i < pairs.size(); i += 2) keys.push_back(pairs[i]), items.push_back(pairs[i + 1]);
  return item_by_number(keys, items, key, otherwise);
}

void Lowering::require_known_key(const Object& key) const {
  if (is_known(key)) return;
  emit_.fail(ErrorCode::Unsupported, "the keys of a dict must be known to the compiler", "a tensor takes the place of a dict with integers as keys");
}

Object Lowering::function_at(std::vector<Object> functions, const Object& index) {
  std::vector<Object> numbers;
  for (size_t i = 0; i < functions.size(); ++i) numbers.push_back(make_integer(static_cast<int64_t>(i)));
  const Object size = make_integer(static_cast<int64_t>(functions.size()));
  const Object position = choose(compare(Kind::Lt, index, make_integer(0)), [&] { return binary(Kind::Add, index, size); }, [&] { return index; });
  return item_by_number(numbers, functions, position, [&]() -> Object { raise("the index is out of range"); });
}

}  // namespace anfora::python
