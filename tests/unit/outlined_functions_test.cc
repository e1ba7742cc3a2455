// Repeated code that becomes functions, and what must stay.
#include <gtest/gtest.h>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "ir/clone.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"

namespace anfora {
namespace {

class OutlinedFunctions : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;

  // The number of functions that are made of a module, which computes the same then.
  size_t outline(std::string_view text, bool everywhere = true) {
    module = ir::parse(*context, text);
    analysis::infer_types(*module);
    auto before = ir::clone(*module);
    const size_t count = pipeline::run_pass("outline", *module, {.outline = everywhere});
    ir::verify_or_throw(*module);
    std::vector<Datum> inputs;
    for (const ir::Parameter* p : before->main()->parameters()) {
      auto shape = *p->type()->static_shape();
      Tensor tensor = Tensor::allocate(DType::F32, shape);
      auto elements = tensor.data<float>();
      for (size_t i = 0; i < elements.size(); ++i) elements[i] = 0.1f * static_cast<float>(i) - 0.3f;
      inputs.emplace_back(tensor);
    }
    auto want = analysis::interpret(*before, inputs), got = analysis::interpret(*module, inputs);
    EXPECT_EQ(want.size(), got.size());
    for (size_t i = 0; i < std::min(want.size(), got.size()); ++i) {
      EXPECT_TRUE(Tensor::identical(want[i].tensor(), got[i].tensor())) << "result " << i;
    }
    return count;
  }
};

// A chain of blocks: each is what is between the braces, of %x and %y.
std::string chain(std::string_view block, int count, std::string_view result = "%x{}") {
  std::string text = "graph @main(%x0: f32[4], %z: f32[4]) {\n";
  auto put = [&](std::string line, int i) {
    for (auto [from, to] : {std::pair(std::string("%in"), "%x" + std::to_string(i)),
                            std::pair(std::string("%out"), "%x" + std::to_string(i + 1)),
                            std::pair(std::string("{}"), std::to_string(i))}) {
      for (size_t at = 0; (at = line.find(from, at)) != std::string::npos; at += to.size())
        line.replace(at, from.size(), to);
    }
    text += line;
  };
  for (int i = 0; i < count; ++i) put(std::string(block), i);
  text += "return ";
  put(std::string(result), count);
  return text + "\n}";
}

constexpr std::string_view kBlock = R"(
  %a{} = Sin(%in)
  %b{} = Cos(%a{})
  %c{} = Softsign(%b{})
  %d{} = Mul(%c{}, f32[4] [{}.0, 1.0, 2.0, 3.0])
  %e{} = Atan(%d{})
  %f{} = Erf(%e{})
  %out = Add(%f{}, %in)
)";

TEST_F(OutlinedFunctions, LayersThatStandOnEachOther) {
  EXPECT_EQ(outline(chain(kBlock, 5)), 1u);
  EXPECT_EQ(module->graphs().size(), 2u);
  EXPECT_EQ(module->main()->num_nodes(), 6u);               // calls and the return
  EXPECT_EQ(module->graphs()[1]->parameters().size(), 2u);  // what comes in, and the weights
}

TEST_F(OutlinedFunctions, NotWithoutBeingAsked) { EXPECT_EQ(outline(chain(kBlock, 5), false), 0u); }

TEST_F(OutlinedFunctions, NotWhatIsTooSmall) {
  EXPECT_EQ(outline("graph @main(%x: f32[4]) { return Add(Sin(Cos(%x)), Sin(Cos(Neg(%x)))) }"), 0u);
}

TEST_F(OutlinedFunctions, ValuesInsideThatAreReadOutsideAreResults) {
  EXPECT_EQ(outline(chain(kBlock, 4, "Add(Add(%c0, %c1), Add(%c2, Add(%c3, %x{})))")), 1u);
  EXPECT_TRUE(module->graphs()[1]->result()->as(ir::Primitive::MakeTuple));
}

// What the second half of a block reads depends on its first half by way of something that only one block has.
TEST_F(OutlinedFunctions, NoCallWaitsForItself) {
  constexpr std::string_view half = R"(
  %a{} = Sin(%in)
  %b{} = Cos(%a{})
  %c{} = Softsign(%b{})
  %d{} = Atan(%c{})
)";
  std::string text = "graph @main(%x0: f32[4], %z: f32[4]) {\n";
  for (int i = 0; i < 4; ++i) {
    std::string line(half);
    for (auto [from, to] :
         {std::pair(std::string("%in"), "%x" + std::to_string(i)), std::pair(std::string("{}"), std::to_string(i))}) {
      for (size_t at = 0; (at = line.find(from, at)) != std::string::npos; at += to.size())
        line.replace(at, from.size(), to);
    }
    const std::string n = std::to_string(i);
    const std::string between[] = {"Neg(%b0)", "Abs(%b1)", "Exp(%b2)", "Relu(%b3)"};
    text += line + "%m" + n + " = " + between[i] + "\n%e" + n + " = Mul(%d" + n + ", %m" + n + ")\n%f" + n +
            " = Erf(%e" + n + ")\n%x" + std::to_string(i + 1) + " = Tan(%f" + n + ")\n";
  }
  outline(text + "return %x4\n}");
}

TEST_F(OutlinedFunctions, ShapesThatDifferAreNoParameters) {
  constexpr std::string_view text = R"(
graph @main(%x: f32[4], %z: f32[4]) {
  %a = Erf(Atan(Reshape(Softsign(Cos(Sin(%x))), i64[2] [2, 2])))
  %b = Erf(Atan(Reshape(Softsign(Cos(Sin(%z))), i64[2] [4, 1])))
  return (%a, %b)
})";
  EXPECT_EQ(outline(text), 0u);
}

// Random numbers are drawn in their order.
TEST_F(OutlinedFunctions, EffectsStay) {
  constexpr std::string_view block = R"(
  %a{} = Sin(RandomNormalLike(%in){seed=1.0})
  %b{} = Cos(%a{})
  %out = Add(%b{}, %in)
)";
  outline(chain(block, 4));
  for (const ir::Graph* graph : module->graphs()) {
    if (graph == module->main()) continue;
    for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph())
      EXPECT_FALSE(node->is("RandomNormalLike"));
  }
}

}  // namespace
}  // namespace anfora
