// Runs that write to memory of the caller.
#include "plan_fixture.h"

namespace anfora::plan {
namespace {

class GivenOutputs : public PlanTest {
 protected:
  static Tensor room(std::vector<int64_t> shape) {
    Tensor tensor = Tensor::allocate(DType::F32, shape);
    std::ranges::fill(tensor.data<float>(), -77.0f);
    return tensor;
  }
  // Runs with and without memory given: the same bits, in that memory.
  static void expect_same(const runtime::Executable& executable, const std::vector<Datum>& inputs) {
    const std::vector<Datum> expected = executable.run(inputs);
    std::vector<Datum> outputs;
    std::vector<const void*> memory;
    for (const Datum& output : expected) {
      const Shape& shape = output.tensor().shape();
      outputs.push_back(room({shape.begin(), shape.end()}));
      memory.push_back(outputs.back().tensor().raw());
    }
    for (int run = 0; run < 3; ++run) {
      executable.run(inputs, outputs);
      for (size_t i = 0; i < outputs.size(); ++i) {
        EXPECT_EQ(outputs[i].tensor().raw(), memory[i]) << "output " << i;
        EXPECT_TRUE(Tensor::identical(outputs[i].tensor(), expected[i].tensor())) << "output " << i;
      }
    }
    // What a run without memory gives is its own again.
    const std::vector<Datum> again = executable.run(inputs);
    for (size_t i = 0; i < again.size(); ++i) {
      EXPECT_NE(again[i].tensor().raw(), memory[i]);
      EXPECT_TRUE(Tensor::identical(again[i].tensor(), expected[i].tensor())) << "output " << i;
    }
  }
};

TEST_F(GivenOutputs, OfKernels) {
  Node* x = parameter(main, DType::F32, {symbol("N"), dim(2)}, "x");
  Node* y = op(main, "Exp", {op(main, "Abs", {x})});
  Node* view = op(main, "Reshape", {op(main, "Neg", {y}), module.constant(Tensor::vector<int64_t>(std::vector<int64_t>{-1}))});
  Node* last = op(main, "Relu", {op(main, "Sub", {y, x})});
  const runtime::Executable executable = finish(tuple(main, {y, view, last}));
  expect_same(executable, {room({3, 2})});
  expect_same(executable, {room({1, 2})});
}

TEST_F(GivenOutputs, OfNoKernel) {
  Node* x = parameter(main, DType::F32, {dim(3)}, "x");
  Node* y = op(main, "Neg", {x});
  expect_same(finish(tuple(main, {x, y, y, constant({1, 2}), op(main, "Reshape", {y, module.constant(Tensor::vector<int64_t>(std::vector<int64_t>{3, 1}))})})),
              {vector({1, -2, 3})});
}

TEST_F(GivenOutputs, OfFunctions) {
  Graph* both = module.make_graph("both");
  Node* p = parameter(both, DType::F32, {dim(2)}, "p");
  module.set_result(both, tuple(both, {op(both, "Neg", {p}), p}));
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  Node* called = call(main, both->value(), {op(main, "Abs", {x})});
  expect_same(finish(tuple(main, {module.tuple_item(main, called, 1), module.tuple_item(main, called, 0)})), {vector({1, -2})});
}

TEST_F(GivenOutputs, MustFit) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  const runtime::Executable executable = finish(op(main, "Neg", {x}));
  auto error = [&](Datum output) -> std::string {
    try {
      std::vector<Datum> outputs{std::move(output)};
      executable.run(std::vector<Datum>{vector({1, 2})}, outputs);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(error(room({2})), "none");
  EXPECT_EQ(error({}), "none");
  EXPECT_NE(error(room({3})).find("output 'out0' is f32[2], the memory given for it f32[3]"), std::string::npos) << error(room({3}));
  EXPECT_NE(error(room({2, 1})).find("f32[2x1]"), std::string::npos) << error(room({2, 1}));
  EXPECT_NE(error(integer(3)).find("i64"), std::string::npos);
  EXPECT_THROW(executable.run(std::vector<Datum>{vector({1, 2})}, std::span<Datum>()), Error);
}

}  // namespace
}  // namespace anfora::plan
