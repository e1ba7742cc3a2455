// Every implementation that a kernel may be asked for by its name computes what the reference kernel computes.
#include <fmt/format.h>

#include <set>

#include "driver/kernels.h"
#include "kernels/generated/product_code.h"
#include "kernels/packed_copies.h"
#include "prepare_kernel.h"

namespace anfora {
namespace {

using Dims = std::vector<int64_t>;

// Whether some constant lies at the same place in both.
bool share_packed(const kernels::KernelData& a, const kernels::KernelData& b) {
  return std::ranges::any_of(a.packed, [&](const kernels::PackedConstant& packed) {
    return std::ranges::any_of(b.packed, [&](const auto& other) { return other.elements.raw() == packed.elements.raw(); });
  });
}

// The names of those that apply, each of which is run. `inputs` from 1 on are constants.
std::set<std::string> run_candidates(std::string_view op, const AttributeSet& attributes, const std::vector<Tensor>& inputs, float tolerance) {
  kernels::KernelData described{.op = std::string(op), .attributes = attributes};
  std::vector<Datum> data;
  std::vector<const Datum*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    data.push_back(inputs[i].defined() ? Datum(inputs[i]) : Datum());
    described.inputs.emplace_back();
    if (!inputs[i].defined()) continue;
    described.inputs.back() = {.present = true, .dtype = inputs[i].dtype(), .shape = inputs[i].shape()};
    if (i > 0) described.inputs.back().constant = inputs[i];
  }
  for (const Datum& datum : data) pointers.push_back(&datum);
  const Tensor expected = run_kernel(op, attributes, inputs)[0];
  std::set<std::string> applied;
  kernels::PackedCopies copies;  // of all candidates: none may take another's for its own
  std::vector<const kernels::PreparedRegistry*> registries = generating_kernels();
  registries.push_back(&kernels::onednn_kernels());
  for (const kernels::PreparedRegistry* registry : registries) {
    std::vector<std::string_view> names = registry->implementations(op);
    std::ranges::copy(registry->forms(op), std::back_inserter(names));
    for (std::string_view name : names) {
      SCOPED_TRACE(name);
      kernels::KernelData asked = described;
      asked.copies = &copies;
      const auto kernel = registry->prepare_as(asked, name);
      if (!kernel) {
        EXPECT_TRUE(asked.implementation.empty() && asked.packed.empty() && asked.workspace_bytes == 0);
        continue;
      }
      EXPECT_EQ(asked.implementation, name);
      applied.emplace(name);
      std::vector<Datum> results(1);
      kernels::PreparedRun run(*kernel);
      run.run(attributes, pointers, results);
      expect_close(results[0].tensor(), expected, tolerance);
      copies.add(asked);
      kernels::KernelData twin = described;
      twin.copies = &copies;
      EXPECT_TRUE(registry->prepare_as(twin, name));
      EXPECT_TRUE(!kernel->has_packed(1) || share_packed(asked, twin)) << "the same weights are packed twice";
      // As a file has it: of packed weights and the name.
      kernels::KernelData stored{.op = asked.op, .attributes = attributes, .inputs = described.inputs};
      stored.implementation = asked.implementation;
      stored.packed = asked.packed;
      const auto again = registry->load(stored);
      EXPECT_TRUE(again);
      if (!again) continue;
      EXPECT_EQ(stored.packed.size(), asked.packed.size());
      std::vector<Datum> same(1);
      kernels::PreparedRun second(*again);
      second.run(attributes, pointers, same);
      EXPECT_EQ(as_floats(same[0].tensor()), as_floats(results[0].tensor()));
    }
  }
  return applied;
}

bool has_vectors_of_avx2() { return kernels::generated::is_supported(kernels::generated::Isa::Avx2); }

constexpr float kTolerance = 1e-5f;

TEST(KernelCandidates, ProductsAgree) {
  for (const char* op : {"MatMul", "Gemm", "LoweredMatMul"}) {
    for (int64_t rows : {1, 5, 64, 130}) {
      for (const Dims& weights : {Dims{64, 96}, Dims{100, 33}}) {
        const Tensor x = random_tensor({rows, weights[0]}, 1), w = random_tensor(weights, 2), bias = random_tensor({weights[1]}, 3);
        std::vector<Tensor> inputs{x, w};
        if (op != std::string("MatMul")) inputs.push_back(bias);
        AttributeSet attributes;
        if (op == std::string("LoweredMatMul")) attributes = attributes.with("activation", std::string("Relu"));
        SCOPED_TRACE(fmt::format("{} {}x{}x{}", op, rows, weights[0], weights[1]));
        const std::set<std::string> applied = run_candidates(op, attributes, inputs, kTolerance);
        EXPECT_TRUE(applied.contains("generated:product") && applied.contains("onednn:matmul"));
        const auto num_tiles = std::ranges::count_if(applied, [](const std::string& name) { return name.starts_with("generated:product:"); });
        EXPECT_EQ(num_tiles, std::ssize(kernels::generated::product_tiles(kernels::generated::best_isa())) - 1);
        EXPECT_TRUE(!has_vectors_of_avx2() || (applied.contains("onednn:inner_product") && applied.contains("onednn:convolution")));
      }
    }
  }
}

TEST(KernelCandidates, ConvolutionsAgree) {
  const AttributeSet attributes{{"channels_last", int64_t{1}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  for (int64_t size : {4, 14, 30}) {  // the smallest is one that Winograd's transform is not expected to pay for
    const Tensor x = random_tensor({1, size, size, 32}, 1), w = random_tensor({48, 32, 3, 3}, 2), bias = random_tensor({48}, 3);
    SCOPED_TRACE(size);
    const std::set<std::string> applied =
        run_candidates("LoweredConv", attributes.with("activation", std::string("Relu")), {x, w, bias}, 4 * kTolerance);
    EXPECT_TRUE(applied.contains("generated:winograd") && applied.contains("onednn:convolution"));
    EXPECT_FALSE(run_candidates("LoweredConv", attributes.with("direct", int64_t{1}), {x, w, bias}, 4 * kTolerance).contains("generated:winograd"));
  }
}

// Weights are packed once for rows of any number, but not for another product of them.
TEST(KernelCandidates, ShareWhatOthersHavePacked) {
  const kernels::PreparedRegistry& registry = *generating_kernels().front();
  const Tensor weights = random_tensor({64, 64}, 1);
  kernels::PackedCopies copies;
  auto prepare = [&](int64_t rows, const AttributeSet& attributes) {
    kernels::KernelData data{.op = "LoweredMatMul", .attributes = attributes};
    data.inputs.resize(2);
    data.inputs[0] = {.present = true, .dtype = DType::F32, .shape = Shape{rows, 64}};
    data.inputs[1] = {.present = true, .dtype = DType::F32, .shape = Shape{64, 64}, .constant = weights};
    data.copies = &copies;
    EXPECT_TRUE(registry.prepare_as(data, "generated:product"));
    copies.add(data);
    return data;
  };
  const kernels::KernelData first = prepare(9, {});
  EXPECT_TRUE(share_packed(first, prepare(40, {})));
  EXPECT_FALSE(share_packed(first, prepare(9, {{"perm_b", std::vector<int64_t>{1, 0}}})));
}

// A form that is asked for holds for one shape; where shapes are open, each has its own, by the rules.
TEST(KernelCandidates, FormsAreOfKnownShapes) {
  kernels::KernelData data{.op = "MatMul"};
  data.inputs.resize(2);
  data.inputs[0] = {.present = true, .dtype = DType::F32, .shape = Shape{-1, 64}};
  data.inputs[1] = {.present = true, .dtype = DType::F32, .shape = Shape{64, 32}, .constant = random_tensor({64, 32}, 1)};
  EXPECT_FALSE(kernels::onednn_kernels().prepare_as(data, "onednn:inner_product"));
  EXPECT_TRUE(kernels::onednn_kernels().prepare_as(data, "onednn:matmul"));
  EXPECT_FALSE(kernels::onednn_kernels().prepare_as(data, "generated:winograd"));
}

}  // namespace
}  // namespace anfora
