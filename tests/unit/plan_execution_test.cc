#include "plan_fixture.h"

namespace anfora::plan {
namespace {

using Vector = std::vector<float>;

TEST_F(PlanTest, StraightLine) {
  Node* x = parameter(main, DType::F32, {dim(3)}, "x");
  auto model = finish(op(main, "Mul", {op(main, "Add", {x, x}), constant({1, 2, 3})}));
  EXPECT_EQ(floats(run(model, {vector({1, 2, 3})})[0]), (Vector{2, 8, 18}));
}

TEST_F(PlanTest, DiamondOfInPlaceOperatorsKeepsWhatIsStillRead) {
  Node* x = parameter(main, DType::F32, {dim(4)}, "x");
  Node* a = op(main, "Neg", {x});
  Node* b = op(main, "Add", {a, constant({1, 1, 1, 1})});  // a lives on: not in place
  Node* c = op(main, "Mul", {a, b});                       // both die here
  Node* d = op(main, "Sub", {c, x});
  auto model = finish(op(main, "Abs", {d}));
  EXPECT_EQ(floats(run(model, {vector({1, 2, 3, 4})})[0]), (Vector{1, 0, 3, 8}));
  // a and b, the only two that live at once.
  EXPECT_EQ(model.memory().arena_bytes, 128);
  EXPECT_EQ(model.memory().arena_lower_bound, 128);
}

TEST_F(PlanTest, WhatIsReadInAnotherOrderIsNotOverwritten) {
  Node* x = parameter(main, DType::I64, {symbol("N")}, "x");
  Node* permutation = op(main, "Neg", {op(main, "Neg", {x})});
  Node* scattered = op(main, "ScatterElements", {permutation, permutation, permutation});
  Node* found = op(main, "Compress",
                   {x, op(main, "GreaterOrEqual",
                          {x, module.constant(Tensor::scalar<int64_t>(0))})});  // of a size known at run time
  auto model = finish(tuple(main, {op(main, "Neg", {scattered}), op(main, "ScatterElements", {found, found, found})}));
  run(model, {Tensor::vector<int64_t>(std::vector<int64_t>{1, 2, 0, 4, 3})});
}

TEST_F(PlanTest, InputsAndConstantsAreNeverOverwritten) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  auto model = finish(tuple(main, {op(main, "Neg", {x}), op(main, "Neg", {constant({5, 6})})}));
  Datum input = vector({1, 2});
  for (int i = 0; i < 2; ++i) {
    auto outputs = run(model, {input});
    EXPECT_EQ(floats(outputs[0]), (Vector{-1, -2}));
    EXPECT_EQ(floats(outputs[1]), (Vector{-5, -6}));
  }
  EXPECT_EQ(floats(input), (Vector{1, 2}));
}

TEST_F(PlanTest, OutputsAreTheCallers) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  Node* c = constant({5, 6});
  Node* y = op(main, "Neg", {x});
  auto model = finish(tuple(main, {x, c, y, y}));
  Datum input = vector({1, 2});
  auto first = model.run({input});
  for (Datum& output : first) output.tensor().data<float>()[0] = 99;
  EXPECT_EQ(floats(input), (Vector{1, 2}));
  auto second = model.run({vector({3, 4})});
  EXPECT_EQ(floats(second[0]), (Vector{3, 4}));
  EXPECT_EQ(floats(second[1]), (Vector{5, 6}));
  EXPECT_EQ(floats(second[3]), (Vector{-3, -4}));
  EXPECT_EQ(floats(first[2]), (Vector{99, -2}));
}

TEST_F(PlanTest, ViewsShareTheMemoryOfWhatTheyView) {
  Node* x = parameter(main, DType::F32, {dim(4)}, "x");
  Node* a = op(main, "Neg", {x});
  Node* v = op(main, "Reshape", {a, module.constant(Tensor::vector<int64_t>(std::vector<int64_t>{2, 2}))});
  Node* b = op(main, "Exp", {a});  // a's class lives on through v
  Node* w = op(main, "Reshape", {b, module.constant(Tensor::vector<int64_t>(std::vector<int64_t>{2, 2}))});
  auto model = finish(op(main, "Abs", {op(main, "Sub", {v, w})}));
  EXPECT_EQ(floats(run(model, {vector({0, 0, 0, 0})})[0]), (Vector{1, 1, 1, 1}));
  EXPECT_EQ(model.memory().arena_bytes, 128);
}

