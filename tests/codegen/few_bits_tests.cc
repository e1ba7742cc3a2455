// Products by weights of 4 and 8 bits that are dequantized as they are read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "both_ways.h"
#include "codegen/product.h"
#include "kernels/generated/product.h"
#include "prepared.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;

using Dims = std::vector<int64_t>;

constexpr const char* kProduct = "LoweredMatMulDequantized";

// All values of the type.
Tensor random_few_bits(DType dtype, const Dims& shape, unsigned seed) {
  Tensor tensor = random_bytes(dtype, shape, seed);
  constexpr int kBits = 4;
  auto* const bytes = static_cast<uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (dtype == DType::U4) bytes[i] >>= kBits;
    if (dtype == DType::I4) bytes[i] = static_cast<uint8_t>(static_cast<int8_t>(bytes[i]) >> kBits);
  }
  return tensor;
}

TEST(FewBits, ProductsAreThoseOfTheEvaluator) {
  constexpr int64_t kDepth = 40, kBlock = 16;
  for (Isa isa : isas_here()) {
    const Tile tile = product_tile(isa, 768);
    for (DType weights : {DType::I4, DType::I8}) {
      for (int rows : {1, 2, 3, tile.rows}) {
        for (bool has_zeros : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} rows, weights {}, zeros {}", describe(isa).name, rows, name(weights), has_zeros));
          ProductCode code{.isa = isa,
                           .tile = tile,
                           .depth = kDepth,
                           .block = kDepth,
                           .a_stride = kDepth,
                           .has_edge = has_zeros,
                           .weights = weights,
                           .scale_block = kBlock,
                           .has_zeros = has_zeros,
                           .epilogue = {}};
          code.epilogue.addends = {Addend::Row, Addend::None};
          const int at_once = code.panels_at_once(rows);
          const int64_t width = code.panel_columns(), panels = at_once + 1, columns = panels * width - (has_zeros ? 3 : 0);
          const Tensor a = random_tensor({rows, kDepth}, 1), b = random_bytes(DType::I32, {panels, code.weight_bytes(kDepth) / 4}, 2);
          const Tensor scales = random_tensor({panels, code.scale_blocks(), width}, 3), zeros = random_bytes(DType::I8, {panels, code.scale_blocks(), width}, 4);
          const Tensor c = random_tensor({columns}, 5);
          Tensor y = random_tensor({rows, columns}, 6);
          std::vector<int64_t> arguments(kProductArguments);
          arguments[kA] = address(a), arguments[kB] = address(b), arguments[kScale] = address(scales), arguments[kColumnZeros] = address(zeros);
          arguments[kYStride] = arguments[kColumns] = columns;
          arguments[kGroups] = panels / at_once, arguments[kRest] = panels % at_once;
          arguments[kAddend0] = address(c);
          BothWays product{product_function(code, rows), isa, {}}, dequantized{dequantizing_function(code), isa, {}};
          for (BothWays* both : {&product, &dequantized}) {
            for (const Tensor* tensor : {&a, &b, &scales, &zeros, &c})
              both->regions.push_back({static_cast<const float*>(tensor->raw()), static_cast<int64_t>(tensor->bytes() / sizeof(float))});
          }
          product.expect_equal(arguments, kY, y);
          arguments[kSteps] = kBlock / code.steps_of_word();
          Tensor panel = random_tensor({kBlock, width}, 7);
          dequantized.expect_equal(arguments, kY, panel);
        }
      }
    }
  }
}

