#include "support/attribute.h"

#include <gtest/gtest.h>

#include "ir/context.h"
#include "support/element_types.h"

namespace anfora {
namespace {

// Each call makes its own vectors and tensors.
AttributeSet every_kind() {
  float third[] = {1.0f / 3};
  Tensor tensor = Tensor::vector<float>(third);
  return {{"int", int64_t{1}},
          {"float", 0.5f},
          {"string", std::string("a string too long to be stored in place")},
          {"tensor", tensor.clone()},
          {"ints", std::vector<int64_t>{1, 2, 3}},
          {"floats", std::vector<float>{0.5f, -0.0f}},
          {"strings", std::vector<std::string>{"a", "b"}},
          {"tensors", std::vector<Tensor>{tensor.clone(), tensor.clone()}}};
}

TEST(AttributeSet, EqualSetsHaveEqualHashesAndAreOneInAContext) {
  EXPECT_TRUE(every_kind() == every_kind());
  EXPECT_EQ(every_kind().hash(), every_kind().hash());
  ir::Context context;
  EXPECT_EQ(context.attributes(every_kind()), context.attributes(every_kind()));
}

TEST(AttributeSet, DifferentSets) {
  ir::Context context;
  const AttributeSet* set = context.attributes(every_kind());
  EXPECT_NE(context.attributes(every_kind().with("ints", std::vector<int64_t>{1, 2})), set);
  EXPECT_NE(context.attributes(every_kind().with("ints", std::vector<int64_t>{3, 2, 1})), set);
  EXPECT_NE(context.attributes(every_kind().with("floats", std::vector<float>{0.5f, 0.0f})), set);
  EXPECT_NE(context.attributes(every_kind().with("int", 1.0f)), set);
  EXPECT_NE(context.attributes(every_kind().without("int")), set);
}

}  // namespace
}  // namespace anfora
