// Results in the memory of arguments that the caller has given away.
#include "ir/clone.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "plan_fixture.h"

namespace anfora::plan {
namespace {

class Donation : public testing::Test {
 protected:
  void compile_text(std::string_view text) {
    module = ir::parse(*context, text);
    analysis::infer_types(*module);
    executable.emplace(compile(*module));
  }
  static Tensor numbers(std::vector<float> values) { return Tensor::vector<float>(values); }

  // Runs on copies. Of each result, the input in whose memory it came back, or −1; the values are the interpreter's.
  std::vector<int> run(const std::vector<Datum>& inputs) {
    std::vector<Datum> given;
    for (const Datum& input : inputs) given.push_back(input.is_tensor() ? Datum(input.tensor().clone()) : input);
    const std::vector<Datum> expected = analysis::interpret(*module, inputs);
    const std::vector<Datum> results = executable->run(given);
    std::vector<int> memory;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(Tensor::identical(results[i].tensor(), expected[i].tensor())) << "output " << i;
      memory.push_back(-1);
      for (size_t k = 0; k < given.size(); ++k) {
        if (results[i].tensor().raw() == given[k].tensor().raw()) memory.back() = static_cast<int>(k);
      }
      EXPECT_EQ(executable->donated_input(i).has_value(), memory.back() >= 0);
    }
    EXPECT_EQ(executable->memory().donated_results,
              static_cast<size_t>(std::ranges::count_if(memory, [](int m) { return m >= 0; })));
    return memory;
  }

  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> module;
  std::optional<runtime::Executable> executable;
};

TEST_F(Donation, OfParameters) {
  compile_text(R"(graph @main(%p: f32[N] donated, %g: f32[N]) { return Sub(%p, Mul(%g, 0.5)) })");
  EXPECT_EQ(run({numbers({1, 2}), numbers({3, 4})}), std::vector{0});
  EXPECT_EQ(run({numbers({1, 2, 3}), numbers({3, 4, 5})}), std::vector{0});
}

TEST_F(Donation, OnlyWhereItIsSaid) {
  compile_text(R"(graph @main(%p: f32[N], %g: f32[N]) { return Sub(%p, %g) })");
  EXPECT_EQ(run({numbers({1, 2}), numbers({3, 4})}), std::vector{-1});
}

// What a result comes of is preferred to another argument of the same size; the values between lie there as well.
TEST_F(Donation, OfMomentum) {
  compile_text(R"(graph @main(%p: f32[4] donated, %v: f32[4] donated, %g: f32[4]) {
    %next = Add(Mul(%v, 0.5), %g)
    return MakeTuple(%next, Sub(%p, Mul(%next, 0.25)))
  })");
  EXPECT_EQ(run({numbers({1, 2, 3, 4}), numbers({5, 6, 7, 8}), numbers({1, 0, 1, 0})}), (std::vector{1, 0}));
  EXPECT_LE(executable->memory().arena_bytes, 64);
}

// Only the run tells whether the sizes are equal.
TEST_F(Donation, OfSizesThatMayBeEqual) {
  compile_text(R"(graph @main(%p: f32[N] donated, %g: f32[M]) { return Mul(%p, %g) })");
  EXPECT_EQ(run({numbers({1, 2}), numbers({3, 4})}), std::vector{0});
  EXPECT_EQ(run({numbers({1, 2}), numbers({3})}), std::vector{0});
  module = nullptr;
  compile_text(R"(graph @main(%p: f32[N] donated, %g: f32[M]) { return Mul(%p, %g) })");
  const std::vector<Datum> results = executable->run(std::vector<Datum>{numbers({2}), numbers({3, 4})});
  EXPECT_EQ(results[0].tensor().data<float>()[1], 8);
}

