// Constants and attributes:
//
//     literal = payload | dtype [ shape ] ( payload | "<#" hash ">" )
//     payload = scalar | "[" [ payload { "," payload } ] "]"
//
// A payload is read before it is known what it is: a list of scalars as written, and the shape that its brackets
// give. Without a dtype, integers are i64 and other numbers f32.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/unordered/unordered_flat_set.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "ir/lexical.h"
#include "ir/parse_grammar.h"
#include "ir/print_literal.h"
#include "support/element_types.h"

namespace anfora::ir {
namespace {

constexpr size_t kDeepestList = 256;  // as many axes as a type may have

struct Scalar {
  enum class Kind : uint8_t { Integer, Float, Bool, String, Complex };
  Kind kind;
  size_t position;
  NumberToken number = {}, imaginary = {};
  std::string string = {};
  bool truth = false;
};

bool starts_tensor(std::string_view word) { return word == "undefined" || dtype_from_name(word).has_value(); }

template <class T>
T read_integer(Cursor& cursor, const Scalar& scalar, DType dtype, int64_t lowest, int64_t highest) {
  std::string_view text = scalar.number.text;
  if (text.starts_with('+')) text.remove_prefix(1);
  using Wide = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;
  Wide value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool fits = error == std::errc() && end == text.data() + text.size();
  if constexpr (!std::is_same_v<T, uint64_t>) fits = fits && value >= lowest && value <= highest;
  if (!fits) cursor.fail_at(scalar.position, fmt::format("{} is out of the range of {}", text, name(dtype)));
  return T(value);
}

template <class T>
T read_float(Cursor& cursor, const NumberToken& number, DType dtype) {
  if constexpr (std::is_same_v<T, double>) {
    if (auto bits = cursor.nan_bits(number)) return std::bit_cast<double>(*bits);
    return cursor.to_double(number);
  } else {
    if (auto bits = cursor.nan_bits(number)) {
      T value;
      if constexpr (std::is_same_v<T, float>) {
        value = std::bit_cast<float>(static_cast<uint32_t>(*bits));
      } else {
        value.bits = static_cast<decltype(value.bits)>(*bits);
      }
      int width = std::is_same_v<T, float> ? 32 : element_bits(dtype);
      if (*bits >> width == 0 && std::isnan(static_cast<float>(value))) return value;
      cursor.fail_at(number.position, fmt::format("these are not the bits of a NaN of {}", name(dtype)));
    }
    float exact = cursor.to_float(number);
    T value;
    if constexpr (std::is_constructible_v<T, float, bool>) {
      value = T(exact, /*saturate=*/false);
    } else {
      value = T(exact);
    }
    float kept = static_cast<float>(value);
    // A narrow type turns what it cannot hold into something else: an infinity, its largest value, a NaN. All have
    // values beyond 1, so that a number above twice what is kept of it was not rounded but cut off.
    bool cut = std::fabs(exact) > 2 * std::max(std::fabs(kept), 1.0f) ||
               (kept != 0 && std::signbit(kept) != std::signbit(exact));
    bool lost = std::isfinite(exact) ? !std::isfinite(kept) || cut
                                     : !(kept == exact || (std::isnan(kept) && std::isnan(exact)));
    if (lost) cursor.fail_at(number.position, fmt::format("{} is out of the range of {}", number.text, name(dtype)));
    return value;
  }
}

}  // namespace

struct LiteralParser::Payload {
  std::vector<Scalar> scalars;
  Shape shape;
  size_t position = 0;
};

bool LiteralParser::at_literal() {
  char c = cursor_.peek();
  if (c == '"' || c == '[' || cursor_.at_number()) return true;
  std::string_view word = cursor_.peek_word();
  return word == "true" || word == "false" || starts_tensor(word);
}

Tensor LiteralParser::literal() {
  std::string_view word = cursor_.peek_word();
  if (starts_tensor(word)) {
    cursor_.advance(word.size());
    if (word == "undefined") {
      cursor_.expect("[", "after 'undefined'");
      cursor_.expect("]", "after 'undefined['");
      return {};
    }
    return typed(*dtype_from_name(word));
  }
  Payload content = payload();
  using Kind = Scalar::Kind;
  DType dtype = DType::I64;
  for (const Scalar& s : content.scalars) {
    if (s.kind == Kind::Complex)
      cursor_.fail_at(s.position, "a complex constant needs its type", "for example c64[] (1.0, 2.0)");
    if (s.kind == Kind::Float) dtype = DType::F32;
    if (s.kind == Kind::Bool) dtype = DType::Bool;
    if (s.kind == Kind::String) dtype = DType::String;
  }
  return convert(content, dtype, content.shape);
}

Tensor LiteralParser::typed(DType dtype) {
  std::optional<Shape> shape;
  size_t start = cursor_.position();
  // "f32[2] 1.0" has a shape, "f32 [1.0]" has a list: the shape follows without a blank.
  if (cursor_.rest().starts_with('[')) {
    cursor_.rewind(start - name(dtype).size());
    const Type* type = TypeParser(context_, cursor_).type();
    shape = type->static_shape();
    if (!shape) cursor_.fail_at(start, "the shape of a constant has only integers");
  }
  if (cursor_.accept("<elided>")) {
    cursor_.fail_at(start, "the content of this constant was left out of the text", "print it with constants");
  }
  if (cursor_.accept("<#")) {
    if (!shape) cursor_.fail_at(start, "a constant named by its hash needs its shape");
    return by_hash(dtype, *shape);
  }
  Payload content = payload();
  if (!shape) shape = content.shape;
  try {
    int64_t count = element_count(*shape);
    bool uniform = content.shape.empty() && count <= kMostUniformElements;
    bool empty = count == 0 && content.scalars.empty();
    if (!uniform && !empty && content.shape != *shape) {
      cursor_.fail_at(content.position, fmt::format("expected elements of shape {}, found {}",
                                                    anfora::to_string(*shape), anfora::to_string(content.shape)));
    }
    return convert(content, dtype, *shape);
  } catch (const Error& error) {
    rethrow(error, start);
  }
}

// Errors of the shape or the file of constants know no place in the text.
void LiteralParser::rethrow(const Error& error, size_t position) {
  if (!error.location().empty()) throw error;
  cursor_.fail_at(position, error.message(), error.hint());
}

Tensor LiteralParser::by_hash(DType dtype, std::span<const int64_t> shape) {
  constexpr size_t kDigits = 32;
  size_t start = cursor_.position();
  std::string_view digits = cursor_.rest().substr(0, kDigits);
  ContentHash hash;
  auto read = [](std::string_view half, uint64_t& value) {
    auto [end, error] = std::from_chars(half.data(), half.data() + half.size(), value, 16);
    return error == std::errc() && end == half.data() + half.size();
  };
  if (digits.size() != kDigits || !read(digits.substr(0, kDigits / 2), hash.high) ||
      !read(digits.substr(kDigits / 2), hash.low)) {
    cursor_.fail("expected a hash of 32 hexadecimal digits");
  }
  cursor_.advance(kDigits);
  cursor_.expect(">", "after a hash");
  if (!sidecar_) cursor_.fail_at(start, "the text names a constant of another file, and no such file was given");
  try {
    Tensor tensor = sidecar_->find(hash, dtype, shape);
    if (!tensor.defined()) cursor_.fail_at(start, "the file of constants does not have this one");
    return tensor;
  } catch (const Error& error) {
    rethrow(error, start);
  }
}

LiteralParser::Payload LiteralParser::payload() {
  Payload result;
  cursor_.skip_space();
  result.position = cursor_.position();
  std::vector<int64_t> counts;  // items read so far in each open list
  Shape& shape = result.shape;  // −1: no list of that depth is closed yet
  size_t rank = std::string::npos;

  auto scalar = [&] {
    cursor_.skip_space();
    Scalar s{.kind = Scalar::Kind::Integer, .position = cursor_.position()};
    if (cursor_.peek() == '"') {
      s.kind = Scalar::Kind::String;
      s.string = cursor_.string("a string");
    } else if (cursor_.accept("(")) {
      s.kind = Scalar::Kind::Complex;
      s.number = cursor_.number("the real part");
      cursor_.expect(",", "between real and imaginary part");
      s.imaginary = cursor_.number("the imaginary part");
      cursor_.expect(")", "after a complex number");
    } else if (std::string_view word = cursor_.peek_word(); word == "true" || word == "false") {
      s.kind = Scalar::Kind::Bool;
      s.truth = word == "true";
      cursor_.advance(word.size());
    } else {
      s.number = cursor_.number("a constant");
      if (!s.number.is_integer()) s.kind = Scalar::Kind::Float;
    }
    return s;
  };

  auto finish = [&] {
    if (rank != std::string::npos && rank != shape.size()) {
      cursor_.fail_at(result.position, "elements stand at different depths of brackets");
    }
    return std::move(result);
  };
  for (;;) {
    if (cursor_.accept("[")) {
      if (counts.size() == kDeepestList) cursor_.fail(fmt::format("lists are nested more than {} deep", kDeepestList));
      counts.push_back(0);
      if (shape.size() < counts.size()) shape.push_back(-1);
      if (cursor_.peek() != ']') continue;
    } else {
      Scalar s = scalar();
      if (rank == std::string::npos) rank = counts.size();
      if (rank != counts.size()) cursor_.fail_at(s.position, "elements stand at different depths of brackets");
      result.scalars.push_back(std::move(s));
      if (counts.empty()) return finish();
      ++counts.back();
    }
    // After an item: the next one, or the end of one or more lists.
    while (!cursor_.accept(",")) {
      cursor_.expect("]", "or ',' after an element");
      int64_t& length = shape[counts.size() - 1];
      if (length >= 0 && length != counts.back()) cursor_.fail("rows have different lengths");
      length = counts.back();
      counts.pop_back();
      if (counts.empty()) return finish();
      ++counts.back();
    }
  }
}

Tensor LiteralParser::convert(const Payload& content, DType dtype, std::span<const int64_t> shape) {
  Tensor tensor = Tensor::allocate(dtype, shape);
  using Kind = Scalar::Kind;
  auto require = [&](const Scalar& s, bool fits) {
    if (!fits) cursor_.fail_at(s.position, fmt::format("this is not a value of {}", name(dtype)));
  };
  dispatch<AllElements>(dtype, [&]<class T>() {
    auto read = [&](const Scalar& s) -> T {
      if constexpr (std::is_same_v<T, bool>) {
        require(s, s.kind == Kind::Bool);
        return s.truth;
      } else if constexpr (std::is_same_v<T, std::string>) {
        require(s, s.kind == Kind::String);
        return s.string;
      } else if constexpr (std::is_integral_v<T>) {
        require(s, s.kind == Kind::Integer);
        constexpr bool kFull = std::is_same_v<T, uint64_t>;
        return read_integer<T>(cursor_, s, dtype, kFull ? 0 : static_cast<int64_t>(std::numeric_limits<T>::lowest()),
                               kFull ? 0 : static_cast<int64_t>(std::numeric_limits<T>::max()));
      } else if constexpr (requires { T::lowest; }) {
        require(s, s.kind == Kind::Integer);
        return read_integer<T>(cursor_, s, dtype, T::lowest, T::highest);
      } else if constexpr (requires(T value) { value.real(); }) {
        using Part = typename T::value_type;
        require(s, s.kind == Kind::Integer || s.kind == Kind::Float || s.kind == Kind::Complex);
        return T(read_float<Part>(cursor_, s.number, dtype),
                 s.kind == Kind::Complex ? read_float<Part>(cursor_, s.imaginary, dtype) : Part(0));
      } else {
        require(s, s.kind == Kind::Integer || s.kind == Kind::Float);
        return read_float<T>(cursor_, s.number, dtype);
      }
    };
    std::span<T> elements = tensor.data<T>();
    if (content.shape.empty()) {  // one for all, of which there may be none
      std::ranges::fill(elements, read(content.scalars.front()));
    } else {
      std::ranges::transform(content.scalars, elements.begin(), read);
    }
  });
  return tensor;
}

AttributeSet LiteralParser::attributes(ReadsOperand reads_operand) {
  std::vector<AttributeSet::Entry> entries;
  boost::unordered_flat_set<std::string> names;
  if (cursor_.accept("}")) return {};
  do {
    cursor_.skip_space();
    size_t start = cursor_.position();
    std::string attribute_name = cursor_.identifier("the name of an attribute");
    if (!names.insert(attribute_name).second)
      cursor_.fail_at(start, fmt::format("attribute '{}' is given twice", attribute_name));
    cursor_.expect("=", "after the name of an attribute");
    if (!reads_operand(attribute_name)) entries.emplace_back(std::move(attribute_name), attribute());
  } while (cursor_.accept(","));
  cursor_.expect("}", "or ',' after an attribute");
  return AttributeSet(std::move(entries));
}

AttributeValue LiteralParser::attribute() {
  std::string_view word = cursor_.peek_word();
  if (starts_tensor(word)) return literal();
  if (word == "floats" || word == "strings" || word == "tensors") {
    cursor_.advance(word.size());
    return list(word);
  }
  if (cursor_.peek() == '[') return list({});
  if (cursor_.peek() == '"') return cursor_.string("a string");
  if (!cursor_.at_number()) {
    cursor_.fail_expected("the value of an attribute",
                          "a number, a string, a tensor like f32[2] [1, 2], or a list of one of these");
  }
  NumberToken number = cursor_.number("a number");
  if (number.is_integer()) return cursor_.to_integer(number);
  return read_float<float>(cursor_, number, DType::F32);
}

// `kind` is given where the items cannot tell: of an empty list.
AttributeValue LiteralParser::list(std::string_view kind) {
  cursor_.expect("[", "before a list");
  std::vector<NumberToken> numbers;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;
  bool first = true;
  while (!cursor_.accept("]")) {
    if (!first) cursor_.expect(",", "or ']' after an item");
    first = false;
    if (starts_tensor(cursor_.peek_word())) {
      tensors.push_back(literal());
    } else if (cursor_.peek() == '"') {
      strings.push_back(cursor_.string("a string"));
    } else {
      numbers.push_back(cursor_.number("an item: a number, a string or a tensor"));
    }
    bool mixed = !numbers.empty() + !strings.empty() + !tensors.empty() > 1;
    bool misnamed = (!strings.empty() && kind != "strings") || (!tensors.empty() && kind != "tensors") ||
                    (!numbers.empty() && kind != "floats");
    if (mixed || (misnamed && !kind.empty())) cursor_.fail("the items of a list are of one kind");
  }
  if (!strings.empty() || kind == "strings") return strings;
  if (!tensors.empty() || kind == "tensors") return tensors;
  if (kind != "floats" && std::ranges::all_of(numbers, &NumberToken::is_integer)) {
    std::vector<int64_t> integers;
    for (const NumberToken& n : numbers) integers.push_back(cursor_.to_integer(n));
    return integers;
  }
  std::vector<float> floats;
  for (const NumberToken& n : numbers) floats.push_back(read_float<float>(cursor_, n, DType::F32));
  return floats;
}

}  // namespace anfora::ir
