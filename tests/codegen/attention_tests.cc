// Attention by generated code: each entry beside the evaluator bit for bit, and the kernel beside the reference kernel in f64.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "anfora/error.h"
#include "both_ways.h"
#include "codegen/attention.h"
#include "codegen/generated_kernels.h"
#include "kernels/generated/attention.h"
#include "kernels/generated/registry.h"
#include "prepare_kernel.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;
using Dims = std::vector<int64_t>;
using Kind = AttentionEntry::Kind;

AttentionCode attention_code(Isa isa) {
  return {.isa = isa, .scores = product_tile(isa, 49), .values = product_tile(isa, 32), .has_edge = true};
}

// Runs an entry both ways, on operands that it reads and one that it writes.
struct EntryRun {
  BothWays both;
  std::vector<int64_t> arguments;

  EntryRun(const AttentionCode& code, const AttentionEntry& entry, size_t count)
      : both{attention_function(code, entry), code.isa, {}}, arguments(count) {
    verify(both.function, kernels::generated::describe(code.isa));
  }
  void read(size_t argument, const Tensor& tensor) {
    both.regions.push_back({tensor.data<float>().data(), tensor.size()});
    arguments[argument] = address(tensor);
  }
};

TEST(Attention, KeysArePackedAsTheEvaluatorDoes) {
  using P = PackKeys;
  for (Isa isa : isas_here()) {
    SCOPED_TRACE(kernels::generated::describe(isa).name);
    const AttentionCode code = attention_code(isa);
    const int64_t lanes = kernels::generated::describe(isa).lanes, size = 2 * lanes + 3;
    const Tensor keys = random_tensor({lanes, size}, 1);
    Tensor panel = Tensor::zeros(DType::F32, Shape{3 * lanes, code.panel_keys()});
    EntryRun run(code, {Kind::Pack, 0}, P::kArguments);
    run.read(P::kKeys, keys);
    run.arguments[P::kKeyStride] = size;
    run.arguments[P::kVectors] = size / lanes, run.arguments[P::kRest] = size % lanes;
    run.both.expect_equal(run.arguments, P::kPanel, panel);
    for (int64_t k = 0; k < size; ++k) {
      for (int64_t lane = 0; lane < lanes; ++lane)
        EXPECT_EQ(panel.data<float>()[k * code.panel_keys() + lane], keys.data<float>()[lane * size + k]);
    }
  }
}

TEST(Attention, ScoresAreThoseOfTheEvaluator) {
  using P = ScoresOfPanels;
  constexpr int64_t kSize = 7;
  for (Isa isa : isas_here()) {
    const AttentionCode code = attention_code(isa);
    for (int rows : {1, 3, code.scores.rows}) {
      SCOPED_TRACE(fmt::format("{} {} rows", kernels::generated::describe(isa).name, rows));
      const int64_t width = code.panel_keys();
      const Tensor queries = random_tensor({rows, kSize + 2}, 1), panels = random_tensor({2, kSize, width}, 2);
      const auto scale = Tensor::scalar(0.3f);
      Tensor scores = Tensor::zeros(DType::F32, Shape{rows, 2 * width});
      EntryRun run(code, {Kind::Scores, rows}, P::kArguments);
      run.read(P::kQueries, queries), run.read(P::kPanels, panels), run.read(P::kScale, scale);
      run.arguments[P::kQueryStride] = kSize + 2, run.arguments[P::kPanelSize] = kSize * width;
      run.arguments[P::kCount] = 2, run.arguments[P::kDepth] = kSize, run.arguments[P::kScoreStride] = 2 * width;
      run.both.expect_equal(run.arguments, P::kScores, scores);
    }
  }
}

