// Methods of texts, which are all known to the compiler.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {
namespace {

using Text = std::u32string;

constexpr std::string_view kTextMethods[] = {"upper", "lower",  "strip",   "lstrip", "rstrip", "split", "join",
                                             "find",  "index",  "count",   "replace", "startswith", "endswith",
                                             "isdigit", "removeprefix", "removesuffix"};

bool is_white(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

Text stripped(const Text& text, const Text* characters, bool left, bool right) {
  auto goes = [&](char32_t c) { return characters ? characters->find(c) != Text::npos : is_white(c); };
  size_t begin = 0, end = text.size();
  while (left && begin < end && goes(text[begin])) ++begin;
  while (right && end > begin && goes(text[end - 1])) --end;
  return text.substr(begin, end - begin);
}

std::vector<Text> split(const Text& text, const Text* separator, int64_t most) {
  std::vector<Text> parts;
  size_t at = 0;
  auto may_split = [&] { return most < 0 || parts.size() < static_cast<size_t>(most); };
  if (separator) {
    for (size_t found; may_split() && (found = text.find(*separator, at)) != Text::npos; at = found + separator->size())
      parts.push_back(text.substr(at, found - at));
    parts.push_back(text.substr(at));
    return parts;
  }
  while (true) {
    while (at < text.size() && is_white(text[at])) ++at;
    if (at == text.size()) return parts;
    size_t end = at;
    while (end < text.size() && !is_white(text[end])) ++end;
    if (!may_split()) {
      parts.push_back(stripped(text.substr(at), nullptr, false, true));
      return parts;
    }
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
}

Text replaced(const Text& text, const Text& old, const Text& by) {
  Text result;
  size_t at = 0;
  for (size_t found; (found = text.find(old, at)) != Text::npos; at = found + old.size()) result += text.substr(at, found - at) + by;
  return result + text.substr(at);
}

int64_t count(const Text& text, const Text& part) {
  int64_t times = 0;
  for (size_t at = 0; (at = text.find(part, at)) != Text::npos; at += part.size()) ++times;
  return times;
}

}  // namespace

bool Lowering::has_text_method(const std::string& name) { return std::ranges::count(kTextMethods, name) > 0; }

Object Lowering::call_text_method(const Text& text, const std::string& name, const Arguments& arguments) {
  const std::vector<Object>& given = arguments.positional;
  auto refuse = [&] {
    std::string types;
    for (const Object& object : given) types += (types.empty() ? "" : ", ") + describe(object);
    emit_.fail(ErrorCode::Unsupported, fmt::format("{}({}) of a text is not supported", name, types), "docs/language.md says what is");
  };
  if (!arguments.named.empty()) refuse();
  auto made = [](Text result) { return Object{Constant{std::move(result)}}; };
  auto has = [&](size_t count) { return given.size() == count; };
  auto argument = [&](size_t i) -> const Text& {
    const auto* known = i < given.size() ? given[i].constant<Text>() : nullptr;
    if (!known || (known->empty() && i == 0 && (name == "split" || name == "replace" || name == "count"))) refuse();
    return *known;
  };
  if ((name == "upper" || name == "lower") && has(0)) {
    Text result = text;
    for (char32_t& c : result) {
      if (c > 127) refuse();
      c = name == "upper" ? (c >= 'a' && c <= 'z' ? c - 32 : c) : (c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    return made(std::move(result));
  }
  if (name.ends_with("strip") && given.size() <= 1) {
    return made(stripped(text, has(1) && !given[0].is_none() ? &argument(0) : nullptr, name != "rstrip", name != "lstrip"));
  }
  if (name == "split" && given.size() <= 2) {
    const auto most = has(2) ? integer_of(given[1]) : std::optional<int64_t>(-1);
    if (!most) refuse();
    std::vector<Object> parts;
    for (Text& part : split(text, given.empty() || given[0].is_none() ? nullptr : &argument(0), *most)) parts.push_back(made(std::move(part)));
    return new_list(std::move(parts));
  }
  if (name == "join" && has(1)) {
    Text result;
    bool is_first = true;
    for (const Object& item : items_of(given[0])) {
      const auto* part = item.constant<Text>();
      if (!part) refuse();
      result += (is_first ? Text() : text) + *part;
      is_first = false;
    }
    return made(std::move(result));
  }
  if ((name == "startswith" || name == "endswith") && has(1)) {
    std::vector<Object> parts = given[0].tuple() ? given[0].tuple()->items : given;
    return {Constant{std::ranges::any_of(parts, [&](const Object& part) {
      const auto* known = part.constant<Text>();
      if (!known) refuse();
      return name == "startswith" ? text.starts_with(*known) : text.ends_with(*known);
    })}};
  }
  if ((name == "find" || name == "index") && has(1)) {
    const size_t at = text.find(argument(0));
    if (at == Text::npos && name == "index")
      emit_.fail(ErrorCode::InvalidArgument, "the text does not hold this one", "find() gives -1 then");
    return make_integer(at == Text::npos ? -1 : static_cast<int64_t>(at));
  }
  if (name == "count" && has(1)) return make_integer(count(text, argument(0)));
  if (name == "replace" && has(2)) return made(replaced(text, argument(0), argument(1)));
  if (name == "isdigit" && has(0))
    return {Constant{!text.empty() && std::ranges::all_of(text, [](char32_t c) { return c >= '0' && c <= '9'; })}};
  if (name == "removeprefix" && has(1)) return made(text.starts_with(argument(0)) ? text.substr(argument(0).size()) : text);
  if (name == "removesuffix" && has(1))
    return made(text.ends_with(argument(0)) ? text.substr(0, text.size() - argument(0).size()) : text);
  refuse();
  return {};
}

}  // namespace anfora::python
