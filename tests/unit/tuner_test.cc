// Kernels chosen by times, which are made up here, and kept in a file.
#include "driver/tuner.h"

#include <gtest/gtest.h>

#include <fstream>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/model.h"
#include "ir/parse.h"
#include "ops/registry.h"
#include "runtime/artifact.h"
#include "support/temporary_files.h"

namespace anfora::driver {
namespace {

// A machine on which each implementation takes a time that does not change; one that is not listed does not apply.
struct MadeUpMachine {
  std::map<std::string, std::map<std::string, double>> milliseconds;  // by kind
  std::map<std::string, std::string> expected;
  double noise = 0;
  size_t rounds_left = 100;
  std::vector<Preferences> asked = {};

  std::optional<PairedTimes> compare(const Preferences& preferences) {
    if (rounds_left == 0) return std::nullopt;
    --rounds_left;
    asked.push_back(preferences);
    PairedTimes times;
    for (const auto& [kind, names] : preferences) {
      std::string taken = expected.at(kind);
      for (const std::string& name : names) {
        if (!milliseconds.at(kind).contains(name)) continue;
        taken = name;
        break;
      }
      times.expected[kind] = {expected.at(kind), milliseconds.at(kind).at(expected.at(kind)), noise};
      times.preferred[kind] = {taken, milliseconds.at(kind).at(taken), noise};
    }
    return times;
  }

