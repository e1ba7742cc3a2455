// Loops in the shapes that optimization may leave them in: what is exported computes the same.
#include "analysis/evaluate.h"
#include "export_fixture.h"

namespace anfora {
namespace {

class ExportLoops : public ExportTest {
 protected:
  // Runs main on (n, x) before export and after import, for several n. The exported model has the operators `expected`
  // at its top level, in any order and beside others.
  void expect_same(const std::string& graphs, std::initializer_list<std::string_view> expected, size_t results = 1,
                   std::initializer_list<int64_t> numbers = {0, 1, 2, 5}) {
    std::string names;
    for (size_t i = 0; i < results; ++i) names += (i ? ", \"y" : "\"y") + std::to_string(i) + "\"";
    std::string text = "module { opset \"\" = 21 outputs = [" + names + "] }\n" + graphs;
    std::string lines = sketch(text);
    SCOPED_TRACE(lines);
    for (std::string_view op : expected) EXPECT_NE(lines.find(" = " + std::string(op) + "("), std::string::npos) << op;
    auto before = parse(text);
    auto after = import(bytes_of(*before));
    for (int64_t n : numbers) {
      std::vector<Datum> inputs{Tensor::scalar<int64_t>(n),
                                Tensor::from<float>(Shape{3, 2}, std::vector<float>{1, 2, -3, 4, 5, 6})};
      auto want = analysis::interpret(*before, inputs), got = analysis::interpret(*after, inputs);
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(Tensor::identical(want[i].tensor(), got[i].tensor())) << "result " << i << " for n = " << n;
      }
    }
  }
};

TEST_F(ExportLoops, TestSharesValuesWithBodyAndResult) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) { return call @loop(%x) }
graph @loop(%v: f32[3, 2]) in @main {
  %square = Mul(%v, %v)
  %sum = ReduceSum(%square){keepdims=0}
  %limit = Mul(Cast(%n){to=1}, 100.0)
  %f = Switch(Less(%sum, %limit), @again, @done)
  return call %f()
}
graph @again() in @loop { return call @loop(Add(%v, %square)) }
graph @done() in @loop { return Sub(%square, %sum) })",
              {"Loop"});
}

TEST_F(ExportLoops, LeavesWhenTrue) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) { return call @loop(0, %x) }
graph @loop(%i: i64[], %v: f32[3, 2]) in @main {
  %f = Switch(Not(Less(%i, %n)), @done, @again)
  return call %f()
}
graph @again() in @loop { return call @loop(Add(%i, 1), Add(%v, %v)) }
graph @done() in @loop { return %v })",
              {"Loop"});
}

TEST_F(ExportLoops, BodyThatBranches) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) {
  %r = call @loop(0, %x, 1.0)
  return (%r[0], %r[1])
}
graph @loop(%i: i64[], %v: f32[3, 2], %k: f32[]) in @main {
  %f = Switch(Less(%i, %n), @again, @done)
  return call %f()
}
graph @again() in @loop {
  %odd = Equal(Mod(%i, 2), 1)
  %g = Switch(%odd, @shrink, @grow)
  return call %g(Add(%i, 1))
}
graph @shrink(%next: i64[]) in @again { return call @loop(%next, Sub(%v, %k), %k) }
graph @grow(%next2: i64[]) in @again { return call @middle(%next2, Add(%v, %v)) }
graph @middle(%j: i64[], %w: f32[3, 2]) in @loop { return call @loop(%j, %w, Add(%k, 1.0)) }
graph @done() in @loop { return (%v, %k) })",
              {"Loop"}, 2);
}

TEST_F(ExportLoops, CounterThatIsMoreThanACounter) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) {
  %r = call @loop(0, 3, %x)
  return (%r[0], %r[1], %r[2])
}
graph @loop(%i: i64[], %j: i64[], %v: f32[3, 2]) in @main {
  %f = Switch(Less(%i, %n), @again, @done)
  return call %f()
}
graph @again() in @loop {
  %s = Cast(Mul(%i, %j)){to=1}
  return call @loop(Add(1, %i), Add(%j, 1), Add(%v, %s))
}
graph @done() in @loop { return (%i, %j, %v) })",
              {"Loop"}, 3);
}