TEST_F(PlanTest, SequencesThatChangeAreNotCopied) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  Node* last = module.constant(Tensor::scalar<int64_t>(-1));
  Node* s = op(main, "SequenceConstruct", {x, op(main, "Neg", {x})});
  Node* rest = op(main, "SequenceErase", {s, last});
  auto model = finish(op(main, "Sub", {op(main, "SequenceAt", {rest, last}), op(main, "SequenceAt", {s, last})}));
  EXPECT_EQ(floats(run(model, {vector({1, 2})})[0]), (Vector{2, 4}));
  const runtime::Function& function = model.program().functions[model.program().main];
  const auto erase = std::ranges::find_if(function.origins, [](const auto& origin) { return origin.node.find("SequenceErase") != std::string::npos; });
  ASSERT_NE(erase, function.origins.end());
  const auto index = static_cast<size_t>(erase - function.origins.begin());
  EXPECT_TRUE(function.last_uses[function.code[index].first_operand]);
}

TEST_F(PlanTest, SeveralResults) {
  Node* x = parameter(main, DType::F32, {dim(4)}, "x");
  ir::Apply* split = op(main, "Split", {x}, {{"num_outputs", int64_t{2}}}, 2);
  Node* b = module.tuple_item(main, split, 1);
  Node* a = module.tuple_item(main, split, 0);
  auto model = finish(op(main, "Sub", {op(main, "Neg", {b}), a}));
  EXPECT_EQ(floats(run(model, {vector({1, 2, 3, 4})})[0]), (Vector{-4, -6}));
}

TEST_F(PlanTest, DynamicShapesArePlannedOnceABinding) {
  Node* x = parameter(main, DType::F32, {symbol("N"), dim(2)}, "x");
  Node* y = parameter(main, DType::F32, {symbol("N") * 2 + 1}, "y");
  Node* a = op(main, "Exp", {op(main, "Abs", {x})});
  Node* b = op(main, "Sub", {op(main, "Exp", {y}), op(main, "Neg", {y})});
  auto model = finish(tuple(main, {op(main, "Neg", {a}), op(main, "Neg", {b})}));
  EXPECT_FALSE(model.memory().is_known);
  for (int64_t n : {2, 5, 2}) {
    std::vector<float> xs(static_cast<size_t>(2 * n), 0.f), ys(static_cast<size_t>(2 * n + 1), 0.f);
    auto outputs = run(model, {Tensor::from<float>(Shape{n, 2}, xs), vector(ys)});
    EXPECT_EQ(floats(outputs[0]), Vector(xs.size(), -1.f));
    EXPECT_EQ(floats(outputs[1]), Vector(ys.size(), -1.f));
  }
  EXPECT_TRUE(model.memory().is_known);
  EXPECT_EQ(model.memory().unplanned_values, 2u);  // the results
  EXPECT_EQ(model.memory().arena_bytes, model.memory().arena_lower_bound);
}

TEST_F(PlanTest, WorkspaceLiesInTheArenaFromTheSecondRunOn) {
  // The sum of halves is formed in f32: copies of both operands and of the result, behind x itself.
  constexpr int64_t kHalves = 2 * 64 * 64, kFloats = 4 * 64 * 64;
  Node* x = parameter(main, DType::F32, {symbol("N"), dim(64)}, "x");
  Node* h = op(main, "Cast", {x}, {{"to", int64_t{10}}});
  auto model = finish(op(main, "Cast", {op(main, "MatMul", {h, h})}, {{"to", int64_t{1}}}), {.reference_only = true});
  std::vector<Datum> inputs{Tensor::zeros(DType::F32, Shape{64, 64})}, outputs{Tensor::zeros(DType::F32, Shape{64, 64})};
  for (int i = 0; i < 2; ++i) model.run(inputs, outputs);
  EXPECT_EQ(model.memory().arena_bytes, 2 * kHalves + 3 * kFloats);
  EXPECT_EQ(model.memory().block_bytes, 0);
}