  Findings tune(Tune how, const std::vector<std::string>& implementations) {
    std::vector<KernelKind> kinds;
    for (const auto& [kind, name] : expected) kinds.push_back({kind, name, implementations});
    return find_fastest(kinds, how, [&](const Preferences& preferences) { return compare(preferences); });
  }
};

TEST(Tuner, TheFastestIsTaken) {
  MadeUpMachine machine{.milliseconds = {{"A", {{"a", 3}, {"b", 2}, {"c", 1}}}, {"B", {{"a", 1}, {"b", 2}, {"c", 3}}}},
                        .expected = {{"A", "a"}, {"B", "a"}}};
  const Findings found = machine.tune(Tune::Full, {"a", "b", "c"});
  EXPECT_TRUE(found.is_complete);
  EXPECT_EQ(found.kernels.at("A").taken, "c");
  EXPECT_EQ(found.kernels.at("A").expected, "a");
  EXPECT_EQ(found.kernels.at("A").milliseconds, (std::map<std::string, double>{{"a", 3}, {"b", 2}, {"c", 1}}));
  EXPECT_EQ(found.kernels.at("B").taken, "a");
  // All kinds in each round, and what won once more.
  ASSERT_EQ(machine.asked.size(), 3);
  EXPECT_EQ(machine.asked[0], (Preferences{{"A", {"b", "c"}}, {"B", {"b", "c"}}}));
  EXPECT_EQ(machine.asked[1], (Preferences{{"A", {"c"}}, {"B", {"c"}}}));
  EXPECT_EQ(machine.asked[2], (Preferences{{"A", {"c"}}}));
}

TEST(Tuner, FastTriesTheNextOneOnly) {
  MadeUpMachine machine{.milliseconds = {{"A", {{"a", 3}, {"b", 2}, {"c", 1}}}}, .expected = {{"A", "b"}}};
  const Findings found = machine.tune(Tune::Fast, {"a", "b", "c"});
  EXPECT_TRUE(found.is_complete);
  EXPECT_EQ(found.kernels.at("A").taken, "b");
  EXPECT_EQ(found.kernels.at("A").tune, Tune::Fast);
  EXPECT_EQ(machine.asked.size(), 1);
}

TEST(Tuner, WhatDoesNotApplyIsPassedOver) {
  MadeUpMachine machine{.milliseconds = {{"A", {{"a", 3}, {"c", 1}}}}, .expected = {{"A", "a"}}};
  EXPECT_EQ(machine.tune(Tune::Fast, {"a", "b", "c"}).kernels.at("A").taken, "c");
  MadeUpMachine without{.milliseconds = {{"A", {{"a", 3}}}}, .expected = {{"A", "a"}}};
  const Findings found = without.tune(Tune::Full, {"a", "b", "c"});
  EXPECT_TRUE(found.is_complete);
  EXPECT_EQ(found.kernels.at("A").taken, "a");
  EXPECT_EQ(without.asked.size(), 1);
}

TEST(Tuner, AWinnerWinsByMoreThanTheNoise) {
  auto taken = [](double milliseconds, double noise) {
    MadeUpMachine machine{.milliseconds = {{"A", {{"a", 1}, {"b", milliseconds}}}}, .expected = {{"A", "a"}}, .noise = noise};
    return machine.tune(Tune::Fast, {"a", "b"}).kernels.at("A").taken;
  };
  EXPECT_EQ(taken(0.97, 0), "a");
  EXPECT_EQ(taken(0.9, 0), "b");
  EXPECT_EQ(taken(0.9, 0.2), "a");
  EXPECT_EQ(taken(0.5, 0.2), "b");
}

TEST(Tuner, AWinnerWinsTwice) {
  for (Tune tune : {Tune::Fast, Tune::Full}) {
    MadeUpMachine machine{.milliseconds = {{"A", {{"a", 1}, {"b", 0.5}}}}, .expected = {{"A", "a"}}};
    size_t rounds = 0;
    const Findings found = find_fastest({{"A", "a", {"a", "b"}}}, tune, [&](const Preferences& preferences) {
      if (++rounds == 2) machine.milliseconds["A"]["b"] = 1;
      return machine.compare(preferences);
    });
    EXPECT_EQ(rounds, 2);
    EXPECT_TRUE(found.is_complete);
    EXPECT_EQ(found.kernels.at("A").taken, "a");
  }
}

TEST(Tuner, WhereTimeIsOverItIsKnownAsFarAsItWasMeasured) {
  auto tune = [](size_t rounds) {
    MadeUpMachine machine{.milliseconds = {{"A", {{"a", 3}, {"b", 2}, {"c", 1}}}}, .expected = {{"A", "a"}}, .rounds_left = rounds};
    return machine.tune(Tune::Full, {"a", "b", "c"});
  };
  EXPECT_TRUE(tune(0).kernels.empty());
  const Findings found = tune(1);
  EXPECT_FALSE(found.is_complete);
  EXPECT_EQ(found.kernels.at("A").taken, "a");
  EXPECT_EQ(found.kernels.at("A").tune, Tune::Fast);
  const Findings unconfirmed = tune(2);
  EXPECT_FALSE(unconfirmed.is_complete);
  EXPECT_EQ(unconfirmed.kernels.at("A").taken, "a");
  EXPECT_TRUE(tune(3).is_complete);
  EXPECT_EQ(tune(3).kernels.at("A").taken, "c");
}

TEST(Tuner, TheKindOfAKernelIsWhatItsTimeDependsOn) {
  kernels::KernelData data{.op = "MatMul", .attributes = {{"alpha", 0.5f}, {"perm", std::vector<int64_t>{1, 0}}}};
  data.inputs.resize(3);
  data.inputs[0] = {.present = true, .dtype = DType::F32, .shape = Shape{2, -1}};
  data.inputs[1] = {.present = true, .dtype = DType::F32, .shape = Shape{3, 4}, .constant = Tensor::zeros(DType::F32, Shape{3, 4})};
  EXPECT_EQ(kind_of(data), "MatMul(f32[2x?], const f32[3x4], none) alpha=0.5 perm=[1,0]");
}

TEST(Tuner, Words) {
  EXPECT_EQ(tune_named("fast"), Tune::Fast);
  EXPECT_EQ(name_of(Tune::Full), "full");
  EXPECT_THROW(tune_named("much"), Error);
}

class TuningTest : public testing::Test {
 protected:
  TuningTest() { std::filesystem::create_directories(folder_); }
  ~TuningTest() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path& folder() const { return folder_; }
  std::function<void(const std::string&)> keep_note() {
    return [this](const std::string& note) { notes_ += note + "\n"; };
  }
  std::string take_notes() { return std::exchange(notes_, ""); }

