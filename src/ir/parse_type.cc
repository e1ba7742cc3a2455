// Types and dimensions:
//
//     dim     = product { ("+" | "-") product }        with an optional "-" in front
//     product = atom { "*" atom }
//     atom    = integer | "?" | symbol | "(" dim ")" | function "(" dim "," dim ")"
#include <fmt/format.h>

#include <cctype>

#include "ir/parse_grammar.h"

namespace anfora::ir {
namespace {

// More axes than any model has; Shape and the kernels are linear in it.
constexpr size_t kHighestRank = 256;

size_t symbol_length(std::string_view text) {
  auto in_symbol = [](unsigned char c) { return (c < 0x80 && std::isalnum(c)) || c == '_'; };
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return 0;
  size_t length = 0;
  while (length < text.size() && in_symbol(static_cast<unsigned char>(text[length]))) ++length;
  return length;
}

}  // namespace

const Type* TypeParser::type() {
  NestingScope nesting(depth_, cursor_);
  if (cursor_.accept("(")) {
    size_t start = cursor_.position();
    std::vector<const Type*> items = list(")");
    if (items.size() == 1 && cursor_.accept(",")) {
      cursor_.expect(")", "after the type of a tuple of one");
    } else if (items.size() == 1) {
      cursor_.fail_at(start, "expected a tuple type", "the type of a tuple of one is written (T,)");
    } else {
      cursor_.expect(")", "or ',' in a tuple type");
    }
    return context_.tuple_type(items);
  }
  size_t start = cursor_.position();
  std::string_view word = cursor_.peek_word();
  cursor_.advance(word.size());
  if (word == "none") return context_.none_type();
  if (word == "state") return context_.state_type();
  if (word == "untyped") return nullptr;
  if (word == "unreachable") {
    const size_t end = cursor_.position();
    if (cursor_.peek() == '"') return context_.unreachable_type(cursor_.string("the reason"));
    cursor_.rewind(end);  // a comment that follows may be the location
    return context_.unreachable_type({});
  }
  if (word == "any") return tensor(DType::Undefined);
  if (auto dtype = dtype_from_name(word)) return tensor(*dtype);
  if (word == "seq" || word == "opt") {
    cursor_.expect("(", "before the element's type");
    const Type* element = type();
    cursor_.expect(")", "after the element's type");
    return word == "seq" ? context_.sequence_type(element) : context_.optional_type(element);
  }
  if (word == "type") {
    cursor_.expect("(", "before the type that the value is");
    const Type* described = type();
    cursor_.expect(")", "after the type that the value is");
    return context_.type_type(described);
  }
  if (word == "map") {
    cursor_.expect("(", "before the key's type");
    const Type* key = type();
    cursor_.expect(",", "between the types of key and value");
    const Type* value = type();
    cursor_.expect(")", "after the value's type");
    return context_.map_type(key, value);
  }
  if (word == "func") {
    cursor_.expect("(", "before the parameters' types");
    std::vector<const Type*> parameters = list(")");
    cursor_.expect(")", "or ',' in a function's type");
    cursor_.expect("->", "before the result's type");
    return context_.func_type(parameters, type());
  }
  cursor_.rewind(start);
  cursor_.fail_expected("a type",
                        "types look like f32[N, 128], any[*], seq(T), opt(T), map(K, V), (T, U), func(T) -> U, type(T)");
}

std::vector<const Type*> TypeParser::list(std::string_view close) {
  std::vector<const Type*> items;
  if (cursor_.peek() == close[0]) return items;
  for (;;) {
    items.push_back(type());
    size_t before_comma = cursor_.position();
    if (!cursor_.accept(",")) return items;
    if (items.size() == 1 && cursor_.peek() == close[0]) {
      cursor_.rewind(before_comma);
      return items;
    }
  }
}

const Type* TypeParser::tensor(DType dtype) {
  cursor_.expect("[", "before the shape");
  if (cursor_.accept("*")) {
    cursor_.expect("]", "after * (any rank)");
    return context_.unranked_type(dtype);
  }
  std::vector<Dim> dims;
  if (!cursor_.accept("]")) {
    do {
      if (dims.size() == kHighestRank)
        cursor_.fail(fmt::format("a shape has at most {} dimensions here", kHighestRank));
      dims.push_back(dim());
    } while (cursor_.accept(","));
    cursor_.expect("]", "or ',' after a dimension");
  }
  return context_.tensor_type(dtype, std::span<const Dim>(dims));
}

Dim TypeParser::dim() {
  NestingScope nesting(depth_, cursor_);
  bool negative = cursor_.accept("-");
  Dim total = product(negative);
  for (;;) {
    if (cursor_.accept("+")) {
      total = total + product(false);
    } else if (cursor_.peek() == '-') {
      cursor_.accept("-");
      total = total + product(true);
    } else {
      return total;
    }
  }
}

Dim TypeParser::product(bool negative) {
  Dim result = atom(negative);
  while (cursor_.accept("*")) result = result * atom(false);
  return result;
}

Dim TypeParser::atom(bool negative) {
  char c = cursor_.peek();
  if (std::isdigit(static_cast<unsigned char>(c))) {
    return context_.dims().constant(cursor_.integer("a dimension") * (negative ? -1 : 1));
  }
  Dim value = context_.dims().unknown();
  if (cursor_.accept("?")) {
  } else if (cursor_.accept("(")) {
    value = dim();
    cursor_.expect(")", "after a dimension");
  } else {
    std::string name = symbol_name();
    value = c != '\'' && cursor_.peek() == '(' ? function(name) : context_.dims().symbol(name);
  }
  return negative ? value * -1 : value;
}

Dim TypeParser::function(std::string_view name) {
  using Function = Dim (*)(Dim, Dim);
  static constexpr std::pair<std::string_view, Function> kFunctions[] = {
      {"floordiv", floor_div}, {"ceildiv", ceil_div}, {"mod", mod}, {"min", min}, {"max", max}};
  Function apply = nullptr;
  for (auto [known, function] : kFunctions) {
    if (known == name) apply = function;
  }
  if (!apply) {
    cursor_.fail(fmt::format("there is no function {} of dimensions", name),
                 "there are floordiv, ceildiv, mod, min, max");
  }
  cursor_.expect("(", "before the operands");
  Dim a = dim();
  cursor_.expect(",", "between the operands");
  Dim b = dim();
  cursor_.expect(")", "after the operands");
  return apply(a, b);
}

// Between quotes, \xHH stands for what cannot stand there itself.
std::string TypeParser::symbol_name() {
  if (cursor_.peek() != '\'') {
    std::string_view bare = cursor_.rest().substr(0, symbol_length(cursor_.rest()));
    if (bare.empty()) {
      cursor_.fail_expected(
          "a dimension",
          "dimensions are integers, symbols, ?, sums and products, floordiv(a, b), ceildiv, mod, min, max");
    }
    cursor_.advance(bare.size());
    return std::string(bare);
  }
  size_t start = cursor_.position();
  cursor_.advance(1);
  std::string name;
  for (;;) {
    std::string_view rest = cursor_.rest();
    if (rest.empty() || rest[0] == '\n') cursor_.fail_at(start, "this symbol has no closing quote");
    if (rest[0] == '\'') break;
    auto hex = [&](size_t i) { return i < rest.size() && std::isxdigit(static_cast<unsigned char>(rest[i])); };
    if (rest[0] != '\\') {
      name += rest[0];
      cursor_.advance(1);
    } else if (rest.substr(1).starts_with('x') && hex(2) && hex(3)) {
      name += static_cast<char>(std::stoi(std::string(rest.substr(2, 2)), nullptr, 16));
      cursor_.advance(4);
    } else {
      cursor_.fail("unknown escape in a symbol", "there is only \\xHH");
    }
  }
  cursor_.advance(1);
  return name;
}

namespace {

template <class Read>
auto read_all(Context& context, std::string_view text, Read read) {
  Cursor cursor(text, {});
  TypeParser parser(context, cursor);
  auto result = read(parser);
  if (!cursor.at_end()) cursor.fail_expected("the end of the text");
  return result;
}

}  // namespace

const Type* parse_type(Context& context, std::string_view text) {
  return read_all(context, text, [](TypeParser& parser) { return parser.type(); });
}
Dim parse_dim(Context& context, std::string_view text) {
  return read_all(context, text, [](TypeParser& parser) { return parser.dim(); });
}

}  // namespace anfora::ir
