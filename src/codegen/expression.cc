#include "codegen/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "anfora/error.h"

namespace anfora::codegen {
namespace {

using Kind = Term::Kind;
using Arguments = std::span<const Value>;

// Operators of the language have names here that none has there.
constexpr ScalarFunction kFunctions[] = {
    {"+", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.add(x[0], x[1]); }},
    {"-", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.subtract(x[0], x[1]); }},
    {"*", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.multiply(x[0], x[1]); }},
    {"/", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.divide(x[0], x[1]); }},
    {"<", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.less(x[0], x[1]); }},
    {"<=", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.binary(Op::LessOrEqual, x[0], x[1]); }},
    {"==", 2, false,
     [](Builder& b, VectorMath& m, Arguments x) {
       const bool is_mask = b.type(x[0]).element == Element::Mask;
       return is_mask ? m.negation(b.binary(Op::Xor, x[0], x[1])) : b.binary(Op::Equal, x[0], x[1]);
     }},
    {"&&", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.binary(Op::And, x[0], x[1]); }},
    {"||", 2, false, [](Builder& b, VectorMath&, Arguments x) { return b.binary(Op::Or, x[0], x[1]); }},
    {"!", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.negation(x[0]); }},
    {"?", 3, false, [](Builder&, VectorMath& m, Arguments x) { return m.choice(x[0], x[1], x[2]); }},
    {"neg", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.negate(x[0]); }},
    {"f32", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.converted(x[0], Element::F32); }},
    {"i32", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.converted(x[0], Element::I32); }},
    {"i64", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.converted(x[0], Element::I64); }},
    {"bool", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.converted(x[0], Element::Mask); }},
    {"fma", 3, false, [](Builder&, VectorMath& m, Arguments x) { return m.fma(x[0], x[1], x[2]); }},
    {"abs", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.magnitude(x[0]); }},
    {"larger", 2, false, [](Builder&, VectorMath& m, Arguments x) { return m.larger(x[0], x[1]); }},
    {"smaller", 2, false, [](Builder&, VectorMath& m, Arguments x) { return m.smaller(x[0], x[1]); }},
    {"round", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.round(x[0]); }},
    {"nearest", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.nearest(x[0]); }},
    {"floor", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.floor(x[0]); }},
    {"ceil", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.ceil(x[0]); }},
    {"is_nan", 1, false, [](Builder&, VectorMath& m, Arguments x) { return m.is_nan(x[0]); }},
    {"sqrt", 1, true, [](Builder& b, VectorMath&, Arguments x) { return b.square_root(x[0]); }},
    {"exp", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.exp(x[0]); }},
    {"exp_of_negative", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.exp_of_negative(x[0]); }},
    {"expm1_of_negative", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.expm1(x[0]); }},
    {"log", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.log(x[0]); }},
    {"sigmoid", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.sigmoid(x[0]); }},
    {"softplus", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.softplus(x[0]); }},
    {"tanh", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.tanh(x[0]); }},
    {"erf", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.erf(x[0]); }},
    {"gelu", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.gelu(x[0]); }},
    {"gelu_tanh", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.gelu_tanh(x[0]); }},
    {"sin", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.sin(x[0]); }},
    {"cos", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.cos(x[0]); }},
    {"asin", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.asin(x[0]); }},
    {"acos", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.acos(x[0]); }},
    {"atan", 1, true, [](Builder&, VectorMath& m, Arguments x) { return m.atan(x[0]); }},
    {"pow", 2, true, [](Builder&, VectorMath& m, Arguments x) { return m.pow(x[0], x[1]); }},
};

