#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "export_fixture.h"

namespace anfora {
namespace {

namespace fs = std::filesystem;
using onnx::ExportOptions;

class Export : public ExportTest {};

TEST_F(Export, KeepsNames) {
  EXPECT_EQ(sketch(R"(
module { opset "" = 21  outputs = ["y", "x"] }
graph @main(%x: f32[N, 4], %w: f32[4]) {
  %hidden = Add(%x, %w)
  %1 = Relu(%hidden)
  %2 = Relu(%1)
  return (%2, %x)
})"),
            "(x, w) -> y, x\n"
            "hidden = Add(x, w)\n"
            "Relu_1 = Relu(hidden)\n"
            "y = Relu(Relu_1)\n");
  EXPECT_EQ(report.opsets[""], 21);
  EXPECT_EQ(report.nodes, 3u);
  EXPECT_TRUE(report.moved.empty());
}

TEST_F(Export, GivesEveryResultAValueOfItsOwn) {
  // An input under another name, one value twice: Identity makes them results. A constant is one already.
  EXPECT_EQ(sketch(R"(
module { opset "" = 21  outputs = ["a", "b", "c", "d"] }
graph @main(%x: f32[2]) {
  %1 = Relu(%x)
  return (%x, %1, %1, 1.0)
})"),
            "(x) -> a, b, c, d\n"
            "b = Relu(x)\n"
            "a = Identity(x)\n"
            "c = Identity(b)\n");
}

TEST_F(Export, ResultsThatAreConstants) {
  // A small one is stored twice, a large one is copied.
  EXPECT_EQ(sketch(R"(
module { opset "" = 21  outputs = ["a", "b", "c", "d"] }
graph @main() {
  %small = const f32[2] [1.0, 2.0]
  %large = const i64[33] [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
  return (%small, %small, %large, %large)
})"),
            "() -> a, b, c, d\n"
            "d = Identity(c)\n");
}

// An empty list of dilations says as little as none.
TEST_F(Export, PoolsWithEmptyListsSuitOlderSets) {
  sketch(R"(
module { opset "" = 18  outputs = ["y"] }
graph @main(%x: f32[1, 1, 6]) {
  %1 = MaxPool(%x) {kernel_shape=[3], strides=[2], dilations=[], pads=[], ceil_mode=1}
  return %1
})");
  EXPECT_EQ(report.opsets[""], 18);
}

TEST_F(Export, MakesNamesUnique) {
  EXPECT_EQ(sketch(R"(
module { opset "" = 21  outputs = ["same"] }
graph @main(%x: f32[2]) {
  %same#1 = Relu(%x)
  %same#2 = Abs(%same#1)
  %same#3 = Neg(%same#2)
  return %same#3
})"),
            "(x) -> same\n"
            "same_1 = Relu(x)\n"
            "same_2 = Abs(same_1)\n"
            "same = Neg(same_2)\n");
}

TEST_F(Export, OmitsWhatIsAbsent) {
  EXPECT_EQ(sketch(R"(
module { opset "" = 21  outputs = ["y"] }
graph @main(%x: f32[2, 3, 4], %w: f32[1, 20, 4], %r: f32[1, 20, 5], %h: f32[1, 3, 5]) {
  %1 = LSTM:3(%x, %w, %r, _, _, %h){hidden_size=5}
  %2 = %1[1]
  return %2
})"),
            "(x, w, r, h) -> y\n"
            ", y = LSTM(x, w, r, , , h){hidden_size=5}\n");
}

TEST_F(Export, InitializersThatAreInputs) {
  auto module = parse(R"(
module { opset "" = 21  outputs = ["y"] }
graph @main(%x: f32[2], %w: f32[2] = f32[2] [1.0, 2.0]) { return Add(%x, %w) })");
  auto again = import(bytes_of(*module));
  ASSERT_EQ(again->main()->parameters().size(), 2u);
  ASSERT_TRUE(again->default_of(again->main()->parameter(1)));
  EXPECT_EQ(again->default_of(again->main()->parameter(1))->tensor().data<float>()[1], 2.0f);
}

TEST_F(Export, KeepsWhatTheSourceSaid) {
  std::string text = R"(module {
  name = "net"
  graph_doc = "of the graph"
  opset "" = 21
  opset "com.example" = 3
  ir_version = 10
  producer = "somebody"
  producer_version = "7"
  domain = "org.example"
  model_version = 4
  doc = "of the model"
  property "key" = "value"
  outputs = ["y": f32[M, 3]]
}
graph @main(%x: f32[N]) {
  %y = com.example::Strange:1(%x){level=2, scale=0.5, names=["a", "b"], table=f32[2] [1.0, 2.0]}
  return %y
})";
  auto module = parse(text);
  std::string first = bytes_of(*module);
  auto again = import(first);
  EXPECT_EQ(bytes_of(*again), first);
  ir::PrintOptions options{.locations = false};
  EXPECT_NE(ir::print(*again, options).find(text.substr(0, text.find("graph @main"))), std::string::npos)
      << ir::print(*again, options);
  EXPECT_NE(ir::print(*again, options).find("level=2"), std::string::npos);
}

TEST_F(Export, TypesOfAllKinds) {
  for (const char* attribute : {"f32[2, ?]", "seq(i64[])", "seq(opt(bool[*]))"}) {
    auto module =
        parse(std::string("module { opset \"\" = 21 outputs = [\"y\"] } graph @main() { %1 = Optional(){type=\"") +
              attribute + "\"}\n return OptionalHasElement(%1) }");
    auto again = import(bytes_of(*module));
    EXPECT_NE(ir::print(*again).find(std::string("type=\"") + attribute + "\""), std::string::npos)
        << ir::print(*again);
  }
}

TEST_F(Export, TakesNoMoreSpaceThanItNeeds) {
  auto bytes = [&](const std::string& header, const std::string& constant) {
    return bytes_of(*parse(header + "graph @main(%x: i64[*]) { return Mul(%x, " + constant + ") }"));
  };
  // Small numbers take a byte each, what is no smaller so lies as in memory.
  const size_t small = bytes("", "i64[4] [1, 2, 3, 127]").size();
  EXPECT_EQ(bytes("", "i64[4] [1, 2, 3, 128]").size(), small + 1);
  EXPECT_EQ(bytes("", "i64[4] [-1, -2, -3, -128]").size(), small + 28);
  for (const char* constant : {"i64[4] [1, 2, 3, 127]", "i64[2] [-1, 5]", "i64[4] [-1, -2, -3, -128]"}) {
    const std::string first = bytes("", constant);
    EXPECT_EQ(bytes_of(*import(first)), first);
  }
  for (const char* type : {"i32", "u32", "u64", "i16"}) {
    auto module = parse(fmt::format("graph @main(%x: {0}[3]) {{ return Identity({0}[3] [1, 2, 300]) }}", type));
    EXPECT_NE(ir::print(*import(bytes_of(*module))).find("[1, 2, 300]"), std::string::npos) << type;
  }
  // A source that does not name its producer.
  EXPECT_NE(bytes("", "2").find("anfora"), std::string::npos);
  EXPECT_EQ(bytes("module { ir_version = 8 }\n", "2").find("anfora"), std::string::npos);
}

// Operator sets --------------------------------------------------------------------------------------

constexpr const char* kAxes = R"(
graph @main(%x: f32[2, 3]) {
  %1 = Unsqueeze(%x, [-1])
  %2 = ReduceMean(%1, [0, 1]){keepdims=0}
  %3 = Clip(%2, -1.0, _)
  return %3
})";