 private:
  std::filesystem::path folder_ = temporary_name(std::filesystem::temp_directory_path() / "tuning");
  std::string notes_;
};

const TunedKernels kSomeKernels{
    {"MatMul(f32[2x3], const f32[3x4])", {"b", "a", {"a", "b"}, {{"a", 0.5}, {"b", 0.25}}, Tune::Fast}},
    {"Gemm(f32[2x3], \"\n\\)", {"a", "a", {"a", "b", "c"}, {{"a", 1e-9}}, Tune::Full}}};

void expect_equal(const TunedKernels& found, const TunedKernels& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [kind, kernel] : expected) {
    const auto place = found.find(kind);
    ASSERT_NE(place, found.end()) << kind;
    EXPECT_EQ(place->second.taken, kernel.taken);
    EXPECT_EQ(place->second.expected, kernel.expected);
    EXPECT_EQ(place->second.among, kernel.among);
    EXPECT_EQ(place->second.milliseconds, kernel.milliseconds);
    EXPECT_EQ(place->second.tune, kernel.tune);
  }
}

TEST_F(TuningTest, TheCacheHasWhatWasAdded) {
  const TuningCache cache(folder() / "inner", "this machine");
  EXPECT_TRUE(cache.read(keep_note()).empty());
  cache.add(kSomeKernels, keep_note());
  expect_equal(cache.read(keep_note()), kSomeKernels);
  // Later measurements replace earlier ones.
  const TunedKernels more{{"MatMul(f32[2x3], const f32[3x4])", {"a", "a", {"a", "b"}, {{"a", 0.5}}, Tune::Full}}};
  cache.add(more, keep_note());
  TunedKernels both = kSomeKernels;
  both.insert_or_assign(more.begin()->first, more.begin()->second);
  expect_equal(cache.read(keep_note()), both);
  EXPECT_TRUE(TuningCache(folder() / "inner", "another machine").read(keep_note()).empty());
  EXPECT_EQ(take_notes(), "");
}

TEST_F(TuningTest, ADamagedCacheCountsAsEmpty) {
  const TuningCache cache(folder(), "this machine");
  cache.add(kSomeKernels, keep_note());
  std::ifstream file(cache.path());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const std::string& damaged :
       {text.substr(0, text.size() - 9), text + "\n", std::string("nothing"), text + "{}\n", text + R"({"kernel":1,"taken":2})" + "\n"}) {
    std::ofstream(cache.path()) << damaged;
    EXPECT_TRUE(cache.read(keep_note()).empty()) << damaged;
    EXPECT_NE(take_notes().find("is damaged"), std::string::npos) << damaged;
  }
  cache.add(kSomeKernels, keep_note());
  expect_equal(cache.read(keep_note()), kSomeKernels);
  EXPECT_EQ(take_notes(), "");
}

TEST_F(TuningTest, WhereNothingCanBeKeptThatIsSaid) {
  std::ofstream(folder() / "file") << "";
  TuningCache(folder() / "file", "this machine").add(kSomeKernels, keep_note());
  EXPECT_NE(take_notes().find("not kept"), std::string::npos);
  TuningCache(std::nullopt, "this machine").add(kSomeKernels, keep_note());
  EXPECT_TRUE(TuningCache(std::nullopt, "this machine").read(keep_note()).empty());
  EXPECT_EQ(take_notes(), "");
}

class TunedModel : public TuningTest {
 protected:
  void parse(std::string_view text) {
    module_ = ir::parse(*context_, text);
    analysis::infer_types(*module_);
  }
  const ir::Module& module() const { return *module_; }
  // The kernels of the module, tuned.
  std::vector<std::string> implementations(Tune tune, std::function<double()> clock = {}) {
    plan::CompileOptions options{.threads = 1};
    options.choice = tune_kernels(*module_, options, {.tune = tune, .on_note = keep_note(), .clock = std::move(clock), .cache = cache()});
    const runtime::Executable executable = plan::compile(*module_, options);
    std::vector<std::string> names;
    for (const auto& kernel : executable.program().kernels) names.push_back(kernel->implementation);
    return names;
  }
  TuningCache cache() const { return TuningCache(folder(), "this machine"); }
  // All implementations of products, as the tuner lists them.
  std::vector<std::string> among() {
    implementations(Tune::Fast);
    const TunedKernels known = cache().read(keep_note());
    std::filesystem::remove(cache().path());
    take_notes();
    return known.at(kind_of(plan::describe_kernels(*module_)[0])).among;
  }

