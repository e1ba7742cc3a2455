// A run into given outputs allocates nothing, once two runs have shown what it takes.
#include <gtest/gtest.h>

#include <vector>

#include "analysis/infer.h"
#include "count.h"
#include "driver/model.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "plan/compile.h"

namespace anfora {
namespace {

constexpr int kWarmUp = 2, kCounted = 3;

struct Case {
  const char* name;
  std::vector<Shape> inputs;  // f32
  const char* text;
};
void PrintTo(const Case& model, std::ostream* out) { *out << model.name; }

Tensor ramp(const Shape& shape, float start) {
  Tensor tensor = Tensor::allocate(DType::F32, shape);
  for (float value = start; float& element : tensor.data<float>()) {
    element = value;
    value = value > 1 ? -1 : value + 0.0625f;
  }
  return tensor;
}

class Allocations : public testing::TestWithParam<Case> {
 protected:
  void expect_none(const runtime::Executable& executable) {
    std::vector<Datum> inputs;
    for (const Shape& shape : GetParam().inputs) inputs.push_back(ramp(shape, -0.5f - static_cast<float>(inputs.size())));
    const std::vector<Datum> expected = executable.run(inputs);
    std::vector<Datum> outputs;
    for (const Datum& output : expected) outputs.push_back(Tensor::zeros(output.tensor().dtype(), output.tensor().shape()));
    for (int run = 0; run < kWarmUp; ++run) executable.run(inputs, outputs);
    const size_t count = count_allocations([&] {
      for (int run = 0; run < kCounted; ++run) executable.run(inputs, outputs);
    });
    EXPECT_EQ(count, 0) << "in " << kCounted << " runs";
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(Tensor::identical(outputs[i].tensor(), expected[i].tensor()));
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
};

TEST_P(Allocations, None) {
  for (int threads : {1, 2}) {
    SCOPED_TRACE(threads);
    expect_none(driver::compile_module(std::move(*ir::parse(*context, GetParam().text)), {.threads = threads}));
  }
}

class ReferenceAllocations : public Allocations {};

TEST_P(ReferenceAllocations, None) {
  std::unique_ptr<ir::Module> module = ir::parse(*context, GetParam().text);
  analysis::infer_types(*module);
  expect_none(plan::compile(*module, {.threads = 1, .reference_only = true}));
}

const std::vector<Case> kModels{
        Case{"Add", {{8}, {8}}, "graph @main(%x: f32[8], %y: f32[8]) { return Add(%x, %y) }"},
        Case{"Elementwise", {{2, 3, 8}, {3, 1}}, R"(
          graph @main(%x: f32[N, 3, 8], %y: f32[3, 1]) {
            %0 = Sigmoid(Mul(Exp(%x), Sub(%x, %y)))
            return (Where(Greater(%x, %0), %0, Tanh(%x)), Clip(%0, -0.25, 0.5), Pow(Abs(%x), 1.5), Cast(%x){to=7})
          })"},
        Case{"Dense", {{4, 16}}, R"(
          graph @main(%x: f32[N, 16]) {
            %w = const f32[16, 32] 0.25
            %v = const f32[32, 8] 0.125
            %b = const f32[32] 0.5
            %0 = Relu(Add(MatMul(%x, %w), %b))
            return (Gemm(%0, %v), Softmax(MatMul(%0, %v)))
          })"},
        Case{"DynamicProduct", {{4, 16}, {16, 4}}, R"(
          graph @main(%x: f32[N, K], %y: f32[K, M]) { return Softmax(MatMul(%x, %y)) })"},
        Case{"Convolution", {{1, 3, 16, 16}}, R"(
          graph @main(%x: f32[1, 3, 16, 16]) {
            %k = const f32[8, 3, 3, 3] 0.0625
            %p = const f32[8, 8, 1, 1] 0.125
            %0 = Relu(Conv(%x, %k){pads=[1, 1, 1, 1]})
            %1 = Add(Conv(%0, %p), %0)
            return (MaxPool(%1){kernel_shape=[2, 2], strides=[2, 2]}, GlobalAveragePool(%1), ReduceMean(%1, [2, 3]))
          })"},
        Case{"TransformedConvolution", {{1, 32, 40, 36}}, R"(
          graph @main(%x: f32[1, 32, 40, 36]) {
            %k = const f32[32, 32, 3, 3] 0.0625
            %0 = Relu(Conv(%x, %k){pads=[1, 1, 1, 1]})
            %1 = Swish(Conv(%0, %k))
            return Conv(MaxPool(%1){kernel_shape=[3, 3], strides=[3, 3]}, %k){pads=[1, 1, 1, 1]}
          })"},
        Case{"ConvolutionOfAnySize", {{2, 3, 9, 7}}, R"(
          graph @main(%x: f32[N, 3, H, W]) {
            %k = const f32[4, 3, 3, 3] 0.0625
            return AveragePool(Relu(Conv(%x, %k){pads=[1, 1, 1, 1]})){kernel_shape=[2, 2]}
          })"},
        Case{"LayerNormalization", {{2, 5, 16}}, R"(
          graph @main(%x: f32[N, S, 16]) {
            %s = const f32[16] 1.5
            %b = const f32[16] 0.25
            %r = RMSNormalization(%x, %s)
            return (LayerNormalization(%x, %s, %b), %r)
          })"},
        Case{"Groups", {{48, 65}, {65}}, R"(
          graph @main(%x: f32[48, 65], %y: f32[65]) {
            %0 = Mul(Add(%x, %y), 0.5)
            %1 = Mul(Softmax(Where(Less(%0, 0.25), %0, %x)), %y)
            return (%0, Sigmoid(%1), ReduceMean(%1, [1]){keepdims=0})
          })"},
        Case{"Attention", {{2, 4, 6, 8}, {2, 4, 6, 8}, {2, 4, 6, 8}}, R"(
          graph @main(%q: f32[B, 4, S, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 8]) {
            %t = Transpose(%k){perm=[0, 1, 3, 2]}
            %p = Softmax(Mul(MatMul(%q, %t), 0.25))
            return (MatMul(%p, %v), Attention(%q, %k, %v){is_causal=1})
          })"},
        Case{"Movement", {{2, 3, 8}}, R"(
          graph @main(%x: f32[N, 3, 8]) {
            %0 = Transpose(%x){perm=[2, 0, 1]}
            %1 = Slice(%x, [1], [7], [2], [2])
            %2 = Concat(%1, %x){axis=2}
            %3 = Gather(%2, [2, 0]){axis=1}
            %4 = Pad(%3, [0, 1, 0, 0, 0, 2])
            %5 = Expand(Unsqueeze(%x, [0]), [2, 1, 1, 1])
            return (%0, Reshape(%4, [0, -1]), %5, Tile(%1, [1, 2, 1]))
          })"},
        Case{"Reductions", {{2, 3, 8}}, R"(
          graph @main(%x: f32[N, 3, 8]) {
            %t = TopK:2(%x, [2])
            return (ReduceSum(%x, [1]), ReduceMax(%x, [1]){keepdims=0}, ReduceL2(%x, [1]), ArgMax(%x){axis=2}, CumSum(%x, 2), %t[0])
          })"},
        Case{"Recurrence", {{5, 2, 4}}, R"(
          graph @main(%x: f32[5, 2, 4]) {
            %w = const f32[1, 32, 4] 0.125
            %r = const f32[1, 32, 8] 0.0625
            %y = LSTM:2(%x, %w, %r){hidden_size=8}
            return (%y[0], %y[1])
          })"},
        Case{"RecurrenceByReference", {{5, 2, 4}, {2, 2, 8}}, R"(
          graph @main(%x: f32[5, N, 4], %h: f32[2, N, 8]) {
            %w = const f32[2, 32, 4] 0.125
            %r = const f32[2, 32, 8] 0.0625
            %b = const f32[2, 64] 0.5
            %y = LSTM:3(%x, %w, %r, %b, _, %h, %h){hidden_size=8, direction="bidirectional", clip=2.0}
            %v = const f32[2, 24, 4] 0.125
            %s = const f32[2, 24, 8] 0.0625
            %z = GRU:2(%x, %v, %s, _, _, %h){hidden_size=8, direction="bidirectional", clip=2.0,
                activations=["HardSigmoid", "Softsign", "Sigmoid", "Tanh"]}
            %u = const f32[1, 8, 4] 0.125
            %t = const f32[1, 8, 8] 0.0625
            %o = RNN:1(%x, %u, %t){hidden_size=8, direction="reverse", activations=["LeakyRelu"]}
            return (%y[0], %y[1], %y[2], %z[0], %o)
          })"},
        Case{"Halves", {{2, 3, 9, 7}, {2, 4, 6, 8}}, R"(
          graph @main(%x: f32[N, 3, H, W], %q: f32[N, 4, S, 8]) {
            %k = const f16[4, 3, 3, 3] 0.0625
            %h = Cast(%x){to=10}
            %a = Cast(%q){to=10}
            %0 = Conv(%h, %k){pads=[1, 1, 1, 1]}
            %1 = MaxPool(%0){kernel_shape=[2, 2]}
            %2 = AveragePool(%0){kernel_shape=[2, 2]}
            return (%1, %2, Attention(%a, %a, %a))
          })"},
        Case{"Einsum", {{2, 3, 4}, {4, 3, 5}, {2, 3, 3}}, R"(
          graph @main(%x: f32[N, 3, K], %y: f32[K, 3, M], %z: f32[N, 3, 3]) {
            return (Einsum(%x, %y){equation="nik,kjm->ijnm"}, Einsum(%x, %y, %z){equation="nik,kjm,njj->imn"},
                    Einsum(%z){equation="...ii->i"}, Einsum(%x, %x){equation="...k,...k"})
          })"},
        Case{"Resize", {{1, 2, 6, 5}}, R"(
          graph @main(%x: f32[N, 2, H, W]) {
            %s = const f32[4] [1, 1, 2, 1.5]
            %l = Resize(%x, _, %s){mode="linear"}
            %c = Resize(%x, _, %s){mode="cubic", coordinate_transformation_mode="pytorch_half_pixel"}
            %n = Resize(%x, _, %s){nearest_mode="round_prefer_ceil"}
            return (%l, %c, %n)
          })"},
        Case{"Cache", {{2, 4, 1, 8}, {2, 4, 6, 8}}, R"(
          graph @main(%q: f32[B, 4, 1, 8], %k: f32[B, 4, P, 8]) {
            %y = Attention:3(%q, %q, %q, _, %k, %k)
            return (%y[0], %y[1], %y[2])
          })"},
        Case{"Loop", {{2, 8}}, R"(
          graph @main(%x: f32[N, 8]) { return call @loop(0, %x, Mul(%x, 0.5)) }
          graph @loop(%i, %v, %w) { return call Switch(Less(%i, 50), @body, @done)() }
          graph @body() in @loop {
            return call @loop(Add(%i, 1), Tanh(Add(%v, %w)), Mul(Sub(%w, %v), 0.75))
          }
          graph @done() in @loop { return (%v, Add(%v, %w)) })"},
        Case{"Doubling", {{3}}, R"(
          graph @main(%x: f32[N]) { return call @loop(Abs(%x)) }
          graph @loop(%v) {
            %again = Less(ReduceMax(%v){keepdims=0}, 100.0)
            %next = Switch(%again, @body, @done)
            return call %next()
          }
          graph @body() in @loop { return call @loop(Mul(%v, 2.0)) }
          graph @done() in @loop { return %v })"},
        Case{"Branches", {{2, 3}, {}}, R"(
          graph @main(%x: f32[2, 3], %c: f32[]) {
            %y = Exp(%x)
            return Neg(call Switch(Less(%c, 0.0), @f, @g)())
          }
          graph @f() in @main { return Softmax(%y) }
          graph @g() in @main { return MatMul(%y, Transpose(%x)) })"}};

// Lowered operators that oneDNN has no kernels for, whose attributes are read when they are prepared.
const std::vector<Case> kPrepared{
        Case{"LoweredByParts", {{2, 5, 4, 3}, {3, 3, 1, 1}, {3, 4}}, R"(
          graph @main(%x: f32[N, H, W, 3], %k: f32[3, 3, 1, 1], %w: f32[3, 4]) {
            %0 = Cast(%x){to=11}
            %1 = LoweredConv(%0, Cast(%k){to=11}, _, %0){channels_last=1, activation="Clip", activation_alpha=0.0, activation_beta=0.5}
            %2 = LoweredMatMul(Cast(%w){to=11}, %1){perm_a=[1, 0], perm_b=[0, 1, 3, 2], perm_y=[0, 3, 1, 2], alpha=0.5, activation="GeluTanh"}
            return (LoweredMaxPool(%1){channels_last=1, kernel_shape=[2, 2]}, %2)
          })"}};

constexpr auto kName = [](const testing::TestParamInfo<Case>& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Models, Allocations, testing::ValuesIn(kModels), kName);
INSTANTIATE_TEST_SUITE_P(Prepared, Allocations, testing::ValuesIn(kPrepared), kName);
INSTANTIATE_TEST_SUITE_P(Models, ReferenceAllocations, testing::ValuesIn(kModels), kName);

}  // namespace
}  // namespace anfora
