// Nodes of old operator sets give what their version says. One test an entry of the table in upgrade.cc; the expected
// values are worked out by hand from the texts of the old versions.
#include "frontend/onnx/upgrade.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "anfora/error.h"
#include "frontend/onnx/import.h"
#include "onnx_writer.h"
#include "ops/registry.h"
#include "run_kernel.h"

namespace anfora {
namespace {

using Ints = std::vector<int64_t>;
using FloatList = std::vector<float>;
using Strings = std::vector<std::string>;

struct OldNode {
  std::string op;
  int64_t version;
  Attributes attributes = {};
  std::vector<Tensor> inputs = {};  // undefined: omitted
  size_t num_outputs = 1;
  std::vector<size_t> constants = {};  // inputs that are initializers
  bool ranks_are_known = true;
  std::string domain = {};
};

class Upgrade : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();

  std::vector<Tensor> run(const OldNode& node) {
    ModelWriter model;
    model.opset = node.domain.empty() ? node.version : 25;
    model.domain = node.domain;
    model.domain_version = node.version;
    ModelWriter::NodeSpec spec{node.op, {}, {}, node.attributes, node.domain};
    std::vector<Datum> data;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor& tensor = node.inputs[i];
      spec.inputs.push_back(tensor.defined() ? "x" + std::to_string(i) : "");
      if (!tensor.defined()) continue;
      if (std::ranges::count(node.constants, i)) {
        model.initializer(spec.inputs.back(), tensor);
        continue;
      }
      const ir::Type* type = node.ranks_are_known
                                 ? context->tensor_type(tensor.dtype(), std::span<const int64_t>(tensor.shape().data(),
                                                                                                 tensor.shape().size()))
                                 : context->unranked_type(tensor.dtype());
      model.value(wire::GraphProto::input, spec.inputs.back(), type);
      data.emplace_back(tensor);
    }
    for (size_t i = 0; i < node.num_outputs; ++i) {
      spec.outputs.push_back("y" + std::to_string(i));
      model.value(wire::GraphProto::output, spec.outputs.back(), context->unranked_type(DType::Undefined));
    }
    model.node(spec);
    std::string bytes = model.bytes();
    auto module = onnx::import_onnx(*context, std::as_bytes(std::span(bytes)), nullptr);
    analysis::infer_types(*module);
    std::vector<Tensor> outputs;
    for (Datum& result : analysis::interpret(*module, data)) outputs.push_back(result.tensor());
    return outputs;
  }

  void expect(const OldNode& node, const FloatList& values, const Ints& shape = {}) {
    Tensor y = run(node)[0];
    if (!shape.empty()) {
      EXPECT_EQ(Ints(y.shape().begin(), y.shape().end()), shape) << node.op;
    }
    ASSERT_EQ(y.dtype(), DType::F32) << node.op;
    auto got = y.data<float>();
    ASSERT_EQ(got.size(), values.size()) << node.op;
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got[i], values[i], 1e-5f) << node.op << " at " << i;
  }
};

Tensor float_tensor(Ints shape, FloatList values) { return make_tensor<float>(std::move(shape), std::move(values)); }
Tensor ints(Ints shape, Ints values) { return make_tensor<int64_t>(std::move(shape), std::move(values)); }

TEST_F(Upgrade, ConsumedInputsAreNoAttribute) {
  expect({"Relu", 1, Attributes().set("consumed_inputs", Ints{0}), {float_tensor({2}, {-1, 1})}}, {0, 1});
  expect({"Sum",
          1,
          Attributes().set("consumed_inputs", Ints{0, 0}),
          {float_tensor({2}, {1, 2}), float_tensor({2}, {3, 4})}},
         {4, 6});
}

TEST_F(Upgrade, ReshapeShape) {
  expect({"Reshape", 1, Attributes().set("shape", Ints{0, -1}), {float_tensor({2, 1, 2}, {1, 2, 3, 4})}}, {1, 2, 3, 4},
         {2, 2});
}

