// Every declared operator can be run, or says that it cannot.
#include <gtest/gtest.h>

#include "ops/registry.h"

namespace anfora {
namespace {

TEST(Operators, HaveAReferenceKernel) {
  auto context = ops::make_context();
  for (const ir::Operator* op : context->operators()) {
    if (op->primitive != ir::Primitive::Operation || op->kernel.empty()) continue;
    EXPECT_NE(ops::reference_kernel(*op), nullptr) << op->qualified << " names the kernel " << op->kernel;
  }
}

}  // namespace
}  // namespace anfora
