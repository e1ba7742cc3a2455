#include "kernels/reference/strided_view.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "anfora/error.h"
#include "kernels/reference/weights.h"
#include "support/deferred_elements.h"

namespace anfora::kernels {
namespace {

using Integers = std::vector<int64_t>;

Tensor vector_of(const Integers& elements) { return Tensor::vector<int64_t>(elements); }

// Where the elements of a view lie, by counting.
Integers places(const StridedView& view) {
  Integers result(static_cast<size_t>(element_count(view.shape)));
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = view.offset;
    for (size_t axis = view.shape.size(), rest = i; axis-- > 0;) {
      result[i] += static_cast<int64_t>(rest) % view.shape[axis] * view.strides[axis];
      rest /= static_cast<size_t>(view.shape[axis]);
    }
  }
  return result;
}

Integers integers_up_to(int64_t count) {
  Integers result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

TEST(StridedView, SaysWhatOperatorsMoveWithoutMoving) {
  const StridedView all = StridedView::dense(Shape{2, 3, 4});
  EXPECT_TRUE(all.is_dense());
  EXPECT_EQ(all.permuted(std::nullopt).shape, (Shape{4, 3, 2}));
  EXPECT_EQ(all.permuted(Shape{1, 0, 2}).strides, (Shape{4, 12, 1}));
  EXPECT_TRUE(StridedView::dense(Shape{1, 3, 4}).permuted(Shape{1, 0, 2}).is_dense()) << "an axis of one element has no order";
  EXPECT_THROW(all.permuted(Shape{1, 1, 2}), Error);

  const Tensor last = vector_of({-1}), steps = vector_of({-2});
  const StridedView backwards = all.sliced(vector_of({-1}), vector_of({-9}), &last, &steps);
  EXPECT_EQ(backwards.shape, (Shape{2, 3, 2}));
  EXPECT_EQ(places(backwards), (Integers{3, 1, 7, 5, 11, 9, 15, 13, 19, 17, 23, 21}));
  EXPECT_EQ(all.sliced(vector_of({1, 2}), vector_of({9, 2}), nullptr, nullptr).shape, (Shape{1, 0, 4}));
  EXPECT_THROW(all.sliced(vector_of({0}), vector_of({1, 2}), nullptr, nullptr), Error);
}

TEST(StridedView, IsReshapedWhereStridesSaySo) {
  const StridedView turned = StridedView::dense(Shape{6, 4}).permuted(std::nullopt);
  EXPECT_EQ(places(*turned.reshaped(Shape{2, 2, 1, 3, 2})), places(turned));
  EXPECT_EQ(places(*turned.reshaped(Shape{1, 4, 6, 1})), places(turned));
  EXPECT_FALSE(turned.reshaped(Shape{24}));
  EXPECT_FALSE(turned.reshaped(Shape{2, 12}));
  EXPECT_EQ(StridedView::dense(Shape{}).reshaped(Shape{1, 1})->shape, (Shape{1, 1}));
  EXPECT_EQ(StridedView::dense(Shape{3, 0}).reshaped(Shape{0, 5})->shape, (Shape{0, 5}));
}

TEST(StridedView, ChainsAgreeWithCounting) {
  std::mt19937 random(56);
  const auto any = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
  const Tensor source = Tensor::vector<int64_t>(integers_up_to(240));
  int reshaped = 0;
  for (int i = 0; i < 400; ++i) {
    StridedView view = StridedView::dense(Shape{2, 3, 4, 1, 10});
    for (int64_t step = any(4); step-- > 0;) {
      const Integers before = places(view);
      const Tensor axes = vector_of({any(std::ssize(view.shape) - 1)}), by = vector_of({any(1) == 0 ? 1 : -1});
      Shape perm(view.shape.size());
      std::iota(perm.begin(), perm.end(), 0);
      std::ranges::shuffle(perm, random);
      switch (any(2)) {
        case 0: view = view.permuted(perm); break;
        case 1: view = view.sliced(vector_of({by.data<int64_t>()[0]}), vector_of({by.data<int64_t>()[0] * 100}), &axes, &by); break;
        default: {
          Shape shape(view.shape);
          shape.push_back(1);
          const size_t axis = static_cast<size_t>(any(std::ssize(shape) - 2));
          shape[axis] *= std::exchange(shape[axis + 1], 1);
          if (auto other = view.reshaped(shape)) {
            EXPECT_EQ(places(*other), before);
            view = *other;
            ++reshaped;
          }
        }
      }
    }
    const Integers expected = places(view);
    const int64_t begin = any(std::ssize(expected)), count = any(std::ssize(expected) - begin);
    Integers part(static_cast<size_t>(count));
    view.copy(DType::I64, source.raw(), begin, count, part.data());
    EXPECT_EQ(part, Integers(expected.begin() + begin, expected.begin() + begin + count));
  }
  EXPECT_GT(reshaped, 50);
}

TEST(MovedElements, AreMovedWhenTheyAreRead) {
  const std::array<int64_t, 2> shape{3, 4};
  const Tensor weights = Tensor::vector<int64_t>(integers_up_to(12)).reshaped(shape);
  const Tensor moved = moved_elements(weights, StridedView::dense(shape).permuted(std::nullopt), Shape{2, 6});
  EXPECT_TRUE(DeferredElements::are_missing(moved));
  std::array<int64_t, 4> part{};
  DeferredElements::copy_bytes(moved, 4 * sizeof(int64_t), sizeof part, reinterpret_cast<std::byte*>(part.data()));
  EXPECT_EQ(part, (std::array<int64_t, 4>{5, 9, 2, 6}));
  EXPECT_TRUE(DeferredElements::are_missing(moved));
  EXPECT_EQ(moved.data<int64_t>()[11], 11);
}

}  // namespace
}  // namespace anfora::kernels