 private:
  std::unique_ptr<ir::Context> context_ = ops::make_context();
  std::unique_ptr<ir::Module> module_;
};

constexpr const char* kTunedProduct = "graph @main(%x: f32[16, 32]) { return MatMul(%x, f32[32, 48] 0.5) }";

TEST_F(TunedModel, TheChoiceOfTheCacheIsTaken) {
  parse(kTunedProduct);
  const std::string kind = kind_of(plan::describe_kernels(module())[0]);
  EXPECT_EQ(kind, "MatMul(f32[16x32], const f32[32x48])");
  for (const char* name : {"onednn:matmul", "onednn:inner_product"}) {
    cache().add({{kind, {name, "none", among(), {{name, 1}, {"none", 2}}, Tune::Full}}}, keep_note());
    EXPECT_EQ(implementations(Tune::Fast), std::vector<std::string>{name});
    const std::string notes = take_notes();
    EXPECT_NE(notes.find("as the cache has them"), std::string::npos) << notes;
    EXPECT_NE(notes.find(std::string(name) + " 1.000 ms instead of none 2.000 ms, 1 kernel"), std::string::npos) << notes;
  }
}

TEST_F(TunedModel, WhatIsMeasuredIsKept) {
  parse(kTunedProduct);
  const std::vector<std::string> first = implementations(Tune::Fast);
  EXPECT_NE(take_notes().find("1 measured"), std::string::npos);
  EXPECT_EQ(implementations(Tune::Fast), first);
  EXPECT_NE(take_notes().find("as the cache has them"), std::string::npos);
  implementations(Tune::Full);  // wants to know more
  EXPECT_NE(take_notes().find("1 measured"), std::string::npos);
  const std::vector<std::string> last = implementations(Tune::Full);
  EXPECT_EQ(implementations(Tune::Fast), last);
  EXPECT_EQ(take_notes().find("1 measured"), std::string::npos);
}

TEST_F(TunedModel, TimeIsBounded) {
  parse(kTunedProduct);
  double now = 0;
  implementations(Tune::Full, [&] { return now += 1000; });
  EXPECT_NE(take_notes().find("time is over"), std::string::npos);
  EXPECT_TRUE(cache().read(keep_note()).empty());
}

TEST_F(TunedModel, OpenShapesAreLeftToTheCostModel) {
  parse("graph @main(%x: f32[n, 32]) { return MatMul(%x, f32[32, 48] 0.5) }");
  implementations(Tune::Full);
  EXPECT_NE(take_notes().find("0 of 0 kinds of kernels; 1 kernel of sizes that only a run knows left out"), std::string::npos);
}

TEST_F(TunedModel, AModelThatDoesNotRunIsNotMeasured) {
  parse("graph @main(%x: f32[16, 32], %i: i64[1]) { return MatMul(Gather(Reshape(%x, [2, 8, 32]), Add(%i, [7])), f32[32, 48] 0.5) }");
  implementations(Tune::Fast);
  EXPECT_NE(take_notes().find("not tuned: the model does not run"), std::string::npos);
}

TEST_F(TunedModel, AFileHasTheChoice) {
  parse(kTunedProduct);
  const std::string kind = kind_of(plan::describe_kernels(module())[0]);
  cache().add({{kind, {"onednn:inner_product", "none", among(), {{"onednn:inner_product", 1}, {"none", 2}}, Tune::Full}}}, keep_note());
  plan::CompileOptions options{.threads = 1};
  options.choice = tune_kernels(module(), options, {.on_note = keep_note(), .cache = cache()});
  const TemporaryFile file(temporary_name(folder() / "m.anf"));
  runtime::save_artifact(plan::compile(module(), options), file.path());
  const runtime::Executable loaded = runtime::load_artifact(file.path());
  EXPECT_EQ(loaded.program().kernels[0]->implementation, "onednn:inner_product");
  const std::vector<Datum> outputs = loaded.run({Tensor::zeros(DType::F32, Shape{16, 32})});
  EXPECT_EQ(outputs[0].tensor().shape(), (Shape{16, 48}));
}

}  // namespace
}  // namespace anfora::driver
