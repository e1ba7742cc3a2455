// Parts of a Concat that are written where its result has them.
#include "plan/slices.h"

#include "kernels/reference/prepared.h"
#include "plan_fixture.h"
#include "prepare_kernel.h"

namespace anfora::plan {
namespace {

class PlanSlices : public PlanTest {
 protected:
  Node* image(std::string_view name, int64_t channels, int64_t width = 4) { return parameter(main, DType::F32, {dim(1), dim(3), dim(width), dim(channels)}, name); }
  // One whose kernel writes rows that lie apart.
  Node* turned(Node* x) { return op(main, "Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}); }
  Node* concat(std::initializer_list<Node*> parts, int64_t axis = -1) { return op(main, "Concat", parts, {{"axis", axis}}); }
  Node* integers(std::vector<int64_t> values) { return module.constant(Tensor::vector<int64_t>(values)); }
  // So that the result of a Concat is no result of the function.
  Node* used(Node* x) { return op(main, "Relu", {x}); }

  // Compiled and run; how many slices there are.
  size_t slices_of(Node* result, std::vector<Datum> inputs) {
    runtime::Executable executable = finish(result);
    run(executable, std::move(inputs));
    return executable.program().functions[executable.program().main].slices.size();
  }
  static Datum random(std::vector<int64_t> shape, int seed) { return random_tensor(std::move(shape), seed); }
};

TEST_F(PlanSlices, AreWrittenWhereTheWholeHasThem) {
  Node *x = image("x", 5), *y = image("y", 7), *z = image("z", 2);
  EXPECT_EQ(slices_of(used(concat({turned(x), turned(y), turned(z)})), {random({1, 3, 4, 5}, 1), random({1, 3, 4, 7}, 2), random({1, 3, 4, 2}, 3)}), 3);
}

TEST_F(PlanSlices, NotByKernelsThatWriteDenseTensorsAlone) {
  EXPECT_EQ(slices_of(used(concat({used(image("x", 5)), used(image("y", 7))})), {random({1, 3, 4, 5}, 1), random({1, 3, 4, 7}, 2)}), 0);
}

TEST_F(PlanSlices, PartsOfConstantsAndArgumentsLeaveRoom) {
  Node *x = image("x", 5), *y = parameter(main, DType::F32, {dim(1), dim(4), dim(3), dim(6)}, "y");
  EXPECT_EQ(slices_of(used(concat({y, module.constant(random_tensor({1, 4, 3, 2}, 9)), turned(x)})), {random({1, 3, 4, 5}, 1), random({1, 4, 3, 6}, 2)}), 1);
}

TEST_F(PlanSlices, NotWhereSomebodyElseReadsThePart) {
  Node *x = image("x", 5), *y = image("y", 7);
  Node* part = turned(x);
  EXPECT_EQ(slices_of(tuple(main, {used(concat({part, turned(y)})), used(part)}), {random({1, 3, 4, 5}, 1), random({1, 3, 4, 7}, 2)}), 1);
}

TEST_F(PlanSlices, OthersMayReadRowsThatLieApart) {
  Node *x = image("x", 5), *y = image("y", 7);
  Node *part = turned(x), *back = turned(part);
  EXPECT_EQ(slices_of(tuple(main, {used(back), used(concat({part, turned(y)}))}), {random({1, 3, 4, 5}, 1), random({1, 3, 4, 7}, 2)}), 2);
}

TEST_F(PlanSlices, WhatASliceTakesIsReadWhereItLies) {
  Node* whole = turned(image("x", 12));
  auto sliced = [&](int64_t begin, int64_t end) { return op(main, "Slice", {whole, integers({begin}), integers({end}), integers({-1})}); };
  Node *head = turned(sliced(0, 5)), *tail = turned(sliced(-7, 12));
  EXPECT_EQ(slices_of(tuple(main, {used(tail), used(head), used(sliced(2, 3))}), {random({1, 3, 4, 12}, 1)}), 2) << "Relu reads dense tensors alone";
}

TEST_F(PlanSlices, NotWhereTheWholeIsOverwritten) {
  Node* whole = turned(image("x", 12));
  Node* head = op(main, "Slice", {whole, integers({0}), integers({6}), integers({3})});
  Node* changed = op(main, "Neg", {used(whole)});
  Node* both = op(main, "Add", {turned(head), turned(op(main, "Slice", {changed, integers({6}), integers({12}), integers({3})}))});
  slices_of(used(both), {random({1, 3, 4, 12}, 1)});
}

// A kernel that could write over the slice, or over the whole while it reads the slice.
TEST_F(PlanSlices, NobodyWritesOverThem) {
  Node* whole = turned(image("x", 12, 1));  // of three rows
  Node* row = turned(parameter(main, DType::F32, {dim(1), dim(1), dim(1), dim(12)}, "y"));
  auto sliced = [&](Node* of, int64_t begin, int64_t end) { return op(main, "Slice", {of, integers({begin}), integers({end}), integers({3})}); };
  Node* head = sliced(row, 0, 6);
  Node* one = sliced(row, 2, 3);
  Node* shifted = op(main, "Add", {row, one});
  Node* part = sliced(whole, 1, 2);
  Node* sum = op(main, "Mul", {whole, turned(turned(part))});
  slices_of(tuple(main, {used(op(main, "Neg", {head})), used(shifted), used(sum)}), {random({1, 3, 1, 12}, 1), random({1, 1, 1, 12}, 2)});
}

// Where the axes before are of one, any kernel reads it, and views may be taken of it.
TEST_F(PlanSlices, WhatLiesSideBySideIsNotCopied) {
  Node* whole = turned(image("x", 12));
  auto sliced = [&](int64_t begin, int64_t end) { return op(main, "Slice", {whole, integers({begin}), integers({end}), integers({1})}); };
  Node* reshaped = op(main, "Reshape", {sliced(1, 3), integers({-1, 12})});
  Node* taken = op(main, "Gather", {whole, module.constant(Tensor::scalar<int64_t>(-1))}, {{"axis", int64_t{1}}});
  Node* both = op(main, "Mul", {used(reshaped), op(main, "Neg", {reshaped})});
  EXPECT_EQ(slices_of(tuple(main, {used(sliced(3, 4)), both, used(taken), used(whole)}), {random({1, 3, 4, 12}, 1)}), 3);
}

TEST_F(PlanSlices, OfASplit) {
  Node* whole = op(main, "Reshape", {turned(image("x", 12)), integers({6, 24})});
  Node* split = op(main, "Split", {whole}, {{"axis", int64_t{0}}, {"num_outputs", int64_t{3}}}, 3);
  Node* sum = op(main, "Add", {used(module.tuple_item(main, split, 0)), used(module.tuple_item(main, split, 2))});
  EXPECT_EQ(slices_of(tuple(main, {sum, used(module.tuple_item(main, split, 1))}), {random({1, 3, 4, 12}, 1)}), 3);
}

TEST_F(PlanSlices, OfRowsOfAnySize) {
  Node* whole = turned(parameter(main, DType::F32, {dim(1), symbol("n"), dim(4), dim(5)}, "x"));
  Node* taken = op(main, "Gather", {whole, module.constant(Tensor::scalar<int64_t>(2))}, {{"axis", int64_t{1}}});
  runtime::Executable executable = finish(used(op(main, "Neg", {taken})));
  EXPECT_EQ(executable.program().functions[0].slices.size(), 0) << "where it begins depends on n";
  for (int64_t n : {2, 1, 5}) run(executable, {random({1, n, 4, 5}, 1)});
}

TEST_F(PlanSlices, NotOfNothing) {
  Node* empty = turned(image("x", 0));
  EXPECT_EQ(slices_of(used(op(main, "Gather", {empty, module.constant(Tensor::scalar<int64_t>(1))}, {{"axis", int64_t{1}}})), {random({1, 3, 4, 0}, 1)}), 0);
}

TEST_F(PlanSlices, NotTwice) {
  Node* part = turned(image("x", 5));
  EXPECT_EQ(slices_of(used(concat({part, part})), {random({1, 3, 4, 5}, 1)}), 0);
}

TEST_F(PlanSlices, AnyKernelWritesWhereThereIsOneRow) {
  Node *x = image("x", 5), *y = image("y", 5, 6);
  auto doubled = [&](Node* of) { return op(main, "Mul", {of, constant({2})}); };
  Node* transposed = op(main, "Transpose", {concat({doubled(op(main, "Relu", {turned(x)})), doubled(op(main, "Relu", {turned(y)}))}, 1)});
  EXPECT_EQ(slices_of(used(transposed), {random({1, 3, 4, 5}, 1), random({1, 3, 6, 5}, 2)}), 2);
}

TEST_F(PlanSlices, NotIntoTheResultOfTheFunction) {
  EXPECT_EQ(slices_of(concat({turned(image("x", 5)), turned(image("y", 7))}), {random({1, 3, 4, 5}, 1), random({1, 3, 4, 7}, 2)}), 0)
      << "the caller may give memory for it";
}

// From the first part on the whole takes memory, and between them lies what needs much.
TEST_F(PlanSlices, NotWhereTheArenaWouldGrow) {
  Node *x = image("x", 5), *y = image("y", 500);
  Node* part = turned(x);
  Node* large = op(main, "Tile", {y, integers({1, 1, 1, 3})});
  Node* last = turned(op(main, "Slice", {large, integers({300}), integers({800}),
                                         integers({3})}));
  EXPECT_EQ(slices_of(used(concat({part, last})), {random({1, 3, 4, 5}, 1), random({1, 3, 4, 500}, 2)}), 1);
}

TEST_F(PlanSlices, OfBatchesOfAnySize) {
  auto batch = [&](std::string_view name, int64_t channels) { return parameter(main, DType::F32, {symbol("n"), dim(3), dim(4), dim(channels)}, name); };
  Node *x = batch("x", 5), *y = batch("y", 7);
  runtime::Executable executable = finish(used(concat({turned(x), turned(y)})));
  EXPECT_EQ(executable.program().functions[0].slices.size(), 2);
  for (int64_t n : {2, 1, 5}) run(executable, {random({n, 3, 4, 5}, 1), random({n, 3, 4, 7}, 2)});
}

TEST_F(PlanSlices, OfPoolings) {
  auto pooled = [&](Node* x) {
    return op(main, "LoweredMaxPool", {x}, {{"channels_last", int64_t{1}}, {"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{1, 1}}});
  };
  CompileOptions options;
  options.prepared = {&kernels::prepared_reference_kernels()};
  runtime::Executable executable = finish(used(concat({pooled(image("x", 5)), pooled(image("y", 37))})), options);
  EXPECT_EQ(executable.program().functions[0].slices.size(), 2);
  run(executable, {random({1, 3, 4, 5}, 1), random({1, 3, 4, 37}, 2)});
}

}  // namespace
}  // namespace anfora::plan