// Bit for bit the product by the same weights in f32, for few rows and many, however the rest of the depth is divided into blocks.
void expect_dequantized(DType dtype, int64_t depth, int64_t columns, int64_t block, bool is_transposed, bool has_zeros) {
  SCOPED_TRACE(fmt::format("{} x {} {} by {}, transposed {}, zeros {}", depth, columns, name(dtype), block, is_transposed, has_zeros));
  const int64_t blocks = block > 0 ? (depth + block - 1) / block : 1;
  auto in_order = [&](int64_t k, int64_t n) { return is_transposed ? Dims{n, k} : Dims{k, n}; };
  const Dims shape = block > 0 ? in_order(blocks, columns) : Dims{columns};
  const int64_t axis = (block > 0) == is_transposed ? 1 : 0;
  const Tensor w = random_few_bits(dtype, in_order(depth, columns), 1), scales = random_tensor(shape, 2), c = random_tensor({columns}, 3);
  const Tensor zeros = has_zeros ? random_few_bits(dtype, shape, 4) : Tensor();
  AttributeSet attributes{{"axis", axis}, {"block_size", block}}, plain{{"activation", std::string("Relu")}};
  if (is_transposed) plain = plain.with("perm_b", Dims{1, 0});
  const Tensor wide = run_kernel("DequantizeLinear", attributes, {w, scales, zeros})[0];
  for (const auto& [name, value] : plain) attributes = attributes.with(name, value);
  for (int64_t rows : {1, 3, 40}) {
    SCOPED_TRACE(rows);
    const Tensor a = random_tensor({rows, depth}, 5);
    const Prepared expected("LoweredMatMul", plain, {a, wide, c}, "generated:product");
    const Tensor y = expected.run(*expected.kernel);
    for (bool has_open_rows : {false, true}) {
      const Prepared prepared(kProduct, attributes, {a, w, c, Tensor(), scales, zeros}, "", has_open_rows);
      ASSERT_TRUE(prepared.kernel);
      EXPECT_TRUE(Tensor::identical(prepared.run(*prepared.kernel), y));
      expect_the_same_again(prepared, y);
    }
  }
}

TEST(FewBits, ProductsAreThoseOfDequantizedWeights) {
  for (DType dtype : {DType::U4, DType::I4, DType::U8, DType::I8}) {
    for (bool has_zeros : {false, true}) {
      expect_dequantized(dtype, 64, 200, 16, true, has_zeros);
      expect_dequantized(dtype, 72, 17, 32, false, has_zeros);
      expect_dequantized(dtype, 2120, 48, 0, has_zeros, has_zeros);
      expect_dequantized(dtype, 1048, 100, 128, true, has_zeros);
    }
  }
  expect_dequantized(DType::I8, 37, 20, 5, true, true);
}

// One scale for all, and zero points in the middle, which are none.
TEST(FewBits, OneScale) {
  const Tensor a = random_tensor({2, 16}, 1), w = random_few_bits(DType::U8, {16, 32}, 2), zero = Tensor::scalar<uint8_t>(128);
  const Tensor scale = Tensor::scalar(0.25f);
  const Tensor wide = run_kernel("DequantizeLinear", {}, {w, scale, zero})[0];
  const Prepared prepared(kProduct, {}, {a, w, Tensor(), Tensor(), scale, zero}), expected("LoweredMatMul", {}, {a, wide}, "generated:product");
  ASSERT_TRUE(prepared.kernel);
  EXPECT_EQ(prepared.data.packed.size(), 3U) << "weights, scales and code";
  EXPECT_TRUE(Tensor::identical(prepared.run(*prepared.kernel), expected.run(*expected.kernel)));
}

// Where a run has no rows, the reference kernel reads the weights that were packed.
TEST(FewBits, NoRows) {
  const Tensor a = random_tensor({0, 16}, 1), w = random_few_bits(DType::I4, {32, 16}, 2), scales = random_tensor({32, 1}, 3), zeros = random_few_bits(DType::I4, {32, 1}, 4);
  const AttributeSet attributes{{"axis", int64_t{1}}, {"block_size", int64_t{16}}, {"perm_b", Dims{1, 0}}};
  const Prepared prepared(kProduct, attributes, {a, w, Tensor(), Tensor(), scales, zeros}, "", true);
  ASSERT_TRUE(prepared.kernel);
  EXPECT_EQ(prepared.run(*prepared.kernel).shape(), (Shape{0, 32}));
}

// Words of eight numbers do not end with a block of twelve.
TEST(FewBits, OtherBlocksHaveNoCode) {
  const Tensor a = random_tensor({2, 24}, 1), w = random_few_bits(DType::U4, {24, 32}, 2), scales = random_tensor({2, 32}, 3);
  const Prepared prepared(kProduct, {{"axis", int64_t{0}}, {"block_size", int64_t{12}}}, {a, w, Tensor(), Tensor(), scales}, "generated:product");
  EXPECT_FALSE(prepared.kernel);
}

}  // namespace
}  // namespace anfora::codegen