TEST_F(Upgrade, SeluDefaults) {
  expect({"Selu", 1, {}, {float_tensor({2}, {1, -1})}}, {1.0507f, 1.0507f * 1.6732f * (std::exp(-1.0f) - 1)});
}

TEST_F(Upgrade, CastByName) {
  Tensor y = run({"Cast", 1, Attributes().set("to", "INT64"), {float_tensor({2}, {1.5f, -2})}})[0];
  EXPECT_EQ(values_of<int64_t>(y), (Ints{1, -2}));
}

TEST_F(Upgrade, ConcatDefaultAxis) {
  expect({"Concat", 1, {}, {float_tensor({2, 1}, {1, 2}), float_tensor({2, 1}, {3, 4})}}, {1, 3, 2, 4}, {2, 2});
}

TEST_F(Upgrade, LpPoolWithFloatP) {
  expect({"GlobalLpPool", 1, Attributes().set("p", 2.0f), {float_tensor({1, 1, 2, 1}, {3, 4})}}, {5}, {1, 1, 1, 1});
}

TEST_F(Upgrade, TileAlongOneAxis) {
  expect({"Tile", 1, {}, {float_tensor({1, 2}, {1, 2}), float_tensor({}, {2}), float_tensor({}, {0})}}, {1, 2, 1, 2},
         {2, 2});
}

TEST_F(Upgrade, BroadcastFromAnAxis) {
  OldNode add{"Add",
              6,
              Attributes().set("broadcast", 1).set("axis", 0),
              {float_tensor({2, 1, 2}, {1, 2, 3, 4}), float_tensor({2}, {10, 20})}};
  for (bool known : {true, false}) {
    add.ranks_are_known = known;
    expect(add, {11, 12, 23, 24}, {2, 1, 2});
  }
  add.attributes = Attributes().set("broadcast", 1).set("axis", -3);
  expect(add, {11, 12, 23, 24}, {2, 1, 2});
  add.attributes = Attributes().set("broadcast", 1);
  expect(add, {11, 22, 13, 24}, {2, 1, 2});
  OldNode pow{"Pow",
              1,
              Attributes().set("broadcast", 1).set("axis", 0),
              {float_tensor({2, 2}, {1, 2, 3, 4}), float_tensor({2}, {2, 1})}};
  expect(pow, {1, 4, 3, 4});
}

TEST_F(Upgrade, GemmBroadcast) {
  expect({"Gemm",
          6,
          Attributes().set("broadcast", 1),
          {float_tensor({1, 1}, {2}), float_tensor({1, 2}, {3, 4}), float_tensor({2}, {1, 2})}},
         {7, 10});
}

TEST_F(Upgrade, PReluSlopeByChannel) {
  OldNode prelu{"PRelu", 6, {}, {float_tensor({1, 2, 2}, {-1, 1, -1, -2}), float_tensor({2}, {0.5f, 2})}};
  expect(prelu, {-0.5f, 1, -2, -4});
  prelu.inputs[1] = float_tensor({1}, {3});
  expect(prelu, {-3, 1, -3, -6});
  // The rank of the data is not known, that of the slope is.
  prelu = {"PRelu", 6, {}, {float_tensor({1, 2, 2}, {-1, 1, -1, -2}), float_tensor({2}, {0.5f, 2})}, 1, {1}, false};
  expect(prelu, {-0.5f, 1, -2, -4});
}