TEST_F(ExportLoops, NestedLoopsThatStack) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) {
  %e = SequenceEmpty(){dtype=1}
  return call @outer(0, %x, %e)
}
graph @outer(%i: i64[], %v: f32[3, 2], %rows: seq(f32[*])) in @main {
  %f = Switch(Less(%i, %n), @body, @done)
  return call %f()
}
graph @body() in @outer {
  %w = call @inner(0, %v)
  return call @outer(Add(%i, 1), %w, SequenceInsert(%rows, %w))
}
graph @inner(%k: i64[], %u: f32[3, 2]) in @body {
  %g = Switch(Less(%k, %i), @more, @enough)
  return call %g()
}
graph @more() in @inner { return call @inner(Add(%k, 1), Sub(%u, %v)) }
graph @enough() in @inner { return Add(%u, 1.0) }
graph @done() in @outer { return anfora::StackSequence(%rows){axis=0, dtype=1, shape=[3, 2]} })",
              {"Loop"});
}

TEST_F(ExportLoops, SequenceThatTheBodyReads) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) {
  %e = SequenceConstruct(%x)
  return call @loop(0, %e)
}
graph @loop(%i: i64[], %s: seq(f32[3, 2])) in @main {
  %f = Switch(Less(%i, %n), @again, @done)
  return call %f()
}
graph @again() in @loop {
  %last = SequenceAt(%s, -1)
  return call @loop(Add(%i, 1), SequenceInsert(%s, Add(%last, %last)))
}
graph @done() in @loop { return anfora::StackSequence(%s){axis=0, dtype=1} })",
              {"Loop", "ConcatFromSequence"});
}

TEST_F(ExportLoops, TupleThatIsCarried) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) {
  %r = call @loop(0, (%x, 1.0), %x)
  return (%r[0], %r[1])
}
graph @loop(%i: i64[], %pair, %same: f32[3, 2]) in @main {
  %f = Switch(Less(%i, %n), @again, @done)
  return call %f()
}
graph @again() in @loop {
  %a = %pair[0]
  %b = %pair[1]
  return call @loop(Add(%i, 1), (Add(%a, %same), Add(%b, %b)), %same)
}
graph @done() in @loop { return %pair })",
              {"Loop"}, 2);
}

TEST_F(ExportLoops, ScanBackwards) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) {
  %e = SequenceEmpty(){dtype=1}
  %r = call @scan(0, [0.0, 0.0, 0.0], %e)
  return (%r[0], %r[1])
}
graph @scan(%i: i64[], %v: f32[3], %acc: seq(f32[3])) in @main {
  %f = Switch(Less(%i, 2), @again, @done)
  return call %f()
}
graph @again() in @scan {
  %item = Gather(%x, Sub(1, %i)){axis=1}
  %w = Add(Mul(%v, 2.0), %item)
  return call @scan(Add(%i, 1), %w, SequenceInsert(%acc, %w))
}
graph @done() in @scan { return (%v, anfora::StackSequence(%acc){axis=-1, dtype=1, reverse=1, shape=[3]}) })",
              {"Scan"}, 2);
}

// The shape of an item is known better than the loop says: what comes of no iterations stays what it was.
TEST_F(ExportLoops, ItemsOfALoopWithoutIterations) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) { return call @loop(0, SequenceEmpty(){dtype=1}) }
graph @loop(%i: i64[], %items: seq(f32[*])) in @main { return call Switch(Less(%i, %n), @again, @done)() }
graph @again() in @loop { return call @loop(Add(%i, 1), SequenceInsert(%items, Neg(%x))) }
graph @done() in @loop { return StackSequence(%items){axis=0, dtype=1, shape=[-1, 2]} })",
              {"Loop"});
}

// Nor is it lost where the items cannot be computed.
TEST_F(ExportLoops, ItemsThatCannotBeComputed) {
  expect_same(R"(
graph @main(%n: i64[], %x: f32[3, 2]) { return call @loop(0, SequenceEmpty(){dtype=1}) }
graph @loop(%i: i64[], %items: seq(f32[*])) in @main { return call Switch(Less(%i, %n), @again, @done)() }
graph @again() in @loop { return call @loop(Add(%i, 1), SequenceInsert(%items, MatMul(%x, %x))) }
graph @done() in @loop { return StackSequence(%items){axis=0, dtype=1, shape=[3, 2]} })",
              {"Loop"}, 1, {0});
}

}  // namespace
}  // namespace anfora
