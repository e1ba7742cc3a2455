// What a person reads who made a mistake in a text: the place, what was expected, what was found, and a hint.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "anfora/error.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora {
namespace {

// "place: message (hint)" of the error that parsing gives.
std::string error_of(std::string_view text) {
  static auto context = ops::make_context();
  try {
    ir::parse(*context, text, {.file = "a.ir"});
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::InvalidModel);
    return fmt::format("{}: {}{}", e.location(), e.message(), e.hint().empty() ? "" : fmt::format(" ({})", e.hint()));
  }
  return "no error";
}
// The same for the only statement of a graph, which begins at a.ir:2:1.
std::string statement_error(std::string_view statement) {
  return error_of(fmt::format("graph @main(%x: f32[2]) {{\n{}\n}}", statement));
}

TEST(TextErrors, NamesThatAreNotThere) {
  EXPECT_EQ(statement_error("%y = Rellu(%x)"), "a.ir:2:6: there is no operator Rellu (did you mean 'Relu'?)");
  EXPECT_EQ(statement_error("%y = Frobnicate(%x)"),
            "a.ir:2:6: there is no operator Frobnicate (an operator that is not declared "
            "is written with its domain, ai.onnx::Frobnicate)");
  EXPECT_EQ(statement_error("return %input"), "a.ir:2:8: %input is not defined");
  EXPECT_EQ(statement_error("return call @mian()"), "a.ir:2:13: there is no graph @mian (did you mean 'main'?)");
  EXPECT_EQ(error_of("module { produced = \"x\" }"),
            "a.ir:1:10: expected a property of the module or '}', found 'produced' (did you mean 'producer'?)");
}

TEST(TextErrors, DefinedTwice) {
  EXPECT_EQ(error_of("graph @f() {}\ngraph @f() {}"), "a.ir:2:7: graph @f is defined twice");
  EXPECT_EQ(error_of("graph @f() in @g {}\ngraph @g() in @f {}").substr(0, 4), "a.ir");
  EXPECT_EQ(statement_error("%y = Relu{a=1, a=2}(%x)"), "a.ir:2:16: attribute 'a' is given twice");
}

TEST(TextErrors, Constants) {
  EXPECT_EQ(statement_error("return i8[] 128"), "a.ir:2:13: 128 is out of the range of i8");
  EXPECT_EQ(statement_error("return f16[] 1e9"), "a.ir:2:14: 1e9 is out of the range of f16");
  EXPECT_EQ(statement_error("return f32[2] [1.0, 2.0, 3.0]"), "a.ir:2:15: expected elements of shape 2, found 3");
  EXPECT_EQ(statement_error("return [[1, 2], [3]]"), "a.ir:2:20: rows have different lengths");
  EXPECT_EQ(statement_error("return bool[] 1"), "a.ir:2:15: this is not a value of bool");
  EXPECT_EQ(statement_error("return f32[N] 1.0"), "a.ir:2:11: the shape of a constant has only integers");
  EXPECT_EQ(statement_error("return f32[100] <#00000000000000000000000000000000>"),
            "a.ir:2:19: the text names a constant of another file, and no such file was given");
  EXPECT_EQ(statement_error("return f32[4611686018427387904, 4] 1.0").substr(0, 10), "a.ir:2:11:");
}

TEST(TextErrors, Syntax) {
  EXPECT_EQ(error_of("grahp @main() {}"),
            "a.ir:1:1: expected 'graph', found 'grahp' (a text is a list of graphs: graph @main(%x) { return %x })");
  EXPECT_EQ(error_of("graph @main("),
            "a.ir:1:13: expected '%' before the name of a parameter, found the end of the text");
  EXPECT_EQ(statement_error("return (%x)"), "a.ir:2:11: expected ',', found ')' (a tuple of one is written (%a,))");
  EXPECT_EQ(statement_error("%y = %x"),
            "a.ir:2:6: expected an application or a constant (a label is defined by Operator(%a, %b), "
            "call @f(%a), %tuple[0], (%a, %b) or const)");
  EXPECT_EQ(statement_error("return \"open"),
            "a.ir:2:8: this string has no closing quote (a line break within a string is written \\n)");
  EXPECT_EQ(statement_error("%y = Relu(%x) : f33[2]").substr(0, 40), "a.ir:2:17: expected a type, found 'f33' ");
  EXPECT_EQ(statement_error("return " + std::string(300, '(')).substr(0, 52),
            "a.ir:2:208: brackets are nested more than 200 deep");
}

}  // namespace
}  // namespace anfora
