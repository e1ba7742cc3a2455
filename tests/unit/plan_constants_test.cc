// What compiling does with the memory of constants.
#include "kernels/prepared.h"
#include "plan_fixture.h"
#include "run_kernel.h"

namespace anfora::plan {
namespace {

// A product that packs its constant weights whatever the processor.
class PackingProduct : public kernels::PreparedKernel {
 public:
  explicit PackingProduct(const Tensor& weights) : packed_(weights.clone()) {}
  void run(kernels::KernelContext& context, State*) const override {
    context.set_output(0, run_kernel("MatMul", {}, {context.input(0), packed_})[0]);
  }
  bool has_packed(size_t i) const override { return i == 1; }

 private:
  Tensor packed_;
};

CompileOptions packing() {
  static const kernels::PreparedRegistry registry = [] {
    kernels::PreparedRegistry packs;
    packs.add("MatMul", "packing",
              [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
                const Tensor& weights = data.input(1).constant;
                return weights.defined() ? std::make_unique<PackingProduct>(weights) : nullptr;
              });
    return packs;
  }();
  CompileOptions options;
  options.prepared = {&registry};
  return options;
}

class PlanConstants : public PlanTest {
 protected:
  static constexpr int64_t kSize = 64;

  Node* weights(float value) {
    Tensor tensor = Tensor::allocate(DType::F32, Shape{kSize, kSize});
    std::ranges::fill(tensor.data<float>(), value);
    tensor.data<float>()[1] = 1;
    watched.push_back(tensor.owner());
    return module.constant(std::move(tensor));
  }
  bool is_there(size_t i) const { return !watched[i].expired(); }

  // A product that is prepared, since all shapes are known.
  Node* product(Node* x, Node* w) { return op(main, "MatMul", {x, w}); }
  void set_result(Node* result) {
    module.set_result(main, result);
    module.set_main(main);
    module.output_names() = {"y"};
    analysis::infer_types(module);
  }
  static Datum input() {
    Tensor x = Tensor::allocate(DType::F32, Shape{8, kSize});
    for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = static_cast<float>(i % 7);
    return x;
  }

  std::vector<std::weak_ptr<void>> watched;
};

TEST_F(PlanConstants, AModuleThatIsKeptStaysUsable) {
  Node* x = parameter(main, DType::F32, {dim(8), dim(kSize)}, "x");
  set_result(product(x, weights(2)));
  runtime::Executable first = compile(module), second = compile(module);
  EXPECT_TRUE(is_there(0));
  EXPECT_EQ(first.run({input()})[0].tensor().data<float>()[0], second.run({input()})[0].tensor().data<float>()[0]);
  EXPECT_EQ(analysis::interpret(module, std::vector<Datum>{input()}).size(), 1u);
}

TEST_F(PlanConstants, PackedWeightsOfAModuleThatIsUsedUpAreGivenBack) {
  Node* x = parameter(main, DType::F32, {dim(8), dim(kSize)}, "x");
  Node *packed = weights(2), *read_too = weights(3), *shared = weights(4);
  weights(5);  // nobody uses it
  Node* y =
      op(main, "Add",
         {product(product(product(product(x, packed), shared), shared), read_too), op(main, "ReduceSum", {read_too})});
  set_result(y);
  runtime::Executable kept = compile(module, packing());
  const Tensor want = kept.run({input()})[0].tensor();
  const int64_t all = kept.memory().constant_bytes;
  kept = compile(std::move(module), packing());
  EXPECT_FALSE(is_there(0));
  EXPECT_TRUE(is_there(1));
  EXPECT_FALSE(is_there(2));
  EXPECT_FALSE(is_there(3));
  EXPECT_EQ(all - kept.memory().constant_bytes, 2 * kSize * kSize * 4);
  EXPECT_TRUE(Tensor::identical(kept.run({input()})[0].tensor(), want));
  EXPECT_NO_THROW(kept.run({input()}, {.threads = 1}));
}

TEST_F(PlanConstants, WeightsForShapesThatOnlyTheRunTellsAreKept) {
  Node* x = parameter(main, DType::F32, {symbol("N"), dim(kSize)}, "x");
  set_result(product(x, weights(2)));
  runtime::Executable model = compile(std::move(module));
  EXPECT_TRUE(is_there(0));
  model.run({input()});
  EXPECT_TRUE(is_there(0));
}

}  // namespace
}  // namespace anfora::plan
