#include "ir/builder.h"

#include <gtest/gtest.h>

#include "anfora/error.h"
#include "ir/isomorphic.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "ops/registry.h"

namespace anfora::ir {
namespace {

TEST(Builder, BuildsWhatTheTextSays) {
  auto context = ops::make_context();
  Module module(*context);
  Builder main(module, "main");
  Node* x = main.parameter("f32[N, 4]", "x");
  Node* c = main.parameter("bool[]", "c");
  Node* y = main("Softmax", {main("MatMul", {x, main.tensor<float>({4, 1}, {1, 0, 0, 1})})}, {{"axis", 1}});
  Apply* top = main.named("top", main("TopK", {y, main.vector<int64_t>({1})}, {{"axis", -1}}, 2));
  Builder positive = main.function("positive"), negative = main.function("negative");
  positive.returns(positive("Sqrt", {x}));
  negative.returns(negative("Neg", {x}));
  Node* r = main.call(main.choose(c, positive, negative));
  main.returns({r, main.item(top, 1)});

  EXPECT_EQ(module.main(), main.graph());
  for (const Violation& v : verify(module)) ADD_FAILURE() << to_string(v);
  EXPECT_EQ(difference(module, *parse(*context, R"(
    graph @main(%x: f32[N, 4], %c: bool[]) {
      %p = Softmax(MatMul(%x, f32[4, 1] [[1.0], [0.0], [0.0], [1.0]])){axis=1}
      %top = TopK:2(%p, [1]){axis=-1}
      return (call Switch(%c, @positive, @negative)(), %top[1])
    }
    graph @positive() in @main { return Sqrt(%x) }
    graph @negative() in @main { return Neg(%x) })")),
            "");
}

TEST(Builder, KindsOfAttributes) {
  auto context = ops::make_context();
  Module module(*context);
  Builder main(module, "main");
  Node* x = main.parameter("f32[1, 1, 8, 8]");
  Apply* node = main("Conv", {x, x}, {{"pads", {1, 1, 1, 1}}, {"auto_pad", "NOTSET"}, {"group", 1}});
  EXPECT_EQ(node->attributes().get_ints("pads"), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(node->attributes().get_string("auto_pad", ""), "NOTSET");
  EXPECT_EQ(node->attributes().get_int("group", 0), 1);
  EXPECT_EQ(main("LeakyRelu", {x}, {{"alpha", 0.5f}})->attributes().get_float("alpha", 0), 0.5f);
  EXPECT_THROW(main("NoSuchOperator", {x}), Error);
}

}  // namespace
}  // namespace anfora::ir