TEST(Attention, ScoresOfFewRowsAreThoseOfTheEvaluator) {
  using P = ScoresOfKeys;
  constexpr int64_t kRowsOfQueries = 2;
  for (Isa isa : isas_here()) {
    SCOPED_TRACE(kernels::generated::describe(isa).name);
    const int64_t lanes = kernels::generated::describe(isa).lanes, size = lanes + 1, keys = 2 * lanes + 3;
    const Tensor q = random_tensor({kRowsOfQueries, size}, 1), k = random_tensor({keys, size}, 2);
    const auto scale = Tensor::scalar(0.3f);
    Tensor scores = Tensor::zeros(DType::F32, Shape{kRowsOfQueries, keys});
    EntryRun run(attention_code(isa), {Kind::ScoresOfFew, 0}, P::kArguments);
    run.read(P::kQueries, q), run.read(P::kKeys, k), run.read(P::kScale, scale);
    run.arguments[P::kRows] = kRowsOfQueries;
    run.arguments[P::kQueryStride] = run.arguments[P::kKeyStride] = size;
    run.arguments[P::kGroups] = keys / lanes, run.arguments[P::kRest] = keys % lanes;
    run.arguments[P::kVectors] = size / lanes, run.arguments[P::kDepthRest] = size % lanes;
    run.arguments[P::kScoreStride] = keys;
    run.both.expect_equal(run.arguments, P::kScores, scores);
  }
}

TEST(Attention, BiasIsThatOfTheEvaluator) {
  using P = BiasOfScores;
  constexpr int64_t kCount = 3;
  for (Isa isa : isas_here()) {
    const int64_t lanes = kernels::generated::describe(isa).lanes;
    for (AttentionBias bias : {AttentionBias::None, AttentionBias::Numbers, AttentionBias::Truths}) {
      for (bool has_cap : {false, true}) {
        for (int64_t length : {int64_t{0}, lanes - 1, 2 * lanes, 3 * lanes + 1}) {
          SCOPED_TRACE(fmt::format("{}, bias {}, cap {}, rows of {}", kernels::generated::describe(isa).name,
                                   static_cast<int>(bias), has_cap, length));
          AttentionCode code = attention_code(isa);
          code.bias = bias, code.has_cap = has_cap;
          const int64_t stride = 5 * lanes;
          Tensor added = random_tensor({kCount, stride}, 2);
          if (bias == AttentionBias::Truths) {
            for (size_t i = 0; i < added.bytes(); ++i) static_cast<uint8_t*>(added.raw())[i] = i % 3 != 0 ? 1 : 0;
          } else {
            added.data<float>()[1] = -INFINITY, added.data<float>()[static_cast<size_t>(stride)] = NAN;
          }
          // The scores, then the largest of each lane.
          Tensor memory = random_tensor({kCount, stride + lanes}, 1);
          const auto cap = Tensor::scalar(0.5f);
          EntryRun run(code, {Kind::Bias, 0}, P::kArguments);
          run.read(P::kBias, added), run.read(P::kCap, cap);
          run.arguments[P::kRows] = kCount;
          run.arguments[P::kScoreStride] = run.arguments[P::kBiasStride] = stride;
          run.arguments[P::kVectors] = length / lanes, run.arguments[P::kAll] = (length + lanes - 1) / lanes;
          run.arguments[P::kElements] = length;
          run.arguments[P::kMaxima] = reinterpret_cast<int64_t>(memory.data<float>().data() + kCount * stride);
          run.both.expect_equal(run.arguments, P::kScores, memory);
        }
      }
    }
  }
}

TEST(Attention, ProbabilitiesAreThoseOfTheEvaluator) {
  using P = ProbabilitiesOfScores;
  for (Isa isa : isas_here()) {
    const int64_t lanes = kernels::generated::describe(isa).lanes, rows = lanes + 3, padded = 2 * lanes;
    for (int64_t vectors : {0, 1, 3}) {
      for (bool is_last : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {} vectors, last {}", kernels::generated::describe(isa).name, vectors, is_last));
        const int64_t stride = 4 * lanes;
        // The scores, the maxima, then what is kept of the rows: the largest, the sums, and what comes out.
        Tensor memory = random_tensor({padded * (stride + lanes + 5)}, 1);
        float* scores = memory.data<float>().data();
        for (float& x : memory.data<float>()) x *= 10;
        float *maxima = scores + padded * stride, *kept = maxima + padded * lanes;
        std::fill_n(maxima, lanes, -INFINITY);  // of a row that sees nothing
        std::fill_n(scores, stride, -INFINITY);
        kept[0] = -INFINITY, kept[padded] = 0;
        EntryRun run(attention_code(isa), {Kind::Probabilities, 0}, P::kArguments);
        run.arguments[P::kMaxima] = reinterpret_cast<int64_t>(maxima);
        for (P::Argument result : {P::kLargest, P::kSums, P::kBases, P::kDecays, P::kFactors})
          run.arguments[result] = reinterpret_cast<int64_t>(kept + (result - P::kLargest) * padded);
        run.arguments[P::kRows] = rows, run.arguments[P::kGroups] = 2, run.arguments[P::kIsLast] = is_last;
        run.arguments[P::kScoreStride] = stride, run.arguments[P::kVectors] = vectors;
        run.both.expect_equal(run.arguments, P::kScores, memory);
      }
    }
  }
}

