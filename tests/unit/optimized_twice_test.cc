// What is optimized, written and read comes out the same when it is optimized and written again, byte for byte.
#include "export_fixture.h"
#include "pipeline/pipeline.h"

namespace anfora {
namespace {

class OptimizedTwice : public ExportTest {
 protected:
  std::string optimized(ir::Module& module) {
    pipeline::optimize(module, {.passes = {.has_operator = onnx::expressible(module)}});
    return bytes_of(module);
  }
  // The module is optimized as it would be if a file said it, or as it is written here.
  void expect_settled(const std::string& text, bool from_file = true) {
    auto module = parse(text);
    if (from_file) module = import(bytes_of(*module));
    const std::string once = optimized(*module);
    auto again = import(once);
    EXPECT_EQ(optimized(*again), once) << ir::print(*again);
  }
};

TEST_F(OptimizedTwice, ResultsThatNobodyReads) {
  expect_settled(R"(
module { opset "" = 21  outputs = ["y"] }
graph @main(%x: f32[2, N, 8], %s: f32[8]) {
  %n = LayerNormalization:3(%x, %s)
  return Gather(%n[0], 0){axis=1}
})",
                 false);
}

TEST_F(OptimizedTwice, OneScaleInAVector) {
  expect_settled(R"(
module { opset "" = 10  outputs = ["y"] }
graph @main(%x: f32[N, 8, 4]) {
  return QuantizeLinear(Transpose(%x){perm=[0, 2, 1]}, [0.5], i8[1] [0])
})",
                 false);
}

}  // namespace
}  // namespace anfora
