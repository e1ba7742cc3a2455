// The library of ONNX Runtime's operators: all of it is valid, and no operator lacks a meaning.
#include "ir/library.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "anfora/error.h"
#include "dialects/microsoft/library.h"
#include "ir/isomorphic.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "rewrite/instantiate.h"

namespace anfora::ir {
namespace {

TEST(Library, FunctionsAreValid) {
  auto context = ops::make_context();
  Library library(*context, microsoft::library_files());
  for (Module* module : library.read_all()) {
    for (Graph* graph : module->graphs()) {
      if (graph->parent()) continue;
      module->set_main(graph);
      verify_or_throw(*module);
      EXPECT_NO_THROW(analysis::infer_types(*module)) << graph->name();
    }
  }
}

TEST(Library, AttributesThatAreOperandsAreDeclared) {
  auto context = ops::make_context();
  Library library(*context, microsoft::library_files());
  for (Module* module : library.read_all()) {
    for (const Graph* graph : module->graphs()) {
      for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (!node->is(kWithAttributes)) continue;
        const Operator& op = context->get_operator(node->attributes().get_string("operator", ""));
        for (const std::string& name : node->attributes().get_strings("names")) {
          EXPECT_NE(op.find_attribute(name), nullptr) << op.qualified << " has no " << name << ", @" << graph->name();
        }
      }
    }
  }
}

// But those that have a kernel, that are loops (frontend/onnx/lower_search.h), or take any number of operands (passes/expand.cc).
TEST(Library, EveryOperatorHasAMeaning) {
  constexpr std::string_view kElsewhere[] = {"com.microsoft::BeamSearch", "com.microsoft::GreedySearch",
                                             "com.microsoft::QLinearConcat"};
  auto context = ops::make_context();
  Library library(*context, microsoft::library_files());
  for (const Operator* op : context->operators()) {
    if (!op->domain.starts_with("com.microsoft") || !op->kernel.empty()) continue;
    const bool is_elsewhere = std::ranges::count(kElsewhere, op->qualified) > 0;
    EXPECT_EQ(library.find(*op) == nullptr, is_elsewhere) << op->qualified;
  }
}

TEST(Library, AChoiceIsACallOfASwitch) {
  auto context = ops::make_context();
  auto choice = parse(*context, R"(graph @main(%c: bool[], %x: f32[2]) {
    %y = if %c { return Exp(%x) } else if Not(%c) { return %x } else { return unreachable "no other" }
    return Neg(%y)
  })");
  auto plain = parse(*context, R"(graph @main(%c: bool[], %x: f32[2]) { return Neg(call Switch(%c, @f, @g)()) }
    graph @f() in @main { return Exp(%x) }
    graph @g() in @main { return call Switch(Not(%c), @h, @i)() }
    graph @h() in @g { return %x }
    graph @i() in @g { return Unreachable(){reason="no other"} })");
  EXPECT_TRUE(isomorphic(*choice, *plain));
  EXPECT_EQ(print(*parse(*context, print(*choice))), print(*choice));
}

TEST(Library, ErrorsSayThePlace) {
  auto context = ops::make_context();
  const Library::File files[] = {{"own.ir", "module { domain = \"com.microsoft\" }\n\ngraph @Gelu(%x) { return Gelo(%x) }\n"},
                                 {"shared.ir", "graph @unused(%x) { return %x }\n"}};
  try {
    Library library(*context, files);
    library.find(context->get_operator("com.microsoft::Gelu"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("own.ir:3:"), std::string::npos) << error.what();
  }
}

// In the loop, the size of %all is not the one before the loop, by which choices inside would be made.
TEST(Library, SizesThatALoopChangesAreNotThoseBeforeIt) {
  auto context = ops::make_context();
  const Library::File files[] = {{"own.ir", R"(module { domain = "com.microsoft" }

graph @Gelu(%x) { return call @grown(%x, 0, %x) }
graph @grown(%x, %i, %all) {
  return if AtRun(Less(%i, 3)) { return call @grown(%x, Add(%i, 1), Concat(%all, %all){axis=0}) }
    else { return Mul(%x, CastLike(Gather(Shape(%all), 0), %x)) }
}
)"}};
  Library library(*context, files);
  auto module = parse(*context, "graph @main(%x: f32[3]) { return com.microsoft::Gelu(%x) }");
  analysis::Inference inference(*module);
  inference.run();
  Apply* root = module->main()->result()->as_apply();
  rewrite::Rewriter rewriter(*module, inference);
  rewriter.set_root(*root);
  rewrite::Instance instance(library, rewriter, *library.find(root->op()), root->attributes());
  module->replace(root, instance.result());
  module->erase(root);
  rewriter.discard_made();
  verify_or_throw(*module);
  analysis::infer_types(*module);
  const std::vector<Datum> inputs{Tensor::from<float>(Shape{3}, std::vector<float>{1, -2, 0})};
  const Tensor result = analysis::interpret(*module, inputs)[0].tensor();
  EXPECT_EQ(result.data<float>()[0], 24);
  EXPECT_EQ(result.data<float>()[1], -48);
}

}  // namespace
}  // namespace anfora::ir