TEST_F(PlanTest, SizesKnownOnlyAtRunTime) {
  Node* x = parameter(main, DType::F32, {dim(4)}, "x");
  Node* where = op(main, "NonZero", {x});
  Node* picked = op(main, "Gather", {op(main, "Neg", {x}), op(main, "Squeeze", {where})});
  auto model = finish(op(main, "Exp", {op(main, "Abs", {picked})}));
  EXPECT_EQ(model.run({vector({0, 1, 0, 1})})[0].tensor().shape(), (Shape{2}));
  EXPECT_EQ(model.run({vector({1, 1, 1, 1})})[0].tensor().shape(), (Shape{4}));
}

// If --------------------------------------------------------------------------------------------------

TEST_F(PlanTest, BranchesReadValuesAroundThem) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  Node* go = parameter(main, DType::Bool, {}, "go");
  Node* y = op(main, "Exp", {x});
  Graph *yes = module.make_graph("yes", main), *no = module.make_graph("no", main);
  module.set_result(yes, op(yes, "Neg", {op(yes, "Add", {y, y})}));
  module.set_result(no, op(no, "Sub", {y, x}));
  Node* choice = module.make_switch(main, go, yes->value(), no->value());
  auto model = finish(op(main, "Abs", {op(main, "Add", {call(main, choice), y})}));
  EXPECT_EQ(floats(run(model, {vector({0, 0}), Tensor::scalar(true)})[0]), (Vector{1, 1}));
  EXPECT_EQ(floats(run(model, {vector({0, 0}), Tensor::scalar(false)})[0]), (Vector{2, 2}));
}

TEST_F(PlanTest, FunctionsAreValues) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  Node* go = parameter(main, DType::Bool, {}, "go");
  // twice(f) = f(f(x)), with f chosen at run time and x captured.
  Graph *neg = module.make_graph("neg"), *add_x = module.make_graph("add_x", main),
        *twice = module.make_graph("twice", main);
  module.set_result(neg, op(neg, "Neg", {untyped(neg, "a")}));
  module.set_result(add_x, op(add_x, "Add", {untyped(add_x, "a"), x}));
  Node* f = untyped(twice, "f");
  module.set_result(twice, call(twice, f, {call(twice, f, {x})}));
  Node* choice = module.make_switch(main, go, neg->value(), add_x->value());
  auto model = finish(call(main, twice->value(), {choice}));
  EXPECT_EQ(floats(run(model, {vector({1, 2}), Tensor::scalar(true)})[0]), (Vector{1, 2}));
  EXPECT_EQ(floats(run(model, {vector({1, 2}), Tensor::scalar(false)})[0]), (Vector{3, 6}));
}

// Loops -----------------------------------------------------------------------------------------------

// loop(i, v) = i < n ? body() : v, body() = loop(i + 1, f(v)), as the importer writes it.
class LoopTest : public PlanTest {
 protected:
  Node* loop(Graph* outer, Node* n, Node* start, const std::function<Node*(Graph*, Node*, Node*)>& body_of) {
    Graph* loop = module.make_graph("loop", outer);
    Node *i = untyped(loop, "i"), *v = untyped(loop, "v");
    Graph *body = module.make_graph("body", loop), *done = module.make_graph("done", loop);
    Node* next = body_of(body, i, v);
    module.set_result(body, call(body, loop->value(), {op(body, "Add", {i, module.scalar<int64_t>(1)}), next}));
    module.set_result(done, v);
    Node* go = op(loop, "Less", {i, n});
    module.set_result(loop, call(loop, module.make_switch(loop, go, body->value(), done->value())));
    return call(outer, loop->value(), {module.scalar<int64_t>(0), start});
  }
};

TEST_F(LoopTest, AMillionIterationsInConstantSpace) {
  Node* n = parameter(main, DType::I64, {}, "n");
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  auto model =
      finish(loop(main, n, x, [&](Graph* body, Node*, Node* v) { return op(body, "Add", {v, constant({1, 2})}); }));
  runtime::RunOptions shallow;
  shallow.deepest_calls = 2;
  auto outputs = model.run(std::vector<Datum>{integer(1'000'000), vector({0, 0})}, shallow);
  EXPECT_EQ(floats(outputs[0]), (Vector{1e6, 2e6}));
  EXPECT_EQ(floats(run(model, {integer(0), vector({7, 8})})[0]), (Vector{7, 8}));
}

