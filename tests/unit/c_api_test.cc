// The public API for C: include/anfora/runtime.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "anfora/model.h"
#include "anfora/runtime.h"
#include "support/temporary_files.h"

namespace anfora {
namespace {

// The module of the text form, compiled to a file.
class CompiledFile {
 public:
  explicit CompiledFile(const std::string& text) {
    const TemporaryFile source(std::filesystem::path(testing::TempDir()) / "c_api.ir");
    std::ofstream(source.path()) << text;
    Model::load(source.path()).compile().save(file_.path());
  }
  std::string path() const { return file_.path().string(); }

 private:
  TemporaryFile file_{temporary_name(std::filesystem::path(testing::TempDir()) / "c_api.anf")};
};

class CApi : public testing::Test {
 protected:
  void load(const std::string& text) {
    const CompiledFile file(text);
    ASSERT_EQ(anfora_load(file.path().c_str(), 1, &model), ANFORA_OK) << anfora_error_message();
  }
  ~CApi() override { anfora_free(model); }

  anfora_executable* model = nullptr;
};

TEST_F(CApi, TellsWhatTheModelTakesAndGives) {
  load("module { outputs = [\"y\", \"any\"] } graph @main(%x: f32[N, 3], %n: i64[]) { return (Relu(%x), %n) }");
  ASSERT_EQ(anfora_num_inputs(model), 2u);
  ASSERT_EQ(anfora_num_outputs(model), 2u);
  anfora_value_info info;
  ASSERT_EQ(anfora_input(model, 0, &info), ANFORA_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_STREQ(info.type_text, "f32[N, 3]");
  EXPECT_EQ(info.type, ANFORA_F32);
  ASSERT_EQ(info.rank, 2);
  EXPECT_EQ(info.shape[0], ANFORA_UNKNOWN_SIZE);
  EXPECT_EQ(info.shape[1], 3);
  ASSERT_EQ(anfora_output(model, 1, &info), ANFORA_OK);
  EXPECT_EQ(info.type, ANFORA_I64);
  EXPECT_EQ(info.rank, 0);
  EXPECT_EQ(anfora_output(model, 2, &info), ANFORA_INVALID_ARGUMENT);
  EXPECT_STREQ(anfora_error_message(), "there is no output 2: the model has 2");
  EXPECT_STREQ(anfora_version(), ANFORA_VERSION);
  EXPECT_EQ(anfora_type_bytes(ANFORA_C128), 16u);
}

TEST_F(CApi, MakesOutputsOrWritesToThem) {
  load("graph @main(%x: f32[N, 3]) { return Relu(%x) }");
  const int64_t shape[] = {2, 3};
  float x[6] = {-1, 2, -3, 4, -5, 6}, y[6] = {};
  const anfora_tensor input = {ANFORA_F32, 2, shape, x, nullptr};
  anfora_tensor made = {};
  ASSERT_EQ(anfora_run(model, &input, 1, &made, 1), ANFORA_OK) << anfora_error_message();
  EXPECT_EQ(made.type, ANFORA_F32);
  ASSERT_EQ(made.rank, 2);
  EXPECT_EQ(made.shape[0], 2);
  EXPECT_EQ(static_cast<const float*>(made.data)[3], 4);
  x[3] = 7;
  const void* const memory = made.data;
  ASSERT_EQ(anfora_run(model, &input, 1, &made, 1), ANFORA_OK) << anfora_error_message();  // into the same memory
  EXPECT_EQ(made.data, memory);
  EXPECT_EQ(static_cast<const float*>(made.data)[3], 7);
  anfora_release(&made);
  EXPECT_EQ(made.data, nullptr);
  anfora_release(&made);

  anfora_tensor given = {ANFORA_F32, 2, shape, y, nullptr};
  ASSERT_EQ(anfora_run(model, &input, 1, &given, 1), ANFORA_OK) << anfora_error_message();
  EXPECT_EQ(y[5], 6);
  anfora_release(&given);
  EXPECT_EQ(given.data, y);
}

TEST_F(CApi, TakesAndMakesStrings) {
  load("graph @main(%x: string[N], %y: string[N]) { return StringConcat(%x, %y) }");
  const int64_t shape[] = {2};
  anfora_string x[] = {{"a\0b", 3}, {nullptr, 0}}, y[] = {{"c", 1}, {"d", 1}};
  const anfora_tensor inputs[] = {{ANFORA_STRING, 1, shape, x, nullptr}, {ANFORA_STRING, 1, shape, y, nullptr}};
  anfora_tensor made = {};
  ASSERT_EQ(anfora_run(model, inputs, 2, &made, 1), ANFORA_OK) << anfora_error_message();
  const auto* strings = static_cast<const anfora_string*>(made.data);
  EXPECT_EQ(std::string(strings[0].data, strings[0].size), std::string("a\0bc", 4));
  EXPECT_EQ(std::string(strings[1].data, strings[1].size), "d");
  EXPECT_EQ(anfora_run(model, inputs, 2, &made, 1), ANFORA_INVALID_ARGUMENT);
  EXPECT_STREQ(anfora_error_hint(), "set data to NULL");
  anfora_release(&made);
}

TEST_F(CApi, SaysWhatIsWrong) {
  EXPECT_EQ(anfora_load("nowhere.anf", 0, &model), ANFORA_NOT_FOUND);
  EXPECT_EQ(model, nullptr);
  EXPECT_NE(std::string(anfora_error_message()).find("nowhere.anf"), std::string::npos);
  EXPECT_EQ(anfora_load(nullptr, 0, &model), ANFORA_INVALID_ARGUMENT);
  EXPECT_STREQ(anfora_error_message(), "path is NULL");
  EXPECT_EQ(anfora_load("/dev/null", 0, &model), ANFORA_IO);
  EXPECT_EQ(anfora_load("/dev/null", -1, &model), ANFORA_INVALID_ARGUMENT);
  EXPECT_EQ(model, nullptr);
}

TEST_F(CApi, RefusesTensorsThatDoNotFit) {
  load("graph @main(%x: f32[N, 3], %y: f32[N]) { return (Relu(%x), Relu(%y)) }");
  float memory[6] = {};
  const int64_t two_by_three[] = {2, 3}, one[] = {1};
  anfora_tensor inputs[] = {{ANFORA_F32, 2, two_by_three, memory, nullptr}, {ANFORA_F32, 1, one, memory, nullptr}},
                made[2] = {};
  // One name, two sizes: what a compiler would make of that is out of reach.
  EXPECT_EQ(anfora_run(model, inputs, 2, made, 2), ANFORA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(anfora_error_message()).find("input 'y' is f32[1], the model takes f32[N]"), std::string::npos);
  EXPECT_NE(std::string(anfora_error_hint()).find("a compiled model takes one size for a name"), std::string::npos);
  EXPECT_EQ(anfora_run(model, inputs, 1, made, 2), ANFORA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(anfora_error_message()).find("is missing"), std::string::npos);
  EXPECT_EQ(anfora_run(model, inputs, 2, made, 1), ANFORA_INVALID_ARGUMENT);
  inputs[1].type = static_cast<anfora_type>(99);
  EXPECT_EQ(anfora_run(model, inputs, 2, made, 2), ANFORA_INVALID_ARGUMENT);
  inputs[1] = {ANFORA_F64, 1, one, memory, nullptr};
  EXPECT_EQ(anfora_run(model, inputs, 2, made, 2), ANFORA_INVALID_ARGUMENT);
  EXPECT_STREQ(anfora_error_hint(), "convert it to f32");
  EXPECT_EQ(made[0].owner, nullptr);
}

TEST_F(CApi, ManyThreadsRunOneModel) {
  load("graph @main(%x: f32[N]) { return Relu(%x) }");
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int64_t shape[] = {1 + (t + i) % 5};
        std::vector<float> x(static_cast<size_t>(shape[0]), static_cast<float>(t));
        const anfora_tensor input = {ANFORA_F32, 1, shape, x.data(), nullptr},
                            bad = {ANFORA_F64, 1, shape, x.data(), nullptr};
        anfora_tensor output = {};
        if (anfora_run(model, &input, 1, &output, 1) != ANFORA_OK) ++wrong;
        if (output.shape[0] != shape[0] ||
            static_cast<const float*>(output.data)[shape[0] - 1] != static_cast<float>(t))
          ++wrong;
        anfora_release(&output);
        // Each thread has an error of its own.
        if (anfora_run(model, &bad, 1, &output, 1) != ANFORA_INVALID_ARGUMENT) ++wrong;
        if (std::string(anfora_error_message()).find(fmt::format("f64[{}]", shape[0])) == std::string::npos) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace anfora
