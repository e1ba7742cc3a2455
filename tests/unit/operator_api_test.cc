// The public API: include/anfora/operator.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "anfora/model.h"
#include "anfora/operator.h"
#include "support/temporary_files.h"

namespace anfora {
namespace {

Model model_of(const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "operators.ir";
  std::ofstream(path) << text;
  return Model::load(path);
}

std::string complaint_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

Tensor row(std::vector<float> values) {
  return Tensor::from<float>(Shape{1, static_cast<int64_t>(values.size())}, values);
}

TEST(OperatorApi, DeclaresComputesAndInfers) {
  register_operator({.name = "unit::Affine",
                     .signature = "(x: T[N, K], weights: T[K, M]) -> (y: T[N, M], T[2*K], i64[?])",
                     .attributes = {{"scale", 2.0f}, {"labels", std::vector<int64_t>{1, 2}}}});
  register_kernel("unit::Affine", [](KernelCall& call) {
    const int64_t n = call.input(0).dim(0), k = call.input(0).dim(1), m = call.input(1).dim(1);
    for (float& y : call.output(0, DType::F32, Shape{n, m}).data<float>()) y = call.number("scale");
    for (float& y : call.output(1, DType::F32, Shape{2 * k}).data<float>()) y = 0;
    const std::vector<int64_t> labels = call.integers("labels");
    std::ranges::copy(labels, call.output(2, DType::I64, Shape{static_cast<int64_t>(labels.size())}).data<int64_t>().begin());
  });
  Model model = model_of(R"(
    module { outputs = ["y", "twice", "labels"] }
    graph @main(%x: f32[N, 3], %w: f32[3, 5]) {
      %all = unit::Affine:3(%x, %w){scale=4.0}
      return (%all[0], %all[1], %all[2])
    })");
  ASSERT_EQ(model.outputs().size(), 3u);
  EXPECT_EQ(model.outputs()[0].type, "f32[N, 5]");
  EXPECT_EQ(model.outputs()[1].type, "f32[6]");
  EXPECT_EQ(model.outputs()[2].type, "i64[?]");
  const Executable executable = std::move(model).compile();
  const NamedTensors results = executable.run({{"x", row({1, 2, 3})}, {"w", Tensor::zeros(DType::F32, Shape{3, 5})}});
  EXPECT_EQ(results.at("y").data<float>()[4], 4.0f);
  EXPECT_EQ(results.at("labels").data<int64_t>()[1], 2);
}

TEST(OperatorApi, RefusesWhatIsWrong) {
  register_operator({.name = "unit::Once", .signature = "(T[...]) -> T[...]"});
  EXPECT_NE(complaint_of([] { register_operator({.name = "unit::Once", .signature = "(T[...]) -> T[...]"}); }).find("already"),
            std::string::npos);
  EXPECT_NE(complaint_of([] { register_operator({.name = "Once", .signature = "(T[]) -> T[]"}); }).find("no name"), std::string::npos);
  EXPECT_NE(complaint_of([] { register_operator({.name = "unit::Bad", .signature = "(T[N) -> T[]"}); }).find("malformed"),
            std::string::npos);
  EXPECT_NE(complaint_of([] { register_kernel("unit::None", [](KernelCall&) {}); }).find("there is no operator"), std::string::npos);
  register_kernel("unit::Once", [](KernelCall& call) { call.output(0, DType::I8, Shape{}); });
  const Executable executable = model_of("graph @main(%x: f32[N, 4]) { %y = unit::Once(%x) return %y }").compile();
  EXPECT_NE(complaint_of([&] { executable.run({{"x", row({1, 2, 3, 4})}}); }).find("the kernel gives i8"), std::string::npos);
}

TEST(OperatorApi, CompiledModelsHaveAttributesAndTypesOfTheirOwn) {
  register_operator({.name = "unit::Scale", .signature = "(x: T[...]) -> T[...]", .attributes = {{"scale", 2.0f}}});
  register_kernel("unit::Scale", [](KernelCall& call) {
    const std::span<float> y = call.output(0, DType::F32, call.input(0).shape()).data<float>();
    std::ranges::transform(call.input(0).data<float>(), y.begin(), [&](float x) { return x * call.number("scale"); });
  });
  const TemporaryFile file(temporary_name(std::filesystem::path(testing::TempDir()) / "operators.anf"));
  model_of("graph @main(%x: f32[N, 2]) { %y = unit::Scale(%x) return %y }").compile().save(file.path());
  register_kernel("unit::Scale", {});
  EXPECT_EQ(complaint_of([&] { Executable::load(file.path()); }), "no kernel is registered for unit::Scale");

  // What a process without the declaration knows of it, the file says.
  register_kernel("unit::Scale", [](KernelCall& call) { call.output(0, DType::F32, call.input(0).shape()).data<float>()[0] = call.number("scale"); });
  const Executable loaded = Executable::load(file.path());
  EXPECT_EQ(loaded.outputs()[0].type, "f32[N, 2]");
  EXPECT_EQ(loaded.run({{"x", row({1, 3})}}).begin()->second.data<float>()[0], 2.0f);
  register_kernel("unit::Scale", [](KernelCall& call) { call.output(0, DType::I8, call.input(0).shape()); });
  const Executable wrong = Executable::load(file.path());
  EXPECT_NE(complaint_of([&] { wrong.run({{"x", row({1, 3})}}); }).find("the kernel gives i8"), std::string::npos);
}

}  // namespace
}  // namespace anfora