// Another reader comes later: then something else of that size may have it.
TEST_F(Donation, ReadersComeFirst) {
  compile_text(R"(graph @main(%p: f32[3] donated, %g: f32[3]) {
    %next = Sub(%p, %g)
    return MakeTuple(%next, Mul(Exp(%next), %p))
  })");
  EXPECT_EQ(run({numbers({1, 2, 3}), numbers({3, 4, 5})}), (std::vector{-1, 0}));
}

TEST_F(Donation, NotWhereElementsAreReadInAnotherOrder) {
  compile_text(R"(graph @main(%p: f32[2, 2] donated) { return Add(%p, Transpose(%p){perm=[1, 0]}) })");
  Tensor square = Tensor::from<float>(std::vector<int64_t>{2, 2}, std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(run({square}), std::vector{0});  // the transpose is another tensor
  compile_text(R"(graph @main(%p: f32[2, 2] donated) { return MatMul(%p, %p) })");
  EXPECT_EQ(run({square}), std::vector{-1});
}

TEST_F(Donation, Unchanged) {
  compile_text(
      R"(graph @main(%p: f32[2] donated, %q: f32[2] donated) { return MakeTuple(%q, Reshape(%p, [2, 1]), %q) })");
  EXPECT_EQ(run({numbers({1, 2}), numbers({3, 4})}), (std::vector{-1, 0, -1}));
}

TEST_F(Donation, IntoGivenMemory) {
  compile_text(R"(graph @main(%p: f32[2] donated, %g: f32[2]) { return Sub(%p, %g) })");
  const Tensor p = numbers({1, 2});
  std::vector<Datum> outputs{numbers({0, 0})};
  const void* memory = outputs[0].tensor().raw();
  executable->run(std::vector<Datum>{p, numbers({5, 5})}, outputs);
  EXPECT_EQ(outputs[0].tensor().raw(), memory);
  EXPECT_EQ(outputs[0].tensor().data<float>()[1], -3);
  EXPECT_EQ(p.data<float>()[1], 2);
}

TEST_F(Donation, NoMemoryTwice) {
  compile_text(R"(graph @main(%p: f32[N] donated, %g: f32[M]) { return MakeTuple(Neg(%p), Exp(%g)) })");
  Tensor both = numbers({1, 2, 3, 4});
  auto part = [&](int64_t begin, int64_t size) {
    return Tensor::view(DType::F32, Shape{size}, static_cast<float*>(both.raw()) + begin, both.owner());
  };
  auto error = [&](const Tensor& p, const Tensor& g) -> std::string {
    try {
      executable->run(std::vector<Datum>{p, g});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error(both, both).find("input 'p' is donated, and shares memory with input 'g'"), std::string::npos);
  EXPECT_NE(error(part(0, 3), part(2, 2)), "");
  EXPECT_NE(error(part(1, 1), both), "");
  EXPECT_EQ(error(part(0, 2), part(2, 2)), "");
}

TEST_F(Donation, FromAFile) {
  compile_text(R"(graph @main(%p: f32[N] donated, %g: f32[N]) { return Sub(%p, %g) })");
  const TemporaryFile file(temporary_name(std::filesystem::temp_directory_path() / "donated.anf"));
  runtime::save_artifact(*executable, file.path());
  executable.emplace(runtime::load_artifact(file.path(), {}));
  EXPECT_EQ(run({numbers({1, 2}), numbers({3, 4})}), std::vector{0});
}

TEST_F(Donation, InTheTextForm) {
  compile_text(R"(graph @main(%p: f32[N] donated = f32[2] [1.0, 2.0], %q: f32[N] donated) { return Add(%p, %q) })");
  EXPECT_NE(ir::print(*module).find("%q: f32[N] donated"), std::string::npos) << ir::print(*module);
  EXPECT_EQ(executable->donated_input(0), 1);  // the default of the other is the model's
  EXPECT_TRUE(ir::clone(*module)->main()->parameter(1)->is_donated());
}

}  // namespace
}  // namespace anfora::plan
