#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plan_fixture.h"

namespace anfora::plan {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(PlanTest, InputsAreChecked) {
  Node* x = parameter(main, DType::F32, {symbol("N"), dim(2)}, "pixels");
  Node* y = parameter(main, DType::F32, {symbol("N")}, "weights");
  auto model = finish(tuple(main, {op(main, "Neg", {x}), op(main, "Neg", {y})}));
  Datum good = Tensor::zeros(DType::F32, Shape{3, 2}), weights = Tensor::zeros(DType::F32, Shape{3});
  auto error = [&](runtime::NamedData data) { return message_of([&] { model.run(std::move(data)); }); };

  EXPECT_EQ(error({{"pixels", good}, {"weights", weights}}), "no error");
  EXPECT_EQ(error({{"pixel", good}, {"weights", weights}}), "the model has no input 'pixel' (did you mean 'pixels'?)");
  EXPECT_EQ(error({{"image", good}}), "the model has no input 'image' (its inputs: pixels, weights)");
  EXPECT_EQ(error({{"pixels", good}, {"pixels", good}}), "input 'pixels' is given twice");
  EXPECT_EQ(error({{"pixels", good}}), "input 'weights' (f32[N]) is missing");
  EXPECT_EQ(error({{"pixels", Tensor::zeros(DType::F64, Shape{3, 2})}, {"weights", weights}}),
            "input 'pixels' is f64[3x2], the model takes f32[N, 2] (convert it to f32)");
  EXPECT_EQ(error({{"pixels", weights}, {"weights", weights}}),
            "input 'pixels' is f32[3], the model takes f32[N, 2] (it must have 2 dimensions)");
  EXPECT_EQ(error({{"pixels", Tensor::zeros(DType::F32, Shape{3, 4})}, {"weights", weights}}),
            "input 'pixels' is f32[3x4], the model takes f32[N, 2] (dimension 1 must be 2)");
  EXPECT_EQ(error({{"pixels", good}, {"weights", Tensor::zeros(DType::F32, Shape{4})}}),
            "input 'weights' is f32[4], the model takes f32[N] (dimension 0 must be 3: N is 3 by input 'pixels'; a compiled model takes one size for a name)");
  EXPECT_EQ(message_of([&] { model.run({good, weights, good}); }), "3 inputs given, the model takes 2");
}

TEST_F(PlanTest, DefaultsOfInputs) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  Node* y = parameter(main, DType::F32, {dim(2)}, "y");
  module.set_default(y->as_parameter(), module.constant(Tensor::vector<float>(std::vector<float>{1, 2})));
  auto model = finish(op(main, "Add", {x, y}));
  EXPECT_EQ(floats(model.run({{"x", vector({1, 1})}})[0]), (std::vector<float>{2, 3}));
  EXPECT_EQ(floats(model.run({{"x", vector({1, 1})}, {"y", vector({5, 5})}})[0]), (std::vector<float>{6, 6}));
}

TEST_F(PlanTest, OperatorsWithoutKernel) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  const ir::Operator* fused = context->operator_or_unknown("com.example", "FusedConv");
  Node* y = module.apply(main, *fused, {x}, {}, 1, module.location({.file = "model.onnx", .name = "fc", .index = 3}), "y");
  auto model = finish(y);
  EXPECT_EQ(model.missing_kernels(), (std::vector<std::string>{describe(*y)}));
  std::string message = message_of([&] { model.run({vector({1, 2})}); });
  EXPECT_NE(message.find("no kernel for com.example::FusedConv"), std::string::npos) << message;
  EXPECT_NE(message.find("model.onnx"), std::string::npos) << message;
}

TEST_F(PlanTest, ErrorsOfKernelsNameTheNode) {
  Node* x = parameter(main, DType::F32, {symbol("N")}, "x");
  Node* shape = parameter(main, DType::I64, {dim(1)}, "shape");
  Node* y = module.apply(main, context->get_operator("Reshape"), {x, shape}, {}, 1,
                         module.location({.file = "model.onnx", .name = "flatten", .index = 7}), "y");
  auto model = finish(op(main, "Neg", {y}));
  std::string message =
      message_of([&] { model.run({vector({1, 2}), Tensor::vector<int64_t>(std::vector<int64_t>{3})}); });
  EXPECT_NE(message.find("flatten"), std::string::npos) << message;
  EXPECT_NE(message.find("node 7"), std::string::npos) << message;
  EXPECT_EQ(floats(model.run({vector({1, 2}), Tensor::vector<int64_t>(std::vector<int64_t>{2})})[0]),
            (std::vector<float>{-1, -2}));
}

TEST_F(PlanTest, RandomStateIsSeeded) {
  Node* x = op(main, "RandomNormal", {}, {{"shape", std::vector<int64_t>{8}}});
  auto model = finish(op(main, "Add", {x, op(main, "RandomNormal", {}, {{"shape", std::vector<int64_t>{8}}})}));
  auto draw = [&](std::optional<uint64_t> seed) {
    runtime::RunOptions options;
    options.seed = seed;
    return floats(model.run(std::vector<Datum>{}, options)[0]);
  };
  auto first = draw(1), second = draw(std::nullopt);
  EXPECT_NE(first, second);
  EXPECT_EQ(draw(1), first);
  EXPECT_EQ(draw(std::nullopt), second);
  EXPECT_NE(draw(2), first);
}

TEST_F(PlanTest, PreparedKernelsComeFirstAndAreNamedInTheTrace) {
  Node* x = parameter(main, DType::F32, {symbol("N"), dim(2)}, "x");
  auto prepare = [](kernels::KernelData& request) -> std::unique_ptr<kernels::PreparedKernel> {
    struct Subtract : kernels::PreparedKernel {
      explicit Subtract(float by) : by(by) {}
      void run(kernels::KernelContext& context, State*) const override {
        const Tensor& input = context.input(0);
        auto output = context.allocate_output(0, DType::F32, input.shape()).data<float>();
        for (size_t i = 0; i < output.size(); ++i) output[i] = input.data<float>()[i] - by;
      }
      float by;
    };
    const kernels::InputDescription& by = request.input(1);
    EXPECT_EQ(request.input(0).shape, (Shape{-1, 2}));
    EXPECT_FALSE(request.input(2).present);
    return by.constant.defined() && by.constant.size() == 1 ? std::make_unique<Subtract>(by.constant.data<float>()[0]) : nullptr;
  };
  kernels::PreparedRegistry registry;
  registry.add("Sub", "test:subtract", prepare);
  CompileOptions options;
  options.prepared = {&registry};
  Node* y = op(main, "Sub", {x, constant({3})});
  auto model = finish(op(main, "Sub", {y, constant({1, 2})}), options);

  runtime::Profiler profiler;
  runtime::RunOptions run_options;
  run_options.profiler = &profiler;
  auto outputs = model.run(std::vector<Datum>{Tensor::zeros(DType::F32, Shape{1, 2})}, run_options);
  EXPECT_EQ(floats(outputs[0]), (std::vector<float>{-4, -5}));

  std::string path = testing::TempDir() + "/anfora_trace.json";
  profiler.write_trace(path);
  auto trace = nlohmann::json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  std::vector<std::string> implementations;
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "kernel") continue;
    EXPECT_EQ(event["name"], "Sub");
    EXPECT_EQ(event["args"]["outputs"], "f32[1x2]");
    implementations.push_back(event["args"]["implementation"]);
  }
  EXPECT_EQ(implementations, (std::vector<std::string>{"test:subtract", "reference"}));
  EXPECT_EQ(profiler.totals().size(), 2u);
}

}  // namespace
}  // namespace anfora::plan