TEST_F(Export, WritesOlderOperatorSets) {
  EXPECT_EQ(sketch(kAxes, {.opset = 18}),
            "(x) -> Clip_1\n"
            "Unsqueeze_1 = Unsqueeze(x, constant_1)\n"
            "ReduceMean_1 = ReduceMean(Unsqueeze_1, constant_2){keepdims=0}\n"
            "Clip_1 = Clip(ReduceMean_1, constant_3)\n");
  EXPECT_EQ(sketch(kAxes, {.opset = 10}),
            "(x) -> Clip_1\n"
            "Unsqueeze_1 = Unsqueeze(x){axes=[2]}\n"
            "ReduceMean_1 = ReduceMean(Unsqueeze_1){axes=[0, 1], keepdims=0}\n"
            "Clip_1 = Clip(ReduceMean_1){max=3.4028235e+38, min=-1.0}\n");
  EXPECT_EQ(report.opsets[""], 10);
  EXPECT_TRUE(report.moved.empty());
}

TEST_F(Export, SoftmaxOverAllAxesFromOneOnIsOneNodeWhereItWas) {
  const std::string known =
      "graph @main(%x: f32[2, 3, 4, 5]) { return Reshape(Softmax(Flatten(%x){axis=2}), [2, 3, 4, 5]) }";
  EXPECT_EQ(sketch(known, {.opset = 11}), "(x) -> Softmax_1\nSoftmax_1 = Softmax(x){axis=2}\n");
  EXPECT_NE(sketch(known, {.opset = 13}).find("Flatten"), std::string::npos);
  const std::string unknown = "graph @main(%x: f32[*]) { return Reshape(Hardmax(Flatten(%x)), Shape(%x)) }";
  EXPECT_EQ(sketch(unknown, {.opset = 11}), "(x) -> Hardmax_1\nHardmax_1 = Hardmax(x)\n");
  const std::string other = "graph @main(%x: f32[2, 3, 4]) { return Reshape(Softmax(Flatten(%x)), [2, 4, 3]) }";
  EXPECT_NE(sketch(other, {.opset = 11}).find("Flatten"), std::string::npos);
}