const ScalarFunction* find_function(std::string_view name) {
  const auto* found = std::ranges::find(kFunctions, name, &ScalarFunction::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

std::optional<float> fold(std::string_view function, float a, float b) {
  if (function == "+") return a + b;
  if (function == "-") return a - b;
  if (function == "*") return a * b;
  if (function == "/") return a / b;
  if (function == "neg") return -a;
  return std::nullopt;
}

class StatementParser {
 public:
  StatementParser(size_t num_inputs, std::span<const std::string> statements) {
    for (size_t i = 0; i < num_inputs; ++i)
      terms_.values.push_back(add({.kind = Kind::Input, .input = static_cast<int>(i), .operands = {}}));
    for (const std::string& statement : statements) {
      text_ = statement;
      at_ = 0;
      locals_.clear();
      terms_.values.push_back(parse_statement());
    }
  }

  Terms take() { return std::move(terms_); }

 private:
  // `none` stands for an operand that is not there, a string for an attribute.
  struct Operand {
    int term = -1;
    std::optional<std::string> text;
    bool is_none() const { return term < 0 && !text; }
  };

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::Internal, fmt::format("scalar form '{}': {} at {}", text_, what, at_));
  }

  int add(Term term) {
    auto [place, is_new] = known_.try_emplace(term, static_cast<int>(terms_.all.size()));
    if (is_new) terms_.all.push_back(std::move(term));
    return place->second;
  }
  int number(float value) {
    return add({.kind = Kind::Number, .bits = std::bit_cast<uint32_t>(value), .operands = {}});
  }
  bool is_float(int term) const {
    const Term& of = terms_.all[static_cast<size_t>(term)];
    return of.kind == Kind::Number && of.element == Element::F32;
  }
  int apply(std::string_view name, std::vector<int> operands) {
    const bool is_constant = std::ranges::all_of(operands, [&](int o) { return is_float(o); });
    if (is_constant) {
      const float a = terms_.all[static_cast<size_t>(operands[0])].number(),
                  b = terms_.all[static_cast<size_t>(operands.back())].number();
      if (auto value = fold(name, a, b)) return number(*value);
    }
    // As alpha is by default.
    const auto is_one = [&](int o) { return is_float(o) && terms_.all[static_cast<size_t>(o)].number() == 1; };
    if (name == "*" && is_one(operands[0])) return operands[1];
    if ((name == "*" || name == "/") && is_one(operands[1])) return operands[0];
    return add({.kind = Kind::Apply, .function = find_function(name), .operands = std::move(operands)});
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("no '{}'", token));
  }
  std::string_view accept_name() {
    skip_spaces();
    const size_t begin = at_;
    auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > begin && text_[at_] >= '0' && text_[at_] <= '9')))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Locals are named before the value: d = X - row_mean(X); d * d
  int parse_statement() {
    while (text_.find(';', at_) != std::string_view::npos) {
      const std::string name(accept_name());
      expect("=");
      const int term = term_of(choice());
      locals_.insert_or_assign(name, term);
      expect(";");
    }
    const int term = term_of(choice());
    skip_spaces();
    if (at_ != text_.size()) fail("something follows");
    return term;
  }

  int term_of(const Operand& operand) const {
    if (operand.term < 0) fail("no value");
    return operand.term;
  }

  Operand choice() {
    const Operand condition = either();
    if (!accept("?")) return condition;
    const Operand first = choice();
    expect(":");
    const Operand second = choice();
    if (condition.text) return *condition.text == "true" ? first : second;
    return {apply("?", {term_of(condition), term_of(first), term_of(second)}), {}};
  }
  Operand either() {
    Operand left = both();
    while (accept("||")) left = {apply("||", {term_of(left), term_of(both())}), {}};
    return left;
  }
  Operand both() {
    Operand left = comparison();
    while (accept("&&")) left = {apply("&&", {term_of(left), term_of(comparison())}), {}};
    return left;
  }
  Operand comparison() {
    Operand left = sum();
    if (accept("==")) {
      const Operand right = sum();
      if (left.text && right.text) return {-1, *left.text == *right.text ? "true" : "false"};
      return {apply("==", {term_of(left), term_of(right)}), {}};
    }
    if (accept("<=")) return {apply("<=", {term_of(left), term_of(sum())}), {}};
    if (accept("<")) return {apply("<", {term_of(left), term_of(sum())}), {}};
    if (accept(">=")) return {apply("<=", {term_of(sum()), term_of(left)}), {}};
    if (accept(">")) return {apply("<", {term_of(sum()), term_of(left)}), {}};
    return left;
  }
  Operand sum() {
    Operand left = product();
    for (;;) {
      if (accept("+"))
        left = {apply("+", {term_of(left), term_of(product())}), {}};
      else if (accept("-"))
        left = {apply("-", {term_of(left), term_of(product())}), {}};
      else
        return left;
    }
  }
  Operand product() {
    Operand left = unary();
    for (;;) {
      if (accept("*"))
        left = {apply("*", {term_of(left), term_of(unary())}), {}};
      else if (accept("/"))
        left = {apply("/", {term_of(left), term_of(unary())}), {}};
      else
        return left;
    }
  }
  Operand unary() {
    if (accept("-")) return {apply("neg", {term_of(unary())}), {}};
    if (accept("!")) return {apply("!", {term_of(unary())}), {}};
    Operand value = primary();
    if (!accept("??")) return value;
    const Operand otherwise = unary();
    return value.is_none() ? otherwise : value;
  }

  Operand primary() {
    if (accept("(")) {
      const Operand inner = choice();
      expect(")");
      return inner;
    }
    if (accept("'")) {
      const size_t end = text_.find('\'', at_);
      if (end == std::string_view::npos) fail("an open string");
      std::string text(text_.substr(at_, end - at_));
      at_ = end + 1;
      return {-1, std::move(text)};
    }
    if (accept("#")) return {integer(), {}};
    if (accept("%")) {
      const auto value = static_cast<size_t>(literal());
      if (value >= terms_.values.size()) fail("no such value");
      return {terms_.values[value], {}};
    }
    const std::string name(accept_name());
    if (name.empty()) return {number(literal()), {}};
    if (name == "none") return {};
    if (name == "inf" || name == "infinity") return {number(std::numeric_limits<float>::infinity()), {}};
    if (name == "true") return {apply("==", {number(0), number(0)}), {}};
    if (name == "false") return {apply("<", {number(0), number(0)}), {}};
    if (name == "nan") return {number(std::numeric_limits<float>::quiet_NaN()), {}};
    if (name == "row_size") return {add({.kind = Kind::RowSize, .operands = {}}), {}};
    if (auto local = locals_.find(name); local != locals_.end()) return {local->second, {}};
    expect("(");
    std::vector<int> operands{term_of(choice())};
    while (accept(",")) operands.push_back(term_of(choice()));
    expect(")");
    return {call(name, std::move(operands)), {}};
  }

  int call(const std::string& name, std::vector<int> operands) {
    auto reduce = [&](Kind kind) {
      if (operands.size() != 1) fail("a reduction has one operand");
      return add({.kind = kind, .operands = operands});
    };
    if (name == "row_sum") return reduce(Kind::Sum);
    if (name == "row_max") return reduce(Kind::Largest);
    if (name == "row_max_number") return reduce(Kind::LargestNumber);
    if (name == "row_min") return reduce(Kind::Smallest);
    if (name == "row_mean") return apply("/", {reduce(Kind::Sum), add({.kind = Kind::RowSize, .operands = {}})});
    if (name == "pow" && operands.size() == 2 && is_float(operands[1])) {
      if (auto power = simple_power(operands[0], terms_.all[static_cast<size_t>(operands[1])].number())) return *power;
    }
    const ScalarFunction* function = find_function(name);
    if (!function || function->arity != operands.size()) fail(fmt::format("no function '{}' of so many", name));
    return apply(name, std::move(operands));
  }

  // x^y of a y for which some operations stay within 2 units in the last place.
  std::optional<int> simple_power(int x, float y) {
    if (y == 1) return x;
    if (y == 2) return apply("*", {x, x});
    if (y == 3) return apply("*", {apply("*", {x, x}), x});
    if (y == 4) return apply("*", {apply("*", {x, x}), apply("*", {x, x})});
    const int inverse = apply("/", {number(1), x});
    if (y == -1) return inverse;
    if (y == -2) return apply("*", {inverse, inverse});
    // As pow has them: +0 for −0, infinity for −infinity.
    constexpr float kInfinite = std::numeric_limits<float>::infinity();
    const int root = apply("?", {apply("==", {x, number(-kInfinite)}), number(kInfinite), apply("+", {apply("sqrt", {x}), number(0)})});
    if (y == 0.5f) return root;
    if (y == -0.5f) return apply("/", {number(1), root});
    return std::nullopt;
  }

  // -1i or -1l, of i32 or i64.
  int integer() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("no integer");
    at_ = static_cast<size_t>(end - text_.data());
    const bool is_long = accept("l");
    if (!is_long) expect("i");
    return add({.kind = Kind::Number, .bits = value, .element = is_long ? Element::I64 : Element::I32, .operands = {}});
  }

  float literal() {
    skip_spaces();
    float value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("no number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::map<std::string, int> locals_;
  std::map<Term, int> known_;
  Terms terms_;
};

}  // namespace

Terms parse_statements(size_t num_inputs, std::span<const std::string> statements) {
  return StatementParser(num_inputs, statements).take();
}

}  // namespace anfora::codegen