TEST_F(Upgrade, BatchNormalization) {
  std::vector<Tensor> inputs{float_tensor({1, 2, 1}, {1, 2}), float_tensor({2}, {1, 2}), float_tensor({2}, {0, 1}),
                             float_tensor({2}, {0, 1}), float_tensor({2}, {4, 1})};
  for (int64_t version : {1, 6, 7, 9}) {
    Attributes attributes = Attributes().set("epsilon", 0.0f);
    if (version < 7) attributes.set("is_test", 1);
    expect({"BatchNormalization", version, attributes, inputs}, {0.5f, 3});
  }
  OldNode by_element{"BatchNormalization",
                     7,
                     Attributes().set("epsilon", 0.0f).set("spatial", 0),
                     {float_tensor({2, 1, 2}, {1, 2, 3, 4}), float_tensor({1, 2}, {1, 1}), float_tensor({1, 2}, {0, 1}),
                      float_tensor({1, 2}, {1, 0}), float_tensor({1, 2}, {1, 4})}};
  expect(by_element, {0, 2, 2, 3});
}

TEST_F(Upgrade, BatchNormalizationThatTrains) {
  OldNode node{"BatchNormalization",
               9,
               Attributes().set("epsilon", 0.0f).set("momentum", 0.5f),
               {float_tensor({2, 1, 1}, {1, 3}), float_tensor({1}, {1}), float_tensor({1}, {0}), float_tensor({1}, {0}),
                float_tensor({1}, {3})},
               5};
  std::vector<Tensor> y = run(node);
  EXPECT_EQ(values_of<float>(y[0]), (FloatList{-1, 1}));
  EXPECT_EQ(values_of<float>(y[1]), (FloatList{1}));  // 0.5 · 0 + 0.5 · 2
  EXPECT_EQ(values_of<float>(y[2]), (FloatList{2}));  // 0.5 · 3 + 0.5 · 1
  EXPECT_EQ(values_of<float>(y[3]), (FloatList{2}));
  EXPECT_EQ(values_of<float>(y[4]), (FloatList{1}));
  node.version = 6;
  node.attributes.set("is_test", 1);
  y = run(node);
  EXPECT_NEAR(y[0].data<float>()[1], 3 / std::sqrt(3.0f), 1e-6f);
  EXPECT_EQ(values_of<float>(y[2]), (FloatList{3}));
}

TEST_F(Upgrade, Dropout) {
  Tensor x = float_tensor({2}, {1, 2});
  expect({"Dropout", 1, Attributes().set("is_test", 1).set("ratio", 0.3f), {x}}, {1, 2});
  expect({"Dropout", 10, Attributes().set("ratio", 0.3f), {x}}, {1, 2});
  std::vector<Tensor> y = run({"Dropout", 7, Attributes().set("ratio", 0.3f), {x}, 2});
  EXPECT_EQ(values_of<float>(y[1]), (FloatList{0, 0}));
  EXPECT_EQ(run({"Dropout", 10, {}, {x}, 2})[1].dtype(), DType::Bool);
}

TEST_F(Upgrade, RecurrentOutputSequence) {
  Tensor y = run({"RNN",
                  1,
                  Attributes().set("output_sequence", 1).set("hidden_size", 1),
                  {float_tensor({1, 1, 1}, {0}), float_tensor({1, 1, 1}, {1}), float_tensor({1, 1, 1}, {1})}})[0];
  EXPECT_EQ(values_of<float>(y), (FloatList{0}));
}

TEST_F(Upgrade, ClipLimits) {
  expect({"Clip", 6, Attributes().set("min", 0.0f).set("max", 1.0f), {float_tensor({3}, {-1, 0.5f, 2})}}, {0, 0.5f, 1});
  expect({"Clip", 1, Attributes().set("max", 1.0f), {float_tensor({2}, {-1e30f, 2})}}, {-1e30f, 1});
  Tensor y = run({"Clip", 6, Attributes().set("min", 0.0f), {make_tensor<double>({2}, {-1, 1})}})[0];
  EXPECT_EQ(values_of<double>(y), (std::vector<double>{0, 1}));
}

TEST_F(Upgrade, DftAxis) {
  Tensor x = float_tensor({1, 2, 2, 1}, {1, 2, 3, 4});
  expect({"DFT", 17, {}, {x}}, {4, 0, 6, 0, -2, 0, -2, 0}, {1, 2, 2, 2});
  expect({"DFT", 17, Attributes().set("axis", 2), {x}}, {3, 0, -1, 0, 7, 0, -1, 0});
}