TEST(Attention, ValuesAreThoseOfTheEvaluator) {
  using P = ValuesOfProbabilities;
  constexpr int64_t kKeys = 5;
  for (Isa isa : isas_here()) {
    const AttentionCode code = attention_code(isa);
    for (int rows : {1, 2, code.values.rows}) {
      for (bool is_first : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} rows, first {}", kernels::generated::describe(isa).name, rows, is_first));
        const int64_t columns = 2 * code.panel_columns() + 3;
        const Tensor p = random_tensor({rows, kKeys}, 1), v = random_tensor({kKeys, columns}, 2);
        const Tensor decays = random_tensor({rows}, 3), factors = random_tensor({rows}, 4);
        Tensor y = random_tensor({rows, columns}, 5);
        EntryRun run(code, {Kind::Values, rows}, P::kArguments);
        run.read(P::kProbabilities, p), run.read(P::kValues, v);
        run.read(P::kDecays, decays), run.read(P::kFactors, factors);
        run.arguments[P::kProbabilityStride] = run.arguments[P::kKeys] = kKeys;
        run.arguments[P::kValueStride] = run.arguments[P::kYStride] = columns;
        run.arguments[P::kPanels] = 2, run.arguments[P::kRest] = 3, run.arguments[P::kIsFirst] = is_first;
        run.both.expect_equal(run.arguments, P::kY, y);
      }
    }
  }
}

// The kernel ----------------------------------------------------------------------------------------------------------

struct AttentionCase {
  std::string what;
  AttributeSet attributes;
  std::vector<Tensor> inputs;
  size_t outputs = 1;
};

// An empty list stands for an omitted input.
AttentionCase attention_case(std::string what, AttributeSet attributes, const std::vector<Dims>& shapes,
                             size_t outputs = 1) {
  AttentionCase c{std::move(what), std::move(attributes), {}, outputs};
  for (size_t i = 0; i < shapes.size(); ++i)
    c.inputs.push_back(shapes[i].empty() ? Tensor() : random_tensor(shapes[i], static_cast<int>(i) + 1));
  return c;
}

Tensor truths(const Dims& shape) {
  Tensor mask = Tensor::allocate(DType::Bool, shape);
  for (int64_t i = 0; i < mask.size(); ++i) mask.data<bool>()[static_cast<size_t>(i)] = i % 5 != 1 && i % 7 != 2;
  return mask;
}

