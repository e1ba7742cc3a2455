// Recurrent layers by generated code beside the reference kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "prepared.h"

namespace anfora::codegen {
namespace {

using Dims = std::vector<int64_t>;

struct Operator {
  std::string op;
  int64_t gates;
  AttributeSet attributes;
};

struct Sizes {
  int64_t steps, batch, inputs, hidden;
};

// Inputs 1 to 3 are constants, as weights and biases are.
struct Layer {
  Layer(const Operator& of, const Sizes& sizes, const std::string& direction, bool has_bias, bool has_state, const Tensor& lengths = {})
      : attributes(of.attributes.with("direction", direction).with("hidden_size", sizes.hidden)) {
    const int64_t directions = direction == "bidirectional" ? 2 : 1, width = of.gates * sizes.hidden;
    const Dims state{directions, sizes.batch, sizes.hidden};
    const float scale = 2.0f / static_cast<float>(sizes.hidden);
    Tensor r = random_tensor({directions, width, sizes.hidden}, 3);
    for (float& element : r.data<float>()) element *= scale;
    inputs = {random_tensor({sizes.steps, sizes.batch, sizes.inputs}, 1), random_tensor({directions, width, sizes.inputs}, 2), r,
              has_bias ? random_tensor({directions, 2 * width}, 4) : Tensor(), lengths, has_state ? random_tensor(state, 5) : Tensor()};
    if (of.op == "LSTM") inputs.push_back(has_state ? random_tensor(state, 6) : Tensor());
    data = {of.op, attributes, {}, of.op == "LSTM" ? size_t{3} : size_t{2}};
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_present = inputs[i].defined();
      data.inputs.push_back({.present = is_present,
                             .dtype = is_present ? inputs[i].dtype() : DType::Undefined,
                             .shape = is_present ? std::optional(inputs[i].shape()) : std::nullopt,
                             .constant = i >= 1 && i <= 3 ? inputs[i] : Tensor()});
    }
  }

  std::vector<Tensor> run(const kernels::PreparedKernel& kernel) const {
    std::vector<Datum> datums, results(data.num_outputs);
    for (const Tensor& input : inputs) datums.push_back(input.defined() ? Datum(input) : Datum());
    std::vector<const Datum*> pointers;
    for (const Datum& datum : datums) pointers.push_back(&datum);
    kernels::PreparedRun(kernel).run(attributes, pointers, results);
    std::vector<Tensor> tensors;
    for (const Datum& result : results) tensors.push_back(result.tensor());
    return tensors;
  }

  AttributeSet attributes;
  std::vector<Tensor> inputs;
  kernels::KernelData data;
};

void expect_same(const std::vector<Tensor>& results, const std::vector<Tensor>& expected) {
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(Tensor::identical(results[i], expected[i])) << "output " << i;
}

void check(const Operator& of, const Sizes& sizes, const std::string& direction, bool has_bias, bool has_state, const Tensor& lengths = {}) {
  SCOPED_TRACE(fmt::format("{} {}, {} steps of {} × {}, {} units, bias {}, state {}, lengths {}", of.op, direction, sizes.steps, sizes.batch,
                           sizes.inputs, sizes.hidden, has_bias, has_state, lengths.defined()));
  Layer layer(of, sizes, direction, has_bias, has_state, lengths);
  const std::vector<Tensor> expected = run_kernel(of.op, layer.attributes, layer.inputs, layer.data.num_outputs);
  kernels::KernelData open = layer.data;
  const auto kernel = generating_kernels().prepare_as(layer.data, "generated:recurrent");
  ASSERT_TRUE(kernel);
  const std::vector<Tensor> results = layer.run(*kernel);
  for (size_t i = 0; i < results.size(); ++i) expect_close(results[i], expected[i], 1e-5f);
  for (int threads : {1, 2, 3}) with_threads(threads, [&] { expect_same(layer.run(*kernel), results); });

  // Sizes that only the run knows.
  open.inputs[0].shape.reset();
  const auto of_any_size = generating_kernels().prepare_as(open, "generated:recurrent");
  ASSERT_TRUE(of_any_size);
  expect_same(layer.run(*of_any_size), results);

  // From the data alone, without the weights that are packed.
  kernel->complete();
  kernels::KernelData copied = layer.data;
  for (kernels::PackedConstant& packed : copied.packed) packed.elements = packed.elements.clone();
  for (size_t i : {1, 2}) {
    EXPECT_TRUE(kernel->has_packed(i));
    copied.inputs[i].constant = Tensor::view(DType::F32, layer.inputs[i].shape(), nullptr, nullptr);
  }
  const auto loaded = kernels::generated::generated_kernels().load(copied);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(copied.packed.size(), layer.data.packed.size()) << "what is packed is packed again";
  EXPECT_EQ(copied.workspace_bytes, layer.data.workspace_bytes);
  expect_same(layer.run(*loaded), results);
}

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all{{"RNN", 1, {}},
                                         {"RNN", 1, {{"activations", std::vector<std::string>{"Relu", "Relu"}}}},
                                         {"RNN", 1, {{"activations", std::vector<std::string>{"Sigmoid", "Sigmoid"}}}},
                                         {"LSTM", 4, {}},
                                         {"GRU", 3, {}},
                                         {"GRU", 3, {{"linear_before_reset", int64_t{1}}}}};
  return all;
}

