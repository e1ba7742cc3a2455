// The public API: include/anfora/model.h on examples/models/mlp.onnx.
#include <gtest/gtest.h>

#include <fstream>

#include "anfora/model.h"
#include "onnx_writer.h"
#include "ops/registry.h"

namespace anfora {
namespace {

const std::filesystem::path kMlp = std::filesystem::path(ANFORA_EXAMPLES) / "models/mlp.onnx";

template <class F>
ErrorCode code_of(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::Internal;
}

TEST(ModelApi, DescribesInputsAndOutputs) {
  Model model = Model::load(kMlp);
  ASSERT_EQ(model.inputs().size(), 1u);
  ValueInfo x = model.inputs()[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.type, "f32[N, 4]");
  EXPECT_EQ(x.dtype, DType::F32);
  EXPECT_TRUE(x.has_rank);
  EXPECT_EQ(x.shape, (Shape{kUnknownSize, 4}));
  ASSERT_EQ(model.outputs().size(), 1u);
  EXPECT_EQ(model.outputs()[0].name, "y");
  EXPECT_EQ(model.outputs()[0].shape, (Shape{kUnknownSize, 3}));
}

TEST(ModelApi, OptimizesAndRunsWithTheSameResult) {
  Model plain = Model::load(kMlp), small = Model::load(kMlp);
  OptimizeReport report = small.optimize();
  EXPECT_EQ(report.operators_before, plain.num_operators());
  EXPECT_EQ(report.operators_after, small.num_operators());
  EXPECT_LT(report.operators_after, report.operators_before);

  Executable a = std::move(plain).compile({.threads = 1, .optimize = false});
  Executable b = std::move(small).compile();
  Tensor x = Tensor::from<float>(Shape{2, 4}, std::vector<float>{1, 1, 1, 1, -1, 0, 1, 2});
  Tensor want = a.run({{"x", x}}).at("y"), got = b.run({{"x", x}}).at("y");
  ASSERT_EQ(got.shape(), (Shape{2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 1e-6);
  EXPECT_NEAR(got.data<float>()[0], 0.19675837f, 1e-6);
}

// Channels are last inside, and the error tells the shapes of the model's own layout.
TEST(ModelApi, ErrorsTellShapesOfTheModel) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "two-convolutions.ir";
  std::ofstream(path) << R"(
    graph @main(%a: f32[1, 3, h, w], %b: f32[1, 3, p, q], %k: f32[8, 3, 3, 3]) {
      %first = Relu(Conv(%a, %k){pads=[1, 1, 1, 1]})
      %second = Conv(%b, %k){pads=[1, 1, 1, 1]}
      %sum = Add(%first, %second)
      return Sigmoid(%sum)
    })";
  Executable executable = Model::load(path).compile();
  auto zeros = [](Shape shape) { return Tensor::zeros(DType::F32, shape); };
  try {
    executable.run({{"a", zeros({1, 3, 6, 7})}, {"b", zeros({1, 3, 4, 5})}, {"k", zeros({8, 3, 3, 3})}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.node(), "Add 'sum'");
    EXPECT_NE(error.message().find("1x8x6x7"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("1x8x4x5"), std::string::npos) << error.what();
  }
}

TEST(ModelApi, SavedModelsComputeTheSame) {
  const Tensor x = Tensor::from<float>(Shape{1, 4}, std::vector<float>{1, -1, 2, 0});
  const Tensor want = Model::load(kMlp).compile().run({{"x", x}}).at("y");
  for (const char* extension : {".onnx", ".ir"}) {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / (std::string("saved") + extension);
    Model model = Model::load(kMlp);
    model.optimize();
    model.save(path);
    Model saved = Model::load(path);
    EXPECT_EQ(saved.num_operators(), model.num_operators());
    const Tensor got = std::move(saved).compile().run({{"x", x}}).at("y");
    EXPECT_TRUE(Tensor::identical(got, want)) << extension;
    std::filesystem::remove(path);
  }
}

TEST(ModelApi, CompiledModelsLieInFiles) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "mlp.anf";
  const Executable compiled = Model::load(kMlp).compile();
  compiled.save(path);
  const Executable loaded = Executable::load(path, 1);
  ASSERT_EQ(loaded.inputs().size(), 1u);
  EXPECT_EQ(loaded.inputs()[0].type, "f32[N, 4]");
  EXPECT_EQ(loaded.inputs()[0].shape, (Shape{kUnknownSize, 4}));
  const Tensor x = Tensor::zeros(DType::F32, Shape{2, 4});
  EXPECT_TRUE(Tensor::identical(loaded.run({{"x", x}}).at("y"), compiled.run({{"x", x}}).at("y")));
  std::filesystem::remove(path);
  EXPECT_EQ(code_of([&] { Executable::load(path); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { Executable::load(kMlp); }), ErrorCode::InvalidModel);
}

TEST(ModelApi, TunedModelsComputeTheSame) {
  const NamedTensors inputs{{"x", Tensor::from<float>(Shape{2, 4}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8})}};
  const Tensor expected = Model::load(kMlp).compile({.threads = 1}).run(inputs).at("y");
  for (Tune tune : {Tune::Fast, Tune::Full}) {
    const Tensor y = Model::load(kMlp).compile({.threads = 1, .tune = tune}).run(inputs).at("y");
    ASSERT_EQ(y.shape(), expected.shape());
    for (size_t i = 0; i < y.data<float>().size(); ++i) EXPECT_NEAR(y.data<float>()[i], expected.data<float>()[i], 1e-5);
  }
}

TEST(ModelApi, OutputsOutliveLaterRunsAndTheExecutable) {
  Tensor first;
  {
    Executable executable = Model::load(kMlp).compile();
    first = executable.run({{"x", Tensor::zeros(DType::F32, Shape{1, 4})}}).at("y");
    Tensor kept = first.clone();
    executable.run({{"x", Tensor::from<float>(Shape{1, 4}, std::vector<float>{5, -5, 5, -5})}});
    EXPECT_TRUE(Tensor::identical(first, kept));
  }
  EXPECT_EQ(first.size(), 3);
}

// The outputs depend on whether both inputs have one size, as their declarations say.
TEST(ModelApi, InputsMayContradictTheNameOfADimension) {
  auto context = ops::make_context();
  const ir::Type* rows = context->tensor_type(DType::F32, std::array{context->dims().symbol("N")});
  ModelWriter m;
  for (const char* name : {"a", "b"}) m.value(wire::GraphProto::input, name, rows);
  m.node({"Shape", {"a"}, {"r"}});
  m.node({"Shape", {"b"}, {"s"}});
  m.node({"Sub", {"s", "r"}, {"difference"}});
  m.value(wire::GraphProto::output, "difference", nullptr);
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "contradicted.onnx";
  std::ofstream(path, std::ios::binary) << m.bytes();

  for (bool optimized : {false, true}) {
    Model model = Model::load(path);
    if (optimized) {
      EXPECT_EQ(model.optimize().operators_after, 0u);
    }
    Executable executable = std::move(model).compile();
    auto difference = [&](int64_t a, int64_t b) {
      NamedTensors inputs{{"a", Tensor::zeros(DType::F32, Shape{a})}, {"b", Tensor::zeros(DType::F32, Shape{b})}};
      return executable.run(inputs).at("difference").data<int64_t>()[0];
    };
    EXPECT_EQ(difference(3, 3), 0);
    EXPECT_EQ(difference(3, 4), 1);
    EXPECT_EQ(difference(5, 5), 0);
    EXPECT_EQ(difference(7, 5), -2);
  }
  std::filesystem::remove(path);
}

TEST(ModelApi, Errors) {
  EXPECT_EQ(code_of([] { Model::load("absent.onnx"); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([] { Model::load(std::span<const std::byte>()); }), ErrorCode::InvalidModel);
  Executable executable = Model::load(kMlp).compile();
  EXPECT_EQ(code_of([&] { executable.run({}); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { executable.run({{"z", Tensor::zeros(DType::F32, Shape{1, 4})}}); }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { executable.run({{"x", Tensor::zeros(DType::F32, Shape{1, 5})}}); }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { executable.run({{"x", Tensor::zeros(DType::F64, Shape{1, 4})}}); }),
            ErrorCode::InvalidArgument);
}

TEST(ModelApi, FromMemoryIntoMemory) {
  std::ifstream file(kMlp, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Model model = Model::load(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(model.metadata().at("producer_name"), "mlp.py");
  const NamedTensors inputs{{"x", Tensor::from<float>(Shape{1, 4}, std::vector<float>{1, 2, 3, 4})}};
  const NamedTensors expected = Model::load(kMlp).compile().run(inputs);
  const Executable executable = std::move(model).compile({.math = Math::Exact});
  const Tensor output = Tensor::zeros(DType::F32, Shape{1, 3});
  executable.run(inputs, {{"y", output}});
  EXPECT_TRUE(Tensor::identical(output, expected.at("y")));
  EXPECT_EQ(code_of([&] { executable.run(inputs, {{"y", Tensor::zeros(DType::F32, Shape{3})}}); }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { executable.run(inputs, {{"z", output}}); }), ErrorCode::InvalidArgument);
}

TEST(ModelApi, WhatWasMovedFromSaysSo) {
  Model model = Model::load(kMlp);
  Executable executable = std::move(model).compile();
  EXPECT_EQ(code_of([&] { model.inputs(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { std::move(model).compile(); }), ErrorCode::InvalidArgument);
  Executable other = std::move(executable);
  EXPECT_EQ(code_of([&] { executable.run({}); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(other.inputs().size(), 1u);
}

TEST(ModelApi, WrongTypesAndNumbersAreRefused) {
  EXPECT_EQ(code_of([] { Model::load(kMlp).compile({.threads = -1}); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([] { Tensor::scalar(1.0f).data<int32_t>(); }), ErrorCode::TypeMismatch);
  EXPECT_EQ(Tensor::scalar(1.0f).data<uint32_t>()[0], 0x3f800000u);
  EXPECT_EQ(code_of([] { Model::load(kMlp).optimize({.target = "toaster"}); }), ErrorCode::InvalidArgument);
  EXPECT_STREQ(version(), ANFORA_VERSION);
}

}  // namespace
}  // namespace anfora