std::vector<AttentionCase> attention_cases() {
  const AttributeSet by_heads, causal{{"is_causal", int64_t{1}}};
  auto packed = [](int64_t heads, int64_t key_heads) {
    return AttributeSet{{"q_num_heads", heads}, {"kv_num_heads", key_heads}};
  };
  std::vector<AttentionCase> cases;
  for (int64_t size : {1, 7, 16, 33, 64, 100})
    cases.push_back(attention_case(fmt::format("heads of {}", size), by_heads,
                                   {{2, 3, 29, size}, {2, 3, 31, size}, {2, 3, 31, size + 3}}));
  for (int64_t queries : {1, 2, 3, 4, 5, 24, 25, 200}) {
    for (int64_t keys : {1, 15, 48, 193, 450})
      cases.push_back(attention_case(fmt::format("{} queries, {} keys", queries, keys), by_heads,
                                     {{1, 2, queries, 20}, {1, 2, keys, 20}, {1, 2, keys, 20}}));
  }
  cases.push_back(attention_case("packed", packed(3, 3), {{2, 50, 48}, {2, 60, 48}, {2, 60, 96}}));
  cases.push_back(attention_case("packed groups", packed(6, 2), {{2, 5, 96}, {2, 60, 32}, {2, 60, 64}}));
  cases.push_back(attention_case("packed groups of one position", packed(6, 2),
                                 {{2, 1, 96}, {2, 60, 32}, {2, 60, 64}}));
  cases.push_back(attention_case("groups", causal, {{2, 8, 9, 16}, {2, 2, 9, 16}, {2, 2, 9, 24}}));
  cases.push_back(attention_case("groups with a mask by heads", by_heads,
                                 {{1, 4, 3, 16}, {1, 2, 9, 16}, {1, 2, 9, 8}, {4, 3, 9}}));
  for (int64_t length : {1, 40, 230, 401})
    cases.push_back(attention_case(fmt::format("causal, {}", length), causal,
                                   {{1, 2, length, 24}, {1, 2, length, 24}, {1, 2, length, 24}}));
  cases.push_back(attention_case("more queries than keys see",
                                 {{"is_causal", int64_t{1}}, {"left_window_size", int64_t{3}}},
                                 {{1, 2, 300, 8}, {1, 2, 250, 8}, {1, 2, 250, 8}}));
  cases.push_back(attention_case("window", {{"left_window_size", int64_t{2}}, {"right_window_size", int64_t{30}}},
                                 {{1, 2, 280, 8}, {1, 2, 290, 8}, {1, 2, 290, 8}}));
  cases.push_back(attention_case("cap and scale", {{"softcap", 0.5f}, {"scale", 3.0f}},
                                 {{1, 2, 20, 8}, {1, 2, 23, 8}, {1, 2, 23, 8}}));
  cases.push_back(attention_case("past", causal,
                                 {{2, 2, 3, 8}, {2, 2, 3, 8}, {2, 2, 3, 16}, {}, {2, 2, 30, 8}, {2, 2, 30, 16}}, 3));
  cases.push_back(attention_case("packed past", packed(4, 2).with("is_causal", int64_t{1}),
                                 {{2, 3, 32}, {2, 3, 16}, {2, 3, 32}, {}, {2, 2, 30, 8}, {2, 2, 30, 16}}));
  cases.push_back(attention_case("mask of keys", by_heads,
                                 {{2, 2, 20, 8}, {2, 2, 200, 8}, {2, 2, 200, 8}, {2, 1, 1, 200}}));
  cases.push_back(attention_case("short mask", by_heads, {{2, 2, 20, 8}, {2, 2, 200, 8}, {2, 2, 200, 8}, {20, 190}}));
  cases.push_back(attention_case("no keys", by_heads, {{2, 2, 20, 8}, {2, 2, 0, 8}, {2, 2, 0, 8}}));
  cases.push_back(attention_case("no queries", by_heads, {{2, 2, 0, 8}, {2, 2, 5, 8}, {2, 2, 5, 8}}));

  cases.push_back(attention_case("columns", packed(6, 2).with("columns", Dims{3, 99, 0, 32, 32, 96}),
                                 {{2, 5, 100}, {2, 60, 96}, {2, 60, 96}}));
  cases.push_back(attention_case("columns of one position", packed(6, 2).with("columns", Dims{3, 99, 0, 32, 32, 96}),
                                 {{2, 1, 100}, {2, 60, 96}, {2, 60, 96}}));

  auto sequence_first = [](Dims flags) { return AttributeSet{{"sequence_first", std::move(flags)}}; };
  cases.push_back(attention_case("sequence first", sequence_first({1, 0, 1, 0}),
                                 {{2, 50, 4, 16}, {2, 2, 60, 16}, {2, 60, 2, 16}}));
  cases.push_back(attention_case("the result's sequence first", sequence_first({0, 1, 0, 1}),
                                 {{2, 4, 3, 16}, {2, 60, 2, 16}, {2, 2, 60, 16}}));

  AttentionCase masked = attention_case("hidden keys", causal, {{2, 2, 45, 8}, {2, 2, 45, 8}, {2, 2, 45, 8}});
  masked.inputs.push_back(truths({2, 1, 45, 45}));
  cases.push_back(masked);
  AttentionCase infinite = attention_case("rows that see nothing", by_heads,
                                          {{1, 2, 30, 8}, {1, 2, 400, 8}, {1, 2, 400, 8}, {30, 400}});
  for (int64_t i = 0; i < 400; ++i) {
    infinite.inputs[3].data<float>()[static_cast<size_t>(i)] = -INFINITY;
    if (i < 250) infinite.inputs[3].data<float>()[static_cast<size_t>(400 + i)] = -INFINITY;
  }
  infinite.inputs[3].data<float>()[850] = -1e30f;
  cases.push_back(infinite);
  // Row i sees keys up to i + 300; of the last rows one is hidden as a whole, which hides nothing, one sees keys in the middle.
  auto mask_of_numbers = [](float hidden) {
    AttentionCase c = attention_case("keys that numbers hide", {}, {{1, 4, 60, 16}, {1, 2, 450, 16}, {1, 2, 450, 16}, {60, 450}});
    std::span<float> mask = c.inputs[3].data<float>();
    for (int64_t row = 0; row < 60; ++row) {
      for (int64_t key = 0; key < 450; ++key) {
        const bool is_seen = row == 58 ? false : row == 59 ? key > 200 && key < 203 : key <= row + 300;
        mask[static_cast<size_t>(row * 450 + key)] = is_seen ? static_cast<float>(key % 3) : hidden;
      }
    }
    // A score of 0 is kept beside any bias.
    for (int64_t head = 0; head < 4; ++head) std::ranges::fill(c.inputs[0].data<float>().subspan(static_cast<size_t>(head * 60 + 58) * 16, 16), 0.0f);
    return c;
  };
  for (float hidden : {-10000.0f, -1e9f, std::numeric_limits<float>::lowest()}) cases.push_back(mask_of_numbers(hidden));
  // What 4000 bounds no more hides nothing: the lowest score is the largest of its row.
  AttentionCase large = mask_of_numbers(-10000.0f);
  std::ranges::fill(large.inputs[0].data<float>(), 100.0f);
  for (int64_t head = 0; head < 2; ++head) {
    std::span<float> keys = large.inputs[1].data<float>().subspan(static_cast<size_t>(head * 450 * 16), 450 * 16);
    std::ranges::fill(keys.first(440 * 16), -50.0f);
    std::ranges::fill(keys.subspan(440 * 16), 50.0f);
  }
  cases.push_back(large);
  AttentionCase padded = attention_case("padding", causal, {{2, 2, 20, 8}, {2, 2, 40, 8}, {2, 2, 40, 8}, {}, {}, {}});
  padded.inputs.push_back(make_tensor<int64_t>({2}, {40, 7}));
  cases.push_back(padded);
  return cases;
}

