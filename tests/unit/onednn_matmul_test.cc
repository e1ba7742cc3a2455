#include "prepare_kernel.h"

namespace anfora {
namespace {

using Dims = std::vector<int64_t>;

TEST(OnednnMatMul, BroadcastsAndBatches) {
  struct Case {
    Dims a, b;
  };
  const Case cases[] = {
      {{5, 7}, {7, 9}},
      {{2, 3, 5, 7}, {7, 9}},
      {{2, 3, 5, 7}, {2, 3, 7, 9}},
      {{2, 1, 5, 7}, {3, 7, 9}},
      {{1, 3, 5, 7}, {2, 1, 7, 9}},
      {{3, 5, 7}, {2, 3, 7, 9}},
      {{2, 3, 1, 16}, {16, 24}},
      {{1, 1, 5, 7}, {1, 1, 7, 1}},
      {{5, 7}, {4, 7, 9}},
      {{7}, {7, 9}},
      {{2, 5, 7}, {7}},
      {{7}, {7}},
      {{7}, {3, 7, 2}},
      {{1, 64, 128}, {128, 256}},
      {{64, 1, 128}, {128, 32}},
      {{2, 4, 33, 64}, {2, 4, 64, 33}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.a) + " by " + to_string(c.b));
    Tensor a = random_tensor(c.a, 1), b = random_tensor(c.b, 2);
    expect_prepared("MatMul", {}, {a, b}, 2);
    expect_prepared("MatMul", {}, {a, b}, 1);
    expect_prepared("MatMul", {}, {a, b}, 1, true);
  }
}

// More rows than the library counts: nobody has them, but a model may say so.
TEST(OnednnMatMul, LeavesHugeAxesToTheReference) {
  const Shape a{2, 3, int64_t{1} << 40, 8}, b{2, 3, 8, 6};
  kernels::KernelData data{"MatMul", {}, {{true, DType::F32, a, {}}, {true, DType::F32, b, {}}}, 1};
  EXPECT_FALSE(kernels::onednn_kernels().prepare(data));
}

TEST(OnednnMatMul, Gemm) {
  for (int64_t transA : {0, 1}) {
    for (int64_t transB : {0, 1}) {
      AttributeSet attributes{{"transA", transA}, {"transB", transB}};
      Tensor a = random_tensor(transA ? Dims{12, 6} : Dims{6, 12}, 1);
      Tensor b = random_tensor(transB ? Dims{20, 12} : Dims{12, 20}, 2);
      expect_prepared("Gemm", attributes, {a, b}, 1);
      for (const Dims& c : {Dims{20}, Dims{1, 20}, Dims{6, 20}, Dims{1}, Dims{}}) {
        SCOPED_TRACE(to_string(c));
        expect_prepared("Gemm", attributes, {a, b, random_tensor(c, 3)}, 1);
        expect_prepared("Gemm", attributes.with("alpha", 0.5f), {a, b, random_tensor(c, 3)}, 2);
      }
    }
  }
}

TEST(OnednnMatMul, PermutedOperands) {
  // Attention: [batch, sequence, heads, width] operands as they come from the projections.
  Tensor q = random_tensor({2, 10, 4, 16}, 1), k = random_tensor({2, 12, 4, 16}, 2),
         v = random_tensor({2, 12, 4, 16}, 3);
  Tensor mask = random_tensor({2, 1, 1, 12}, 4);
  AttributeSet scores{{"perm_a", Dims{0, 2, 1, 3}}, {"perm_b", Dims{0, 2, 3, 1}}, {"alpha", 0.25f}};
  expect_prepared("LoweredMatMul", scores, {q, k}, 2);
  expect_prepared("LoweredMatMul", scores, {q, k, Tensor(), mask}, 2);
  Tensor weights = random_tensor({2, 4, 10, 12}, 6);
  AttributeSet context{{"perm_b", Dims{0, 2, 1, 3}}, {"perm_y", Dims{0, 2, 1, 3}}};
  expect_prepared("LoweredMatMul", context, {weights, v}, 2);
  // Queries that are added lie as the product does without its transpose.
  expect_prepared("LoweredMatMul", context, {weights, v, Tensor(), random_tensor({2, 4, 10, 16}, 5)}, 2);
  expect_prepared("LoweredMatMul", context.with("alpha", 0.5f), {weights, v, Tensor(), random_tensor({2, 4, 10, 16}, 5)}, 2);
  // One query, as a decoder has.
  const Tensor query = random_tensor({2, 1, 4, 16}, 9), weights_of_one = random_tensor({2, 4, 1, 12}, 10);
  for (bool is_open : {false, true}) {
    expect_prepared("LoweredMatMul", scores, {query, k}, 2, is_open);
    expect_prepared("LoweredMatMul", scores, {query, k, Tensor(), mask}, 2, is_open);
    expect_prepared("LoweredMatMul", scores.with("activation", std::string("Relu")), {query, k}, 2, is_open);
    expect_prepared("LoweredMatMul", context, {weights_of_one, v}, 2, is_open);
    expect_prepared("LoweredMatMul", context.with("alpha", 0.5f), {weights_of_one, v}, 2, is_open);
  }
  // Rows that are a batch of matrices of one row.
  AttributeSet rows{{"perm_a", Dims{1, 0, 2}}};
  expect_prepared("LoweredMatMul", rows, {random_tensor({1, 20, 16}, 7), random_tensor({16, 24}, 8)}, 1);
  expect_prepared("LoweredMatMul", rows, {random_tensor({3, 20, 16}, 7), random_tensor({16, 24}, 8)}, 1);
}

TEST(OnednnMatMul, Epilogues) {
  Tensor a = random_tensor({2, 9, 16}, 1), b = random_tensor({16, 24}, 2), c = random_tensor({24}, 3);
  Tensor z = random_tensor({2, 9, 24}, 4);
  for (const char* activation : {"", "Relu", "Gelu", "GeluTanh", "Swish"}) {
    AttributeSet attributes;
    if (*activation) attributes = attributes.with("activation", std::string(activation));
    expect_prepared("LoweredMatMul", attributes, {a, b, c}, 1);
    expect_prepared("LoweredMatMul", attributes, {a, b, c, z}, 1);
    expect_prepared("LoweredMatMul", attributes, {a, b, Tensor(), z}, 1);
  }
}

// Constant weights are multiplied by the primitive that suits rows and depth best; each must know every epilogue.
TEST(OnednnMatMul, EpiloguesOfConstantWeightsOfAllSizes) {
  struct Size {
    int64_t depth, columns;
  };
  for (auto [depth, columns] : {Size{1, 70}, Size{9, 70}, Size{64, 1}, Size{64, 70}, Size{2050, 70}}) {
    for (int64_t rows : {1, 4, 12, 50, 97}) {
      SCOPED_TRACE(to_string(Dims{rows, depth, columns}));
      Tensor a = random_tensor({rows, depth}, 1), b = random_tensor({depth, columns}, 2);
      Tensor c = random_tensor({columns}, 3), z = random_tensor({rows, columns}, 4);
      AttributeSet gelu{{"activation", std::string("Gelu")}}, half{{"alpha", 0.5f}};
      const float tolerance = 1e-5f * std::sqrt(static_cast<float>(depth));
      expect_prepared("LoweredMatMul", gelu, {a, b, c, z}, 1, false, tolerance);
      expect_prepared("LoweredMatMul", gelu, {a, b, c, z}, 1, true, tolerance);
      for (const Dims& added : {Dims{1, 1}, Dims{1, columns}, Dims{}}) {
        expect_prepared("LoweredMatMul", half, {a, b, c, random_tensor(added, 5)}, 1, false, tolerance);
      }
      AttributeSet transposed{{"perm_a", Dims{1, 0}}, {"perm_b", Dims{1, 0}}};
      if (rows == 1) transposed = transposed.with("perm_y", Dims{1, 0});  // a column that is a row in memory
      Tensor at = random_tensor({depth, rows}, 6), bt = random_tensor({columns, depth}, 7);
      expect_prepared("LoweredMatMul", transposed, {at, bt}, 1, false, tolerance);
      expect_prepared("LoweredMatMul", transposed, {at, bt}, 2, false, tolerance);
      expect_prepared("Gemm", AttributeSet{{"transB", int64_t{1}}}, {a, bt, c}, 1, false, tolerance);
    }
  }
}

// Whatever the order of summation: an error of a few roundings of the sum of magnitudes.
TEST(OnednnMatMul, IsAsAccurateAsSinglePrecisionAllows) {
  constexpr double kUnitRoundoff = 0x1p-24, kRoundings = 8;
  for (int64_t rows : {1, 20, 130}) {
    for (int64_t depth : {100, 4000}) {
      Tensor a = random_tensor({rows, depth}, 1), b = random_tensor({depth, 48}, 2);
      kernels::InputDescription left{true, DType::F32, a.shape(), {}}, right{true, DType::F32, b.shape(), b};
      std::vector<kernels::InputDescription> inputs{left, right};
      AttributeSet none;
      kernels::KernelData data{"MatMul", none, inputs, 1};
      const auto kernel = kernels::onednn_kernels().prepare(data);
      ASSERT_TRUE(kernel);
      kernels::PreparedRun prepared(*kernel);
      Datum a_datum(a), b_datum(b);
      std::vector<const Datum*> pointers{&a_datum, &b_datum};
      std::vector<Datum> results(1);
      prepared.run(none, pointers, results);
      auto x = a.data<float>(), w = b.data<float>(), y = results[0].tensor().data<float>();
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < 48; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t k = 0; k < depth; ++k) {
            const double term = double{x[i * depth + k]} * double{w[k * 48 + j]};
            sum += term, magnitude += std::abs(term);
          }
          ASSERT_LE(std::abs(y[i * 48 + j] - sum), kRoundings * kUnitRoundoff * magnitude) << rows << " " << depth;
        }
      }
    }
  }
}

TEST(OnednnMatMul, WeightsArePackedOnceForAllShapes) {
  Tensor b = random_tensor({32, 48}, 2);
  AttributeSet none;
  kernels::InputDescription a{true, DType::F32, Shape{-1, 32}, {}}, weights{true, DType::F32, b.shape(), b};
  std::vector<kernels::InputDescription> inputs{a, weights};
  kernels::KernelData data{"MatMul", none, inputs, 1};
  const auto kernel = kernels::onednn_kernels().prepare(data);
  ASSERT_TRUE(kernel);
  kernels::PreparedRun prepared(*kernel);
  for (int64_t rows : {1, 2, 17, 64, 1, 0, 200}) {
    SCOPED_TRACE(rows);
    Tensor left = random_tensor({rows, 32}, static_cast<int>(rows));
    Datum left_datum(left), right_datum(b);
    std::vector<const Datum*> pointers{&left_datum, &right_datum};
    std::vector<Datum> results(1);
    prepared.run(none, pointers, results);
    expect_close(results[0].tensor(), run_kernel("MatMul", none, {left, b})[0], 1e-5f);
  }
}

}  // namespace
}  // namespace anfora
