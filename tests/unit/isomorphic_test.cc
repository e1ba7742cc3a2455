#include "ir/isomorphic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::ir {
namespace {

// Each side in a context of its own, as two stored models would be.
std::string differ(std::string_view a, std::string_view b, const Comparison& comparison = {}) {
  auto first = ops::make_context(), second = ops::make_context();
  return difference(*parse(*first, a), *parse(*second, b), comparison);
}

TEST(Isomorphic, IgnoresNamesAndOrder) {
  EXPECT_EQ(differ("graph @main(%x: f32[2]) { %a = Relu(%x)  %b = Neg(%x)  return Add(%a, %b) }",
                   "graph @main(%x: f32[2]) { %p = Neg(%x)  %q = Relu(%x)  %dead = Exp(%x)  return Add(%q, %p) }"),
            "");
  EXPECT_EQ(differ("graph @main(%x: f32[2]) { %a = Relu(%x)  return %a }",
                   "graph @main(%x: f32[2]) { %b = Relu(%x)  return %b }", {.names = true}),
            "@main: operand 0 of return %3: a against b");
}

TEST(Isomorphic, SeesWhatDiffers) {
  std::string_view a = "graph @main(%x: f32[2], %y: f32[2]) { return Add(%x, %y) }";
  EXPECT_EQ(differ(a, "graph @main(%x: f32[2], %y: f32[2]) { return Add(%y, %x) }"),
            "@main: operand 0 of Add %3: parameter 'x' against parameter 'y'");
  EXPECT_EQ(differ(a, "graph @main(%x: f32[2], %y: f32[2]) { return Sub(%x, %y) }"),
            "@main: operand 0 of return %4: Add %3 of 2 operands against Sub %3 of 2");
  EXPECT_EQ(differ(a, "graph @main(%x: f32[2], %y: f32[3]) { return Add(%x, %y) }"),
            "@main: parameter 1: f32[2] against f32[3]");
  EXPECT_EQ(differ(a, "graph @main(%x: f32[2]) { return Add(%x, %x) }"), "@main: 2 parameters against 1");
  EXPECT_EQ(differ(a, "graph @main(%x: f32[2], %z: f32[2]) { return Add(%x, %z) }"),
            "@main: parameter 1 is called y against z");
  EXPECT_EQ(differ("graph @main() { return Neg(1.0) }", "graph @main() { return Neg(2.0) }"),
            "@main: operand 0 of Neg %2: constants differ");
  EXPECT_EQ(differ("graph @main(%x: f32[2]) { return Softmax(%x){axis=0} }",
                   "graph @main(%x: f32[2]) { return Softmax(%x){axis=1} }"),
            "@main: operand 0 of return %3: attributes of Softmax %2 differ");
}

TEST(Isomorphic, CountsSharing) {
  std::string_view shared = "graph @main(%x: f32[2]) { %a = Relu(%x)  return Add(%a, %a) }";
  std::string_view twice = "graph @main(%x: f32[2]) { return Add(Relu(%x), Relu(%x)) }";
  EXPECT_NE(differ(shared, twice), "");
  EXPECT_NE(differ(twice, shared), "");
}

TEST(Isomorphic, ComparesFunctions) {
  std::string_view loop = R"(
    graph @main(%n: i64[]) { return call @f(%n) }
    graph @f(%i: i64[]) { return call Switch(Less(%i, 5), @g, @h)() }
    graph @g() in @f { return call @f(Add(%i, 1)) }
    graph @h() in @f { return %i })";
  EXPECT_EQ(differ(loop, loop), "");
  std::string swapped(loop);
  swapped.replace(swapped.find("@g, @h"), 6, "@h, @g");
  EXPECT_NE(differ(loop, swapped), "");
}

// Whether @f and @g of a module are one.
bool are_one(std::string_view functions) {
  auto context = ops::make_context();
  auto module = parse(*context, functions);
  auto named = [&](std::string_view name) { return *std::ranges::find(module->graphs(), name, &Graph::name); };
  return isomorphic(*named("f"), *named("g"));
}

TEST(Isomorphic, FunctionsReadTheSameFromAroundThem) {
  constexpr std::string_view kMain = R"(
    graph @main(%x: f32[2], %c: bool[]) {
      %e = Exp(%x)
      %n = Neg(%x)
      return Add(call Switch(%c, @f, @g)(), Add(%e, %n))
    }
    graph @f() in @main { return Relu(%e) }
)";
  EXPECT_TRUE(are_one(std::string(kMain) + "graph @g() in @main { return Relu(%e) }"));
  EXPECT_FALSE(are_one(std::string(kMain) + "graph @g() in @main { return Relu(%n) }"));
  EXPECT_FALSE(are_one(std::string(kMain) + "graph @g() in @main { return %e }"));
}

TEST(Isomorphic, FunctionsThatCallThemselves) {
  constexpr std::string_view kMain = R"(
    graph @main(%x: f32[2], %n: i64[]) { return Add(call @f(%x, %n), call @g(%x, %n)) }
    graph @f(%x: f32[2], %n: i64[]) { return call Switch(Greater(%n, 0), @again, @done)() }
    graph @again() in @f { return call @f(Relu(%x), Sub(%n, 1)) }
    graph @done() in @f { return %x }
    graph @g(%y: f32[2], %m: i64[]) { return call Switch(Greater(%m, 0), @more, @end)() }
    graph @end() in @g { return %y }
)";
  EXPECT_TRUE(are_one(std::string(kMain) + "graph @more() in @g { return call @g(Relu(%y), Sub(%m, 1)) }"));
  EXPECT_FALSE(are_one(std::string(kMain) + "graph @more() in @g { return call @f(Relu(%y), Sub(%m, 1)) }"));
}

}  // namespace
}  // namespace anfora::ir