class GeneratedAttention : public testing::TestWithParam<AttentionCase> {};

TEST_P(GeneratedAttention, IsExact) {
  const AttentionCase& c = GetParam();
  std::vector<Tensor> wide;
  for (const Tensor& input : c.inputs) {
    if (!input.defined() || input.dtype() != DType::F32) {
      wide.push_back(input);
      continue;
    }
    wide.push_back(Tensor::allocate(DType::F64, input.shape()));
    std::ranges::copy(input.data<float>(), wide.back().data<double>().begin());
  }
  const std::vector<Tensor> expected = run_kernel("Attention", c.attributes, wide, c.outputs);
  for (bool open_shapes : {false, true}) {
    SCOPED_TRACE(open_shapes ? "open shapes" : "known shapes");
    kernels::KernelData data{"LoweredAttention", c.attributes, {}, c.outputs};
    std::vector<Datum> datums;
    std::vector<const Datum*> pointers;
    for (const Tensor& input : c.inputs) {
      kernels::InputDescription description{
          .present = input.defined(), .dtype = DType::Undefined, .shape = {}, .constant = {}};
      if (input.defined()) description.dtype = input.dtype();
      if (input.defined() && !open_shapes) description.shape = input.shape();
      data.inputs.push_back(description);
      datums.push_back(input.defined() ? Datum(input) : Datum());
    }
    for (const Datum& datum : datums) pointers.push_back(&datum);
    const auto kernel = generating_kernels().prepare(data);
    ASSERT_TRUE(kernel);
    auto run = [&](const kernels::PreparedKernel& of) {
      std::vector<Datum> results(c.outputs);
      kernels::PreparedRun(of).run(c.attributes, pointers, results);
      return results;
    };
    const std::vector<Datum> results = run(*kernel);
    for (size_t i = 0; i < c.outputs; ++i) {
      const Tensor& result = results[i].tensor();
      ASSERT_EQ(result.shape(), expected[i].shape());
      for (size_t k = 0; k < static_cast<size_t>(result.size()); ++k)
        ASSERT_NEAR(result.data<float>()[k], expected[i].data<double>()[k], 3e-6) << "output " << i << ", element "
                                                                                  << k;
    }
    for (int threads : {1, 2})
      with_threads(threads, [&] { EXPECT_TRUE(Tensor::identical(run(*kernel)[0].tensor(), results[0].tensor())); });
    // The data alone says all.
    kernel->complete();
    kernels::KernelData copied = data;
    for (kernels::PackedConstant& packed : copied.packed) packed.elements = packed.elements.clone();
    const auto loaded = generated_kernels().load(copied);
    ASSERT_TRUE(loaded);
    EXPECT_TRUE(Tensor::identical(run(*loaded)[0].tensor(), results[0].tensor()));
  }
}
INSTANTIATE_TEST_SUITE_P(All, GeneratedAttention, testing::ValuesIn(attention_cases()),
                         [](const auto& info) { return fmt::format("{}", info.index); });