TEST_F(Upgrade, Pad) {
  expect({"Pad", 1, Attributes().set("paddings", Ints{1, 0}).set("value", 3.0f), {float_tensor({1}, {1})}}, {3, 1});
  expect({"Pad", 2, Attributes().set("pads", Ints{0, 1}), {float_tensor({1}, {1})}}, {1, 0});
  expect({"Pad", 2, Attributes().set("pads", Ints{0, 1}).set("mode", "edge"), {float_tensor({1}, {1})}}, {1, 1});
}

TEST_F(Upgrade, AxesBecameInputs) {
  Tensor x = float_tensor({2, 1, 2}, {1, 2, 3, 4});
  expect({"Squeeze", 1, Attributes().set("axes", Ints{1}), {x}}, {1, 2, 3, 4}, {2, 2});
  expect({"Squeeze", 11, {}, {x}}, {1, 2, 3, 4}, {2, 2});
  expect({"Unsqueeze", 11, Attributes().set("axes", Ints{-1}), {float_tensor({2}, {1, 2})}}, {1, 2}, {2, 1});
  expect({"ReduceSum", 11, Attributes().set("axes", Ints{0}).set("keepdims", 0), {x}}, {4, 6}, {1, 2});
  expect({"ReduceSum", 1, {}, {x}}, {10}, {1, 1, 1});
  expect({"ReduceMax", 13, Attributes().set("axes", Ints{-1}), {x}}, {2, 4}, {2, 1, 1});
  expect(
      {"ReduceL2", 17, Attributes().set("axes", Ints{0, 1, 2}).set("keepdims", 0), {float_tensor({1, 1, 2}, {3, 4})}},
      {5});
}

TEST_F(Upgrade, Slice) {
  Tensor x = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  expect({"Slice", 1, Attributes().set("starts", Ints{1}).set("ends", Ints{1000}).set("axes", Ints{1}), {x}},
         {2, 3, 5, 6}, {2, 2});
  expect({"Slice", 9, Attributes().set("starts", Ints{0, -1}).set("ends", Ints{1, 3}), {x}}, {3}, {1, 1});
}

TEST_F(Upgrade, Split) {
  Tensor x = float_tensor({4}, {1, 2, 3, 4});
  for (OldNode node : {OldNode{"Split", 1, {}, {x, float_tensor({2}, {1, 3})}, 2, {1}},
                       OldNode{"Split", 1, Attributes().set("split", Ints{1, 3}), {x}, 2},
                       OldNode{"Split", 11, Attributes().set("split", Ints{1, 3}), {x}, 2}}) {
    std::vector<Tensor> y = run(node);
    EXPECT_EQ(values_of<float>(y[0]), (FloatList{1}));
    EXPECT_EQ(values_of<float>(y[1]), (FloatList{2, 3, 4}));
  }
  for (int64_t version : {2, 13}) {
    std::vector<Tensor> y = run({"Split", version, {}, {x}, 2});
    EXPECT_EQ(values_of<float>(y[1]), (FloatList{3, 4}));
  }
}

TEST_F(Upgrade, TopK) {
  std::vector<Tensor> y = run({"TopK", 1, Attributes().set("k", 2), {float_tensor({3}, {1, 3, 2})}, 2});
  EXPECT_EQ(values_of<float>(y[0]), (FloatList{3, 2}));
  EXPECT_EQ(values_of<int64_t>(y[1]), (Ints{1, 2}));
}