TEST_F(Export, AttributesThatSayTheDefaultOfTheOperatorSet) {
  const std::string text = "graph @main(%x: f32[2, 3]) { return Softmax(Transpose(%x){perm=[1, 0]}){axis=1} }";
  EXPECT_EQ(sketch(text, {.opset = 11}),
            "(x) -> Softmax_1\nTranspose_1 = Transpose(x)\nSoftmax_1 = Softmax(Transpose_1)\n");
  EXPECT_EQ(sketch(text, {.opset = 13}),
            "(x) -> Softmax_1\nTranspose_1 = Transpose(x)\nSoftmax_1 = Softmax(Transpose_1){axis=1}\n");
  EXPECT_NE(sketch("graph @main(%x: f32[2, 3, 4]) { return Transpose(%x){perm=[1, 0, 2]} }").find("perm"),
            std::string::npos);
}

TEST_F(Export, GroupNormalizationByGroupStaysWhereTheSourceHadIt) {
  // As the importer makes it of version 18, of which a scale is a constant by now.
  auto text = [](const std::string& opset, const std::string& bias) {
    return "module { opset \"\" = " + opset + " outputs = [\"y\"] }\ngraph @main(%x: f32[2, 4, 3], %s: f32[2]) {\n" +
           "  %1 = Reshape(Expand(Unsqueeze(%s, [1]), [2, 2]), [-1])\n" +
           "  return GroupNormalization(%x, %1, f32[4] [" + bias + "]){num_groups=2}\n}";
  };
  const std::string kept = "(x, s) -> y\ny = GroupNormalization(x, s, constant_1){num_groups=2}\n";
  EXPECT_EQ(sketch(text("18", "1.0, 1.0, 2.0, 2.0")), kept);
  EXPECT_EQ(sketch(text("18", "1.0, 1.0, 2.0, 2.0"), {.opset = 20}), kept);
  EXPECT_EQ(report.opsets[""], 20);
  // By channel, or of a source that could not have it.
  EXPECT_NE(sketch(text("18", "1.0, 2.0, 2.0, 2.0")).find("Reshape"), std::string::npos);
  EXPECT_EQ(report.opsets[""], 21);
  EXPECT_NE(sketch(text("21", "1.0, 1.0, 2.0, 2.0"), {.opset = 18}).find("Reshape"), std::string::npos);
  EXPECT_EQ(report.opsets[""], 21);
}

TEST_F(Export, BroadcastingOfOldOperatorSets) {
  // What lined the operand up goes, as the axis says the same.
  EXPECT_EQ(sketch(R"(
module { opset "" = 6 outputs = ["y"] }
graph @main(%x: f32[2, 3, 4], %b: f32[3]) { return Add(%x, Unsqueeze(%b, [1])) })"),
            "(x, b) -> y\ny = Add(x, b){axis=1, broadcast=1}\n");
  EXPECT_EQ(sketch(R"(
module { opset "" = 6 outputs = ["y"] }
graph @main(%x: f32[2, 3, 4], %b: f32[3]) { return PRelu(%x, Unsqueeze(%b, [1])) })"),
            "(x, b) -> y\ny = PRelu(x, b)\n");
  // Axes of length 1 that the model has itself.
  const std::string own = "graph @main(%x: f32[2, 3], %b: f32[2, 1]) { return Add(%x, %b) }";
  EXPECT_EQ(sketch("module { opset \"\" = 6 outputs = [\"y\"] }\n" + own), "(x, b) -> y\ny = Add(x, b){broadcast=1}\n");
  EXPECT_NE(sketch(own, {.opset = 6}).find("Squeeze"), std::string::npos);
}

TEST_F(Export, RaisesTheOperatorSetWhereItMust) {
  std::string text = R"(
module { opset "" = 13 outputs = ["y"] }
graph @main(%x: f32[2, 3]) {
  return Gelu(Relu(%x))
})";
  sketch(text);
  EXPECT_EQ(report.opsets[""], 20);
  ASSERT_EQ(report.moved.size(), 1u);
  EXPECT_EQ(report.moved[0].from, 13);
  EXPECT_EQ(report.moved[0].to, 20);
  EXPECT_NE(report.moved[0].because.find("Gelu"), std::string::npos);
  sketch(text, {.opset = ExportOptions::kNewest});
  EXPECT_EQ(report.opsets[""], 28);
  EXPECT_NE(error_of(text, {.opset = 99}).find("there is no operator set 99"), std::string::npos);
}

