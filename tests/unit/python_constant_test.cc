// Constants of Python: what they print, how they compare, and what operators make of them. The expected values are CPython's.
#include <gtest/gtest.h>

#include <limits>

#include "frontend/python/operators.h"

namespace anfora::python {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

Constant integer(std::string_view decimal) { return {Integer(std::string(decimal))}; }
Constant letters(std::u32string_view points) { return {std::u32string(points)}; }
Constant bytes(std::string_view content) { return {Bytes{std::string(content)}}; }
Constant tuple(std::vector<Constant> items) { return {Tuple{std::move(items)}}; }
Constant imaginary(double real, double imaginary) { return {std::complex<double>(real, imaginary)}; }
const Constant kNone, kTrue{true}, kFalse{false}, kOne{Integer(1)}, kTwo{Integer(2)};

std::string shown(const std::optional<Constant>& result) { return result ? repr(*result) : "not folded"; }
std::string binary_shown(const Constant& a, Kind op, const Constant& b) { return shown(binary(op, a, b)); }

TEST(PythonConstant, ReprOfNumbers) {
  EXPECT_EQ(repr({1.0}), "1.0");
  EXPECT_EQ(repr({-0.0}), "-0.0");
  EXPECT_EQ(repr({1e16}), "1e+16");
  EXPECT_EQ(repr({123456789012345.0}), "123456789012345.0");
  EXPECT_EQ(repr({1e-5}), "1e-05");
  EXPECT_EQ(repr({0.0001}), "0.0001");
  EXPECT_EQ(repr({5e-324}), "5e-324");
  EXPECT_EQ(repr({-kInfinity}), "-inf");
  EXPECT_EQ(repr({kNan}), "nan");
  EXPECT_EQ(repr(imaginary(0, 2)), "2j");
  EXPECT_EQ(repr(imaginary(-0.0, -2.5)), "(-0-2.5j)");
  EXPECT_EQ(repr(imaginary(1, kNan)), "(1+nanj)");
  EXPECT_EQ(repr(imaginary(1, -kInfinity)), "(1-infj)");
  EXPECT_EQ(repr(integer("-340282366920938463463374607431768211456")), "-340282366920938463463374607431768211456");
}

TEST(PythonConstant, ReprOfTexts) {
  EXPECT_EQ(repr(letters(U"it's")), "\"it's\"");
  EXPECT_EQ(repr(letters(U"'\"")), "'\\'\"'");
  EXPECT_EQ(repr(letters(U"\t\n\r\\\x01\x7f")), "'\\t\\n\\r\\\\\\x01\\x7f'");
  EXPECT_EQ(repr(letters(U"\xe9\xa0\u20ac\u2028\U0001f600\U000e0001")), "'é\\xa0€\\u2028😀\\U000e0001'");
  EXPECT_EQ(repr(letters({U"\xd800", 1})), "'\\ud800'");
  EXPECT_EQ(ascii(letters(U"\xe9\u20ac\U0001f600")), "'\\xe9\\u20ac\\U0001f600'");
  EXPECT_EQ(str(letters(U"a'b")), "a'b");
  EXPECT_EQ(repr(bytes({"a'\x00\xff\n", 5})), "b\"a'\\x00\\xff\\n\"");
}

TEST(PythonConstant, ReprOfCollections) {
  EXPECT_EQ(repr(tuple({})), "()");
  EXPECT_EQ(repr(tuple({kOne})), "(1,)");
  EXPECT_EQ(repr(tuple({kTrue, kNone, {EllipsisValue()}, letters(U"a")})), "(True, None, Ellipsis, 'a')");
  EXPECT_EQ(repr({frozen_set({kTwo, kOne, kTrue, {1.0}})}), "frozenset({2, 1})");
  EXPECT_EQ(repr({frozen_set({})}), "frozenset()");
}

TEST(PythonConstant, Utf8) {
  const std::u32string all = U"a\xe9\u20ac\U0001f600";
  EXPECT_EQ(code_points(utf8(all)), all);
}

TEST(PythonConstant, EqualAcrossTypes) {
  for (const Constant& one : {kTrue, kOne, Constant{1.0}, imaginary(1, 0)}) {
    EXPECT_TRUE(equal(one, kOne));
    EXPECT_EQ(hash(one), hash(kOne));
  }
  EXPECT_TRUE(equal({0.0}, {-0.0}));
  EXPECT_EQ(hash({0.0}), hash({-0.0}));
  EXPECT_FALSE(equal(integer("9007199254740993"), {9007199254740992.0}));
  EXPECT_FALSE(equal({kNan}, {kNan}));
  EXPECT_FALSE(equal(letters(U"a"), bytes("a")));
  EXPECT_TRUE(equal(tuple({kOne, {2.0}}), tuple({kTrue, kTwo})));
  EXPECT_TRUE(equal({frozen_set({kOne, kTwo})}, {frozen_set({kTwo, kOne})}));
  EXPECT_EQ(hash({frozen_set({kOne, kTwo})}), hash({frozen_set({kTwo, kOne})}));
}

TEST(PythonConstant, Truth) {
  for (const Constant& c : {kNone, kFalse, integer("0"), Constant{-0.0}, imaginary(0, 0), letters(U""), bytes(""), tuple({})}) EXPECT_FALSE(truth(c));
  for (const Constant& c : {kTrue, Constant{EllipsisValue()}, Constant{kNan}, imaginary(0, 1), letters(U"0"), tuple({kNone})}) EXPECT_TRUE(truth(c));
}

TEST(PythonArithmetic, Integers) {
  EXPECT_EQ(binary_shown(integer("-7"), Kind::FloorDiv, kTwo), "-4");
  EXPECT_EQ(binary_shown(integer("-7"), Kind::Mod, integer("3")), "2");
  EXPECT_EQ(binary_shown(integer("7"), Kind::Mod, integer("-3")), "-2");
  EXPECT_EQ(binary_shown(integer("-5"), Kind::RShift, integer("1000")), "-1");
  EXPECT_EQ(binary_shown(integer("-6"), Kind::BitAnd, integer("3")), "2");
  EXPECT_EQ(binary_shown(kTrue, Kind::BitXor, kTrue), "False");
  EXPECT_EQ(binary_shown(kTrue, Kind::Add, kTrue), "2");
  EXPECT_EQ(shown(unary(Kind::Invert, kTrue)), "-2");
  EXPECT_EQ(shown(unary(Kind::Not, letters(U""))), "True");
  EXPECT_EQ(shown(unary(Kind::USub, letters(U"a"))), "not folded");
}

TEST(PythonArithmetic, QuotientsAreRoundedOnce) {
  EXPECT_EQ(binary_shown(integer("0"), Kind::Div, integer("-5")), "-0.0");
  EXPECT_EQ(binary_shown(integer("9007199254740993"), Kind::Div, kOne), "9007199254740992.0");
  EXPECT_EQ(binary_shown(integer("9007199254740995"), Kind::Div, kOne), "9007199254740996.0");
  const Constant large{Integer(pow(Integer(10), 400))}, larger{Integer(pow(Integer(10), 401))};
  EXPECT_EQ(binary_shown(large, Kind::Div, larger), "0.1");
  EXPECT_EQ(binary_shown(large, Kind::Div, kOne), "not folded");
  EXPECT_EQ(binary_shown(large, Kind::Add, {1.0}), "not folded");
  const Integer small = Integer(1) << 1074;
  EXPECT_EQ(binary_shown(kOne, Kind::Div, {small}), "5e-324");
  EXPECT_EQ(binary_shown(kOne, Kind::Div, {Integer(small * 2)}), "0.0");       // half of it: to even
  EXPECT_EQ(binary_shown(integer("3"), Kind::Div, {Integer(small * 2)}), "1e-323");  // one and a half: to even
}

TEST(PythonArithmetic, FloatsAndComplexNumbers) {
  EXPECT_EQ(binary_shown({-1.5}, Kind::FloorDiv, {0.4}), "-4.0");
  EXPECT_EQ(binary_shown({0.0}, Kind::Mod, {-1.0}), "-0.0");
  EXPECT_EQ(binary_shown({1.0}, Kind::Div, kFalse), "not folded");
  EXPECT_EQ(binary_shown({1e200}, Kind::Pow, kTwo), "not folded");
  EXPECT_EQ(binary_shown({0.0}, Kind::Pow, {-1.0}), "not folded");
  EXPECT_EQ(binary_shown(kTwo, Kind::Pow, integer("-1")), "0.5");
  EXPECT_EQ(binary_shown({-8.0}, Kind::Pow, {0.5}), "(1.7319121124709868e-16+2.8284271247461903j)");
  EXPECT_EQ(binary_shown(imaginary(1, 2), Kind::Div, imaginary(3, -1)), "(0.1+0.7000000000000001j)");
  EXPECT_EQ(binary_shown(imaginary(0, 1), Kind::Pow, kTwo), "(-1+0j)");
  EXPECT_EQ(binary_shown(kOne, Kind::Sub, imaginary(0, 2)), "(1-2j)");
  EXPECT_EQ(binary_shown(imaginary(0, 1), Kind::FloorDiv, kTwo), "not folded");
}

TEST(PythonArithmetic, Bounds) {
  EXPECT_EQ(binary_shown(kTwo, Kind::Pow, integer("64")), "18446744073709551616");
  EXPECT_EQ(binary_shown(kTwo, Kind::Pow, integer("65")), "not folded");  // by its estimate, 2 bits * 65
  EXPECT_EQ(binary_shown(kOne, Kind::LShift, integer("127")), "170141183460469231731687303715884105728");
  EXPECT_EQ(binary_shown(kOne, Kind::LShift, integer("128")), "not folded");
  EXPECT_EQ(binary_shown({Integer(1) << 64}, Kind::Mult, {Integer(1) << 62}), "85070591730234615865843651857942052864");
  EXPECT_EQ(binary_shown({Integer(1) << 64}, Kind::Mult, {Integer(1) << 63}), "not folded");
  EXPECT_EQ(binary(Kind::Mult, letters(U"a"), integer("4096"))->as<std::u32string>().size(), 4096U);
  EXPECT_EQ(binary_shown(letters(U"a"), Kind::Mult, integer("4097")), "not folded");
  EXPECT_EQ(binary(Kind::Mult, integer("256"), tuple({kOne}))->as<Tuple>().items.size(), 256U);
  EXPECT_EQ(binary_shown(tuple({kOne}), Kind::Mult, integer("257")), "not folded");
  EXPECT_EQ(binary_shown(tuple({tuple(std::vector(9, kOne))}), Kind::Mult, integer("128")), "not folded");
  EXPECT_EQ(binary_shown(letters(U"a"), Kind::Mult, integer("-1")), "not folded");
  EXPECT_EQ(binary_shown(letters(U""), Kind::Mult, integer("-1")), "''");
}

TEST(PythonComparison, Order) {
  EXPECT_EQ(compare(Kind::Lt, {9007199254740992.0}, integer("9007199254740993")), true);
  EXPECT_EQ(compare(Kind::GtE, integer("-2"), {-2.5}), true);
  EXPECT_EQ(compare(Kind::Lt, {Integer(pow(Integer(10), 400))}, {kInfinity}), true);
  for (Kind op : {Kind::Lt, Kind::LtE, Kind::Gt, Kind::GtE, Kind::Eq}) EXPECT_EQ(compare(op, {kNan}, kOne), false);
  EXPECT_EQ(compare(Kind::NotEq, {kNan}, {kNan}), true);
  EXPECT_EQ(compare(Kind::Eq, tuple({{kNan}}), tuple({{kNan}})), std::nullopt);  // the same NaN, or another
  EXPECT_EQ(compare(Kind::Lt, tuple({kOne, kTwo}), tuple({kOne, kTwo, kNone})), true);
  EXPECT_EQ(compare(Kind::Lt, tuple({kOne, kNone}), tuple({kOne, kTwo})), std::nullopt);
  EXPECT_EQ(compare(Kind::Lt, letters(U"\uffff"), letters(U"\U00010000")), true);
  EXPECT_EQ(compare(Kind::Lt, bytes("a"), bytes("\xff")), true);
  EXPECT_EQ(compare(Kind::Lt, imaginary(0, 1), kOne), std::nullopt);
  EXPECT_EQ(compare(Kind::Eq, letters(U"a"), bytes("a")), false);
}

TEST(PythonComparison, IdentityAndMembership) {
  EXPECT_EQ(compare(Kind::Is, kNone, kNone), true);
  EXPECT_EQ(compare(Kind::Is, kOne, kTrue), false);
  EXPECT_EQ(compare(Kind::IsNot, kTrue, kFalse), true);
  EXPECT_EQ(compare(Kind::Is, kOne, kOne), std::nullopt);
  EXPECT_EQ(compare(Kind::In, letters(U"bc"), letters(U"abcd")), true);
  EXPECT_EQ(compare(Kind::In, integer("97"), bytes("abc")), true);
  EXPECT_EQ(compare(Kind::In, integer("256"), bytes("abc")), std::nullopt);
  EXPECT_EQ(compare(Kind::NotIn, {1.0}, tuple({kTrue})), false);
  EXPECT_EQ(compare(Kind::In, kOne, {frozen_set({kTwo})}), false);
  EXPECT_EQ(compare(Kind::In, kOne, letters(U"1")), std::nullopt);
}

TEST(PythonSubscript, IndexAndSlice) {
  EXPECT_EQ(shown(subscript(letters(U"abc"), integer("-1"))), "'c'");
  EXPECT_EQ(shown(subscript(bytes("abc"), kTrue)), "98");
  EXPECT_EQ(shown(subscript(tuple({kOne, kTwo}), kTwo)), "not folded");
  EXPECT_EQ(shown(subscript(letters(U"abc"), {1.0})), "not folded");
  EXPECT_EQ(shown(slice(letters(U"abcde"), kOne, integer("-1"), kNone)), "'bcd'");
  EXPECT_EQ(shown(slice(letters(U"abcde"), kNone, kNone, integer("-2"))), "'eca'");
  EXPECT_EQ(shown(slice(bytes("abcde"), integer("-99"), integer("99"), kTwo)), "b'ace'");
  EXPECT_EQ(shown(slice(tuple({kOne, kTwo}), kTwo, kOne, kNone)), "()");
  EXPECT_EQ(shown(slice(letters(U"abc"), kNone, kNone, integer("0"))), "not folded");
}

}  // namespace
}  // namespace anfora::python