TEST_F(Upgrade, SoftmaxOfAMatrix) {
  // Equal elements: the probability tells how many were normalized together.
  Tensor x = float_tensor({2, 2, 3}, FloatList(12, 1.0f));
  for (bool known : {true, false}) {
    OldNode node{"Softmax", 11, {}, {x}, 1, {}, known};
    expect(node, FloatList(12, 1.0f / 6), {2, 2, 3});
    node.attributes = Attributes().set("axis", 0);
    expect(node, FloatList(12, 1.0f / 12), {2, 2, 3});
    node.attributes = Attributes().set("axis", -1);
    expect(node, FloatList(12, 1.0f / 3), {2, 2, 3});
  }
  expect({"LogSoftmax", 1, {}, {float_tensor({1, 2, 1}, {0, 0})}}, FloatList(2, -std::log(2.0f)), {1, 2, 1});
  expect({"Hardmax", 1, {}, {float_tensor({1, 2, 2}, {1, 4, 3, 2})}}, {0, 1, 0, 0}, {1, 2, 2});
}

TEST_F(Upgrade, GridSampleModes) {
  Tensor x = float_tensor({1, 1, 1, 2}, {0, 2}), grid = float_tensor({1, 1, 1, 2}, {0, 0});
  expect({"GridSample", 16, {}, {x, grid}}, {1});
  expect({"GridSample", 16, Attributes().set("mode", "bilinear").set("align_corners", 1), {x, grid}}, {1});
  expect({"GridSample", 16, Attributes().set("mode", "nearest"), {x, grid}}, {0});
}

TEST_F(Upgrade, GroupNormalizationByGroup) {
  expect({"GroupNormalization",
          18,
          Attributes().set("num_groups", 1).set("epsilon", 0.0f),
          {float_tensor({1, 2, 1}, {1, 3}), float_tensor({1}, {2}), float_tensor({1}, {10})}},
         {8, 12});
  // By channel all the same.
  expect({"GroupNormalization",
          18,
          Attributes().set("num_groups", 1).set("epsilon", 0.0f),
          {float_tensor({1, 2, 1}, {1, 3}), float_tensor({2}, {2, 3}), float_tensor({2}, {10, 20})}},
         {8, 23});
}

TEST_F(Upgrade, RoiAlignHalfPixel) {
  Tensor x = float_tensor({1, 1, 2, 2}, {0, 1, 2, 3});
  expect(
      {"RoiAlign", 10, Attributes().set("sampling_ratio", 1), {x, float_tensor({1, 4}, {0, 0, 1, 1}), ints({1}, {0})}},
      {1.5f});
}

TEST_F(Upgrade, Scatter) {
  expect({"Scatter",
          9,
          Attributes().set("axis", 0),
          {float_tensor({3}, {1, 2, 3}), ints({1}, {1}), float_tensor({1}, {9})}},
         {1, 9, 3});
}

TEST_F(Upgrade, Upsample) {
  Tensor x = float_tensor({1, 1, 1, 2}, {1, 3});
  expect({"Upsample", 1, Attributes().set("height_scale", 1.0f).set("width_scale", 2.0f), {x}}, {1, 1, 3, 3},
         {1, 1, 1, 4});
  expect({"Upsample", 7, Attributes().set("scales", FloatList{1, 1, 1, 2}).set("mode", "linear"), {x}}, {1, 2, 3, 3});
  expect({"Upsample", 9, {}, {x, float_tensor({4}, {1, 1, 1, 1.5f})}}, {1, 1, 3});
}