TEST_F(LoopTest, NestedLoopsReadValuesOfEveryLevel) {
  Node* n = parameter(main, DType::I64, {}, "n");
  Node* x = parameter(main, DType::F32, {symbol("D")}, "x");
  Node* scaled = op(main, "Exp", {x});
  auto model = finish(loop(main, n, x, [&](Graph* outer, Node* i, Node* v) {
    Node* start = op(outer, "Mul", {v, op(outer, "Cast", {i}, {{"to", int64_t{1}}})});
    Node* inner = loop(outer, op(outer, "Add", {i, n}), start, [&](Graph* body, Node* j, Node* w) {
      Node* sum = op(body, "Add", {w, op(body, "Add", {op(body, "Neg", {v}), scaled})});
      return op(body, "Add", {sum, op(body, "Cast", {op(body, "Mul", {i, j})}, {{"to", int64_t{1}}})});
    });
    return op(outer, "Sub", {inner, v});
  }));
  auto outputs = run(model, {integer(4), vector({0, 0.5, -1})});
  EXPECT_EQ(outputs[0].tensor().shape(), (Shape{3}));
  run(model, {integer(3), vector({1, 2, 3, 4, 5, 6, 7})});
}

TEST_F(LoopTest, TensorsThatGrow) {
  Node* n = parameter(main, DType::I64, {}, "n");
  Node* x = parameter(main, DType::F32, {symbol("D")}, "x");
  auto model = finish(loop(main, n, x, [&](Graph* body, Node*, Node* v) {
    return op(body, "Concat", {op(body, "Neg", {v}), constant({1})}, {{"axis", int64_t{0}}});
  }));
  EXPECT_EQ(floats(run(model, {integer(3), vector({5})})[0]), (Vector{-5, 1, -1, 1}));
}

// Recursion -------------------------------------------------------------------------------------------

TEST_F(PlanTest, RecursionThatIsNotATailCall) {
  Node* n = parameter(main, DType::I64, {}, "n");
  Graph* factorial = module.make_graph("factorial");
  Node* k = untyped(factorial, "k");
  Graph *more = module.make_graph("more", factorial), *last = module.make_graph("last", factorial);
  Node* one = module.scalar<int64_t>(1);
  module.set_result(more, op(more, "Mul", {k, call(more, factorial->value(), {op(more, "Sub", {k, one})})}));
  module.set_result(last, one);
  Node* go = op(factorial, "Greater", {k, one});
  module.set_result(factorial, call(factorial, module.make_switch(factorial, go, more->value(), last->value())));
  auto model = finish(call(main, factorial->value(), {n}));
  EXPECT_EQ(run(model, {integer(10)})[0].tensor().data<int64_t>()[0], 3628800);

  try {
    model.run({integer(1'000'000'000)});
    FAIL() << "endless recursion";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ResourceExhausted);
    EXPECT_NE(std::string(error.what()).find("nested calls"), std::string::npos) << error.what();
  }
  EXPECT_EQ(run(model, {integer(5)})[0].tensor().data<int64_t>()[0], 120) << "the machine recovers";
}

TEST_F(PlanTest, TuplesThroughCalls) {
  Node* x = parameter(main, DType::F32, {dim(2)}, "x");
  Graph* swap = module.make_graph("swap");
  Node *a = untyped(swap, "a"), *b = untyped(swap, "b");
  module.set_result(swap, tuple(swap, {b, op(swap, "Neg", {a})}));
  Node* pair = call(main, swap->value(), {x, op(main, "Exp", {x})});
  Node* again = call(main, swap->value(), {module.tuple_item(main, pair, 0), module.tuple_item(main, pair, 1)});
  auto model = finish(tuple(main, {module.tuple_item(main, again, 0), module.tuple_item(main, again, 1)}));
  auto outputs = run(model, {vector({0, 0})});
  EXPECT_EQ(floats(outputs[0]), (Vector{-0.f, -0.f}));
  EXPECT_EQ(floats(outputs[1]), (Vector{-1, -1}));
}

}  // namespace
}  // namespace anfora::plan
