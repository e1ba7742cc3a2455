// Gather and ScatterND whose indices are known beforehand.
#include "kernels/reference/prepared.h"
#include "prepare_kernel.h"

namespace anfora {
namespace {

const kernels::PreparedRegistry& runs_registry() { return kernels::prepared_reference_kernels(); }

// Tuples of all places of a box, in order: a begin and an end for each axis.
Tensor places_of_box(const std::vector<std::pair<int64_t, int64_t>>& box) {
  std::vector<int64_t> shape;
  for (const auto& [begin, end] : box) shape.push_back(end - begin);
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  shape.push_back(std::ssize(box));
  Tensor tuples = Tensor::allocate(DType::I64, shape);
  int64_t* to = tuples.data<int64_t>().data();
  for (int64_t i = 0; i < count; ++i, to += box.size()) {
    int64_t left = i;
    for (size_t axis = box.size(); axis-- > 0;) {
      const int64_t extent = box[axis].second - box[axis].first;
      to[axis] = box[axis].first + left % extent;
      left /= extent;
    }
  }
  return tuples;
}

// begin, begin + 1, … count times, in rows that begin `stride` apart.
Tensor windows(int64_t rows, int64_t count, int64_t begin, int64_t stride, DType dtype = DType::I64) {
  Tensor indices = Tensor::allocate(dtype, Shape{rows, count});
  dispatch<TypeList<int32_t, int64_t>>(dtype, [&]<class T>() {
    for (int64_t i = 0; i < rows * count; ++i) indices.data<T>()[static_cast<size_t>(i)] = static_cast<T>(begin + i / count * stride + i % count);
  });
  return indices;
}

Tensor updates_for(const Tensor& indices, const Tensor& x) {
  std::vector<int64_t> shape(indices.shape().begin(), indices.shape().end() - 1);
  shape.insert(shape.end(), x.shape().begin() + indices.shape().back(), x.shape().end());
  return random_tensor(shape, 7, x.dtype());
}

bool is_taken(std::string_view op, const std::vector<Tensor>& inputs, const AttributeSet& attributes = {}, bool is_known = true) {
  kernels::KernelData data{std::string(op), attributes, {}, 1};
  for (size_t i = 0; i < inputs.size(); ++i) {
    data.inputs.push_back({.present = true, .dtype = inputs[i].dtype(), .shape = is_known ? std::optional(inputs[i].shape()) : std::nullopt, .constant = {}});
    if (i == 1) data.inputs[i].constant = inputs[i];
  }
  return runs_registry().prepare(data) != nullptr;
}

TEST(PlacedRuns, AssignToSlices) {
  for (DType dtype : {DType::F32, DType::F16}) {
    const Tensor x = random_tensor({5, 8, 30}, 1, dtype);
    for (const Tensor& indices :
         {places_of_box({{1, 4}, {2, 7}, {3, 29}}), places_of_box({{0, 5}, {0, 8}, {0, 30}}), places_of_box({{-4, -1}, {-6, -1}, {-30, -1}})}) {
      expect_prepared("ScatterND", {}, {x, indices, updates_for(indices, x)}, {1}, false, 0, 1, runs_registry());
    }
    const Tensor rows = random_tensor({20, 30, 6}, 2, dtype), places = places_of_box({{3, 20}, {2, 28}});
    expect_prepared("ScatterND", {}, {rows, places, updates_for(places, rows)}, {1}, false, 0, 1, runs_registry());
  }
}

TEST(PlacedRuns, GatherWindows) {
  const Tensor flat = random_tensor({4000}, 1), images = random_tensor({3, 400, 6}, 2);
  expect_prepared("Gather", {}, {flat, windows(20, 64, 5, 30)}, {1}, false, 0, 1, runs_registry());
  expect_prepared("Gather", {}, {flat, windows(20, 64, -2000, 30, DType::I32)}, {1}, false, 0, 1, runs_registry());
  expect_prepared("Gather", {{"axis", int64_t{1}}}, {images, windows(10, 40, 0, 35)}, {1}, false, 0, 1, runs_registry());
  expect_prepared("Gather", {{"axis", int64_t{-2}}}, {images, windows(10, 40, -400, 35)}, {1}, false, 0, 1, runs_registry());
}

TEST(PlacedRuns, LeaveTheRestToOthers) {
  const Tensor x = random_tensor({40, 30}, 1), box = places_of_box({{3, 20}, {2, 28}}), u = updates_for(box, x);
  EXPECT_TRUE(is_taken("ScatterND", {x, box, u}));
  EXPECT_FALSE(is_taken("ScatterND", {x, box, u}, {}, false)) << "shapes are not known";
  EXPECT_FALSE(is_taken("ScatterND", {x, box, u}, {{"reduction", std::string("add")}}));
  EXPECT_FALSE(is_taken("ScatterND", {x, box, random_tensor({17, 25}, 1)})) << "updates of another shape";
  EXPECT_FALSE(is_taken("ScatterND", {x, places_of_box({{30, 47}, {2, 28}}), u})) << "an index is out of range";
  Tensor twice = box.clone();
  for (int64_t i = 0; i < 26; ++i) twice.data<int64_t>()[static_cast<size_t>(2 * i)] = 4;  // as the second row
  EXPECT_FALSE(is_taken("ScatterND", {x, twice, u})) << "the order of two updates of one place counts";
  const Tensor flat = random_tensor({4000}, 2);
  EXPECT_FALSE(is_taken("Gather", {flat, windows(400, 3, 5, 9)})) << "runs are short";
  EXPECT_FALSE(is_taken("Gather", {flat, windows(10, 40, 3950, 35)})) << "an index is out of range";
  EXPECT_FALSE(is_taken("Gather", {flat, windows(10, 4, 5, 35)})) << "indices are few";
  EXPECT_FALSE(is_taken("Gather", {flat, windows(10, 40, 5, 35)}, {{"axis", int64_t{1}}})) << "there is no such axis";
}

}  // namespace
}  // namespace anfora