TEST(GeneratedRecurrent, AgreesWithTheReference) {
  for (const Operator& of : operators()) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      for (bool is_given : {false, true}) {
        check(of, {5, 3, 12, 20}, direction, is_given, is_given);
        check(of, {4, 1, 7, 16}, direction, !is_given, is_given);
      }
    }
    check(of, {3, 21, 9, 70}, "bidirectional", true, false);
    check(of, {1, 1, 1, 33}, "forward", true, true);
  }
}

TEST(GeneratedRecurrent, IsDividedAmongThreads) {
  for (const Operator& of : operators()) {
    check(of, {9, 1, 40, 520}, "forward", true, true);
    check(of, {9, 2, 40, 300}, "bidirectional", true, false);
    check(of, {40, 1, 16, 96}, "bidirectional", true, true);
  }
}

TEST(GeneratedRecurrent, EndsWithEachSequence) {
  for (const Operator& of : operators()) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      check(of, {5, 4, 12, 20}, direction, true, true, Tensor::vector<int32_t>(std::to_array<int32_t>({5, 0, 3, 1})));
      check(of, {3, 1, 7, 16}, direction, false, false, Tensor::vector<int32_t>(std::to_array<int32_t>({3})));
    }
    check(of, {9, 2, 40, 300}, "bidirectional", true, true, Tensor::vector<int32_t>(std::to_array<int32_t>({2, 8})));
  }
}

TEST(GeneratedRecurrent, MayHaveNothingToDo) {
  for (const Operator& of : operators()) {
    for (const Sizes& sizes : {Sizes{0, 2, 5, 16}, Sizes{3, 0, 5, 16}}) {
      Layer layer(of, sizes, "bidirectional", true, true);
      layer.data.inputs[0].shape.reset();
      const auto kernel = generating_kernels().prepare_as(layer.data, "generated:recurrent");
      ASSERT_TRUE(kernel);
      expect_same(layer.run(*kernel), run_kernel(of.op, layer.attributes, layer.inputs, layer.data.num_outputs));
    }
  }
}

TEST(GeneratedRecurrent, SaysWhatDoesNotFit) {
  const Operator lstm = operators()[3];
  Layer layer(lstm, {3, 2, 5, 16}, "forward", true, true);
  layer.data.inputs[0].shape.reset(), layer.data.inputs[5].shape.reset();
  const auto kernel = generating_kernels().prepare_as(layer.data, "generated:recurrent");
  ASSERT_TRUE(kernel);
  for (const Tensor& lengths : {Tensor::vector<int32_t>(std::to_array<int32_t>({1, 4})), Tensor::vector<int32_t>(std::to_array<int32_t>({-1, 2})), Tensor::vector<int32_t>(std::to_array<int32_t>({1})), Tensor::vector<int64_t>(std::to_array<int64_t>({1, 2}))}) {
    layer.inputs[4] = lengths;
    EXPECT_THROW(layer.run(*kernel), Error);
  }
  layer.inputs[4] = {};
  layer.inputs[5] = random_tensor({1, 3, 16}, 7);
  EXPECT_THROW(layer.run(*kernel), Error);
  layer.inputs[0] = random_tensor({3, 2, 6}, 7);
  EXPECT_THROW(layer.run(*kernel), Error);
}

TEST(GeneratedRecurrent, LeavesTheRestToOthers) {
  const Operator lstm = operators()[3];
  auto is_made = [&](const AttributeSet& attributes) {
    Layer layer({lstm.op, lstm.gates, attributes}, {3, 2, 5, 16}, "forward", true, true);
    return generating_kernels().prepare_as(layer.data, "generated:recurrent") != nullptr;
  };
  EXPECT_TRUE(is_made({}));
  EXPECT_FALSE(is_made({{"clip", 1.0f}}));
  EXPECT_FALSE(is_made({{"input_forget", int64_t{1}}}));
  EXPECT_FALSE(is_made({{"activations", std::vector<std::string>{"Sigmoid", "Tanh", "Relu"}}}));
}

}  // namespace
}  // namespace anfora::codegen