TEST(AttentionKernel, NotANumber) {
  AttentionCase c = attention_case("", {}, {{1, 1, 6, 8}, {1, 1, 9, 8}, {1, 1, 9, 8}, {6, 9}});
  c.inputs[3].data<float>()[9] = NAN;
  c.inputs[3].data<float>()[18] = INFINITY;
  kernels::KernelData data{"Attention", {}, {}, 1};
  std::vector<Datum> datums(c.inputs.begin(), c.inputs.end());
  std::vector<const Datum*> pointers;
  for (const Datum& datum : datums) {
    data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = datum.tensor().shape(), .constant = {}});
    pointers.push_back(&datum);
  }
  const auto kernel = generating_kernels().prepare(data);
  ASSERT_TRUE(kernel);
  Datum y;
  kernels::PreparedRun(*kernel).run({}, pointers, {&y, 1});
  for (size_t i = 0; i < 48; ++i) EXPECT_EQ(std::isnan(y.tensor().data<float>()[i]), i / 8 == 1 || i / 8 == 2) << i;
}

// A probability of 0 times what is no number is none: values that finite biases hide count where they are not finite.
TEST(AttentionKernel, FiniteBiasesHideFiniteValuesOnly) {
  AttentionCase c = attention_case("", {}, {{1, 1, 20, 8}, {1, 1, 40, 8}, {1, 1, 40, 8}, {20, 40}});
  std::ranges::fill(c.inputs[3].data<float>(), -1e9f);
  for (size_t row = 0; row < 20; ++row) c.inputs[3].data<float>()[row * 40] = 0;
  c.inputs[2].data<float>()[39 * 8] = INFINITY;
  kernels::KernelData data{"Attention", {}, {}, 1};
  std::vector<Datum> datums(c.inputs.begin(), c.inputs.end());
  std::vector<const Datum*> pointers;
  for (const Datum& datum : datums) {
    data.inputs.push_back({.present = true, .dtype = DType::F32, .shape = datum.tensor().shape(), .constant = {}});
    pointers.push_back(&datum);
  }
  const auto kernel = generating_kernels().prepare(data);
  ASSERT_TRUE(kernel);
  Datum y;
  kernels::PreparedRun(*kernel).run({}, pointers, {&y, 1});
  for (size_t i = 0; i < 160; ++i) EXPECT_EQ(std::isnan(y.tensor().data<float>()[i]), i % 8 == 0) << i;
}

TEST(AttentionKernel, LeavesTheRestToOthers) {
  auto is_generated = [](DType queries, DType mask, size_t outputs) {
    kernels::KernelData data{"Attention", {}, {}, outputs};
    for (DType dtype : {queries, DType::F32, DType::F32, mask})
      data.inputs.push_back({.present = true, .dtype = dtype, .shape = std::nullopt, .constant = {}});
    return generating_kernels().prepare(data) != nullptr;
  };
  EXPECT_TRUE(is_generated(DType::F32, DType::F32, 3));
  EXPECT_TRUE(is_generated(DType::F32, DType::Bool, 1));
  EXPECT_FALSE(is_generated(DType::F16, DType::F32, 1));
  EXPECT_FALSE(is_generated(DType::F32, DType::I64, 1));
  EXPECT_FALSE(is_generated(DType::F32, DType::F32, 4));
}

}  // namespace
}  // namespace anfora::codegen