TEST_F(Upgrade, ResizeBeforeModes) {
  Tensor x = float_tensor({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  // Rounds up where it makes smaller: positions 0 and 1 / 0.6.
  expect({"Resize", 10, {}, {x, float_tensor({4}, {1, 1, 0.6f, 0.6f})}, 1, {1}}, {1, 3}, {1, 1, 1, 2});
  // Down along one axis, up along the other, known or not when the model is read.
  for (std::vector<size_t> constants : {std::vector<size_t>{1}, std::vector<size_t>{}}) {
    OldNode node{"Resize", 10, {}, {x, float_tensor({4}, {1, 1, 1.5f, 0.6f})}, 1, constants};
    expect(node, {1, 3, 1, 3, 5, 7}, {1, 1, 3, 2});
  }
  expect({"Resize", 10, Attributes().set("mode", "linear"), {x, float_tensor({4}, {1, 1, 1, 0.5f})}}, {1, 3, 5, 7});
}

TEST_F(Upgrade, Experiments) {
  Tensor x = float_tensor({2}, {1, -1});
  expect({"Affine", 1, Attributes().set("alpha", 2.0f).set("beta", 3.0f), {x}}, {5, 1});
  expect({"Scale", 1, Attributes().set("scale", 2.0f), {x}}, {2, -2});
  expect({"ScaledTanh", 1, Attributes().set("alpha", 2.0f).set("beta", 0.5f), {x}},
         {2 * std::tanh(0.5f), -2 * std::tanh(0.5f)});
  expect({"ParametricSoftplus", 1, Attributes().set("alpha", 2.0f), {float_tensor({1}, {0})}}, {2 * std::log(2.0f)});
  Tensor image = float_tensor({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect({"ImageScaler", 1, Attributes().set("scale", 2.0f).set("bias", FloatList{0, 1}), {image}},
         {2, 4, 6, 8, 11, 13, 15, 17});
  expect({"Crop", 1, Attributes().set("border", Ints{1, 0, 0, 1}), {image}}, {2, 6}, {1, 2, 1, 1});
  expect({"Crop", 1, Attributes().set("border", Ints{0, 1, 0, 0}).set("scale", Ints{1, 2}), {image}}, {3, 4, 7, 8},
         {1, 2, 1, 2});
  expect({"DynamicSlice", 1, {}, {x, ints({1}, {1}), ints({1}, {2})}}, {-1});
  expect({"ConstantFill", 1, Attributes().set("shape", Ints{2}).set("value", 4.0f), {}}, {4, 4});
  expect({"ConstantFill", 1, Attributes().set("input_as_shape", 1).set("extra_shape", Ints{2}), {ints({1}, {1})}},
         {0, 0}, {1, 2});
  expect({"SimplifiedLayerNormalization",
          17,
          Attributes().set("epsilon", 0.0f),
          {float_tensor({2}, {3, -3}), float_tensor({2}, {1, 2})}},
         {1, -2});
  Tensor pair = float_tensor({1, 1, 1, 2}, {1, 3});
  expect({"MeanVarianceNormalization", 1, {}, {pair}}, {-1, 1});
  expect({"MeanVarianceNormalization", 1, Attributes().set("normalize_variance", 0).set("across_channels", 1), {image}},
         {-3.5f, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3.5f});
}

TEST_F(Upgrade, LabelEncoderClasses) {
  Attributes classes = Attributes().set("classes_strings", Strings{"a", "b"}).set("default_int64", -7);
  OldNode node{"LabelEncoder", 1, classes, {make_tensor<std::string>({2}, {"b", "c"})}, 1, {}, true, "ai.onnx.ml"};
  EXPECT_EQ(values_of<int64_t>(run(node)[0]), (Ints{1, -7}));
  node.inputs = {ints({2}, {0, 5})};
  EXPECT_EQ(values_of<std::string>(run(node)[0]), (Strings{"a", "_Unused"}));
}

TEST_F(Upgrade, MissingAttributesAreErrors) {
  for (OldNode node :
       {OldNode{"Slice", 1, {}, {float_tensor({1}, {1})}}, OldNode{"Pad", 2, {}, {float_tensor({1}, {1})}},
        OldNode{"TopK", 1, {}, {float_tensor({1}, {1})}}, OldNode{"Upsample", 7, {}, {float_tensor({1}, {1})}},
        OldNode{"Cast", 1, Attributes().set("to", "NOTHING"), {float_tensor({1}, {1})}},
        OldNode{"Squeeze", 1, Attributes().set("axes", 1), {float_tensor({1}, {1})}}}) {
    EXPECT_THROW(run(node), Error) << node.op;
  }
}

}  // namespace
}  // namespace anfora