// Files --------------------------------------------------------------------------------------------------

class ExportFile : public Export {
 protected:
  fs::path folder;
  void SetUp() override {
    folder = fs::temp_directory_path() / ("anfora_export_test_" + std::to_string(getpid()));
    fs::create_directory(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  std::unique_ptr<ir::Module> weights(int64_t count) {
    auto module = std::make_unique<ir::Module>(*context);
    ir::Graph* main = module->make_graph("main");
    module->set_main(main);
    const Shape shape{count};
    ir::Node* sum = module->add_parameter(main, context->tensor_type(DType::F32, std::span<const int64_t>(shape)), "x");
    for (float i : {1.0f, 2.0f, 3.0f}) {
      Tensor w = Tensor::zeros(DType::F32, shape);
      w.data<float>()[1] = i;
      sum = module->apply(main, context->get_operator("Add"), {sum, module->constant(w, "w" + std::to_string(int(i)))});
    }
    module->set_result(main, sum);
    module->output_names() = {"y"};
    analysis::infer_types(*module);
    return module;
  }
};

TEST_F(ExportFile, ExternalData) {
  auto module = weights(30'000);
  fs::path path = folder / "m.onnx";
  onnx::ExportReport whole = onnx::export_onnx(*module, path);
  EXPECT_EQ(files(), std::vector<std::string>{"m.onnx"});
  EXPECT_EQ(fs::file_size(path), whole.model_bytes);
  EXPECT_EQ(whole.data_bytes, 0u);

  onnx::ExportReport split = onnx::export_onnx(*module, path, {.largest_file = whole.model_bytes - 1});
  EXPECT_EQ(files(), (std::vector<std::string>{"m.onnx", "m.onnx.data"}));
  EXPECT_EQ(fs::file_size(path), split.model_bytes);
  EXPECT_EQ(fs::file_size(folder / "m.onnx.data"), split.data_bytes);
  auto again = onnx::import_onnx(*context, path);
  for (ir::Value* w : again->constants()) {
    EXPECT_EQ(w->tensor().data<float>()[1], float(w->name()[1] - '0'));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(w->tensor().raw()) % 4096, 0u);  // as mapped
  }

  // A model that is written over itself.
  onnx::export_onnx(*again, path, {.external_data = ExportOptions::ExternalData::Never});
  EXPECT_EQ(fs::file_size(path), whole.model_bytes);
  EXPECT_THROW(bytes_of(*module, {.external_data = ExportOptions::ExternalData::Always}), Error);
}

TEST_F(ExportFile, ElementsInTwoShapesAreStoredOnce) {
  auto module = weights(4'000);
  const onnx::ExportReport before =
      onnx::export_onnx(*module, folder / "m.onnx", {.external_data = ExportOptions::ExternalData::Always});
  const Shape shape{40, 100};
  Tensor w = module->constants()[0]->tensor().clone();
  ir::Node* sum =
      module->apply(module->main(), context->get_operator("ReduceSum"), {module->constant(w.reshaped(shape))});
  module->set_result(module->main(),
                     module->apply(module->main(), context->get_operator("Add"), {module->main()->result(), sum}));
  analysis::infer_types(*module);
  const onnx::ExportReport after =
      onnx::export_onnx(*module, folder / "m.onnx", {.external_data = ExportOptions::ExternalData::Always});
  EXPECT_EQ(after.data_bytes, before.data_bytes);
  auto again = onnx::import_onnx(*context, folder / "m.onnx");
  EXPECT_EQ(again->constants().size(), 4u);
}

TEST_F(ExportFile, FullDiskLeavesNothing) {
  auto module = weights(300'000);
  fs::path path = folder / "m.onnx";
  std::ofstream(path) << "before";
  // A limit on the size of files fails a write in the middle, as a full disk does.
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  rlimit limit{1'000'000, old_limit.rlim_max};
  auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  for (auto external : {ExportOptions::ExternalData::Never, ExportOptions::ExternalData::Always}) {
    try {
      onnx::export_onnx(*module, path, {.external_data = external});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Io);
      EXPECT_NE(error.message().find("m.onnx"), std::string::npos) << error.what();
    }
    EXPECT_EQ(files(), std::vector<std::string>{"m.onnx"});
    EXPECT_EQ(fs::file_size(path), 6u);
  }
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THROW(onnx::export_onnx(*module, "/dev/full"), Error);
  EXPECT_THROW(onnx::export_onnx(*module, folder / "nowhere" / "m.onnx"), Error);
}

}  // namespace
}  // namespace anfora
