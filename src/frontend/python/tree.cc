#include "frontend/python/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace anfora::python {
namespace {

using Json = nlohmann::ordered_json;  // fields in the order of `ast`, which is that of the text

constexpr std::array kKindNames = {
#define ANFORA_PYTHON_KIND(name) std::string_view(#name),
    ANFORA_PYTHON_KINDS(ANFORA_PYTHON_KIND)
#undef ANFORA_PYTHON_KIND
};

Kind kind_of(std::string_view name) {
  auto found = std::ranges::find(kKindNames, name);
  return static_cast<Kind>(found - kKindNames.begin());  // Other is the last
}

double read_float(const Json& hex) { return std::strtod(hex.get_ref<const std::string&>().c_str(), nullptr); }

std::string read_bytes(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16));
  }
  return bytes;
}

Constant read_constant(const Json& json) {
  if (json.is_string()) {
    const auto& word = json.get_ref<const std::string&>();
    if (word == "None") return {NoneValue()};
    if (word == "...") return {EllipsisValue()};
    return {word == "True"};
  }
  const auto& [type, value] = *json.items().begin();
  if (type == "int") return {Integer(value.get_ref<const std::string&>())};
  if (type == "float") return {read_float(value)};
  if (type == "complex") return {std::complex<double>(read_float(value.at(0)), read_float(value.at(1)))};
  if (type == "bytes") return {Bytes{read_bytes(value.get_ref<const std::string&>())}};
  std::u32string text;
  for (const Json& point : value) text += static_cast<char32_t>(point.get<uint32_t>());
  return {std::move(text)};
}

class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  Tree* tree(const Json& json) {
    const auto& name = json.at("_").get_ref<const std::string&>();
    Position position;
    if (auto at = json.find("at"); at != json.end()) position = {at->at(0), at->at(1), at->at(2), at->at(3)};
    Tree* made = source_.make(kind_of(name), position);
    made->name = name;
    for (const auto& [field, value] : json.items()) {
      if (field == "_" || field == "at") continue;
      if (made->is_any({Kind::Constant, Kind::MatchSingleton}) && field == "value") {
        made->constant = read_constant(value);
      } else {
        made->fields.emplace_back(field, this->field(value));
      }
    }
    return made;
  }

 private:
  Tree::Field field(const Json& value) {
    if (value.is_object()) return tree(value);
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number()) return std::to_string(value.get<int64_t>());
    if (!value.is_array()) return {};
    if (!value.empty() && value[0].is_string()) return value.get<std::vector<std::string>>();
    Tree::Trees trees;
    for (const Json& item : value) trees.push_back(item.is_object() ? tree(item) : nullptr);
    return trees;
  }

  Source& source_;
};

}  // namespace

bool Tree::is_any(std::initializer_list<Kind> kinds) const { return std::ranges::count(kinds, kind) > 0; }

Tree::Field* Tree::find(std::string_view field) {
  auto found = std::ranges::find(fields, field, [](const auto& f) { return std::string_view(f.first); });
  return found == fields.end() ? nullptr : &found->second;
}
const Tree::Field* Tree::find(std::string_view field) const { return const_cast<Tree*>(this)->find(field); }

Tree* Tree::child(std::string_view field) const {
  const Field* found = find(field);
  Tree* const* tree = found ? std::get_if<Tree*>(found) : nullptr;
  return tree ? *tree : nullptr;
}
const Tree::Trees& Tree::list(std::string_view field) const {
  static const Trees kNone;
  const Field* found = find(field);
  const Trees* trees = found ? std::get_if<Trees>(found) : nullptr;
  return trees ? *trees : kNone;
}
const std::string& Tree::text(std::string_view field) const {
  static const std::string kNone;
  const Field* found = find(field);
  const std::string* text = found ? std::get_if<std::string>(found) : nullptr;
  return text ? *text : kNone;
}
const std::vector<std::string>& Tree::texts(std::string_view field) const {
  static const std::vector<std::string> kNone;
  const Field* found = find(field);
  const auto* texts = found ? std::get_if<std::vector<std::string>>(found) : nullptr;
  return texts ? *texts : kNone;
}

std::string imported_module(const Tree& import) {
  const std::string& level = import.text("level");
  return std::string(level.empty() ? 0 : std::stoul(level), '.') + import.text("module");
}

std::string_view name_of(Kind kind) {
  return kind == Kind::Other ? std::string_view("?") : kKindNames[static_cast<size_t>(kind)];
}

Tree* Source::make(Kind kind, const Position& position) {
  Tree& made = trees_.emplace_back();
  made.kind = kind;
  made.name = name_of(kind);
  made.position = position;
  return &made;
}

Tree* Source::make_constant(Constant value, const Position& position) {
  Tree* made = make(Kind::Constant, position);
  made->constant = std::move(value);
  return made;
}

Tree* Source::find_definition(std::string_view path) const {
  const Tree* scope = root;
  while (scope && !path.empty()) {
    const size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    const Tree* found = nullptr;
    for (Tree* statement : scope->list("body")) {  // the last one of a name counts
      if (statement && statement->is_any({Kind::FunctionDef, Kind::ClassDef}) && statement->text("name") == name) {
        found = statement;
      }
    }
    scope = found;
  }
  return scope == root ? nullptr : const_cast<Tree*>(scope);
}

Error Source::error(ErrorCode code, const Tree& at, std::string_view message) const {
  const Position& p = at.position;
  Error error(code, std::string(message));
  error.at_location(fmt::format("{}:{}:{}", file, p.line, p.column));
  if (p.line >= 1 && static_cast<size_t>(p.line) <= lines.size()) {
    const std::string& line = lines[static_cast<size_t>(p.line) - 1];
    const size_t first = line.find_first_not_of(" \t");
    const auto indent = static_cast<int>(first == std::string::npos ? 0 : first);
    const int length = p.end_line == p.line ? std::max(1, p.end_column - p.column) : 1;
    error.with_excerpt(fmt::format("{}\n{}{}", line.substr(static_cast<size_t>(indent)),
                                   std::string(static_cast<size_t>(std::max(0, p.column - 1 - indent)), ' '),
                                   std::string(static_cast<size_t>(length), '^')));
  }
  return error;
}

Source read_source(std::string_view text) {
  Source source;
  try {
    const Json json = Json::parse(text);
    source.file = json.at("file");
    source.version = json.at("python");
    source.lines = json.at("lines").get<std::vector<std::string>>();
    if (auto wrong = json.find("error"); wrong != json.end()) {
      Tree* at = source.make(Kind::Other, {wrong->at("line"), wrong->at("column"), 0, 0});
      throw source.error(ErrorCode::InvalidModel, *at, wrong->at("message").get_ref<const std::string&>());
    }
    source.root = Reader(source).tree(json.at("tree"));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::InvalidModel, fmt::format("not a Python tree as JSON: {}", error.what()));
  }
  return source;
}

}  // namespace anfora::python
