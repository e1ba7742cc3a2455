#include <gtest/gtest.h>

#include <array>

#include "ir/builder.h"
#include "ir/verify.h"
#include "ops/registry.h"

namespace anfora::ir {
namespace {

Tensor pair(float first, float second) { return Tensor::vector<float>(std::array{first, second}); }

// What nothing uses goes, memory and all, and equal elements are another constant afterwards.
TEST(ModuleConstants, UnusedOnesAreErased) {
  auto context = ops::make_context();
  Module module(*context);
  Builder main(module, "main");
  Node* x = main.parameter("f32[2]", "x");
  Tensor dead = pair(1, 2);
  const std::weak_ptr<void> memory = dead.owner();
  Node* once = module.constant(std::move(dead));
  Apply* sum = main("Add", {x, once});
  Value* other = module.constant(pair(3, 4));
  main.returns({main("Mul", {x, other})});
  module.erase_unused_constants();
  EXPECT_FALSE(memory.expired()) << "dead applications use it until they are erased";

  module.erase(sum);
  module.erase_unused_constants();
  EXPECT_TRUE(memory.expired());
  EXPECT_TRUE(once->is_erased());
  EXPECT_EQ(std::vector(module.constants().begin(), module.constants().end()), std::vector{other});
  EXPECT_EQ(module.constant(pair(3, 4)), other);
  EXPECT_NE(module.constant(pair(1, 2)), once);
  EXPECT_TRUE(verify(module).empty());
}

TEST(ModuleConstants, DefaultsOfParametersStay) {
  auto context = ops::make_context();
  Module module(*context);
  Builder main(module, "main");
  Node* x = main.parameter("f32[2]", "x");
  Value* value = module.constant(pair(1, 2));
  module.set_default(module.main()->parameter(0), value);
  main.returns({main("Relu", {x})});
  module.erase_unused_constants();
  EXPECT_EQ(module.default_of(module.main()->parameter(0)), value);
  EXPECT_EQ(value->tensor().data<float>()[1], 2);
}

}  // namespace
}  // namespace anfora::ir
