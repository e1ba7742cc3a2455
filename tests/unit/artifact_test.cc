// Compiled programs in files. That they compute the same is tested with every plan (plan_fixture.h).
#include "runtime/artifact.h"

#include <fstream>

#include "anfora/error.h"
#include "plan_fixture.h"

namespace anfora::plan {
namespace {

class ArtifactFile : public PlanTest {
 protected:
  ArtifactFile() {
    Node* x = parameter(main, DType::F32, {symbol("N"), dim(4)}, "x");
    Node* weights = module.constant(Tensor::from<float>(Shape{4, 2}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
    runtime::save_artifact(finish(op(main, "MatMul", {x, weights})), path());
    std::ifstream file(path(), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  const std::filesystem::path& path() const { return file_.path(); }
  const std::string& bytes() const { return bytes_; }
  // The file with other content: the error of loading it.
  std::string error_of(const std::string& bytes, bool check_elements = false) const {
    const TemporaryFile changed(temporary_name(path()));
    std::ofstream(changed.path(), std::ios::binary) << bytes;
    try {
      runtime::load_artifact(changed.path(), {.check_elements = check_elements});
    } catch (const Error& error) {
      return std::string(error.message());
    }
    return "";
  }

 private:
  TemporaryFile file_{temporary_name(std::filesystem::temp_directory_path() / "artifact.anf")};
  std::string bytes_;
};

TEST_F(ArtifactFile, TakesTheShapesThatWereDeclared) {
  const runtime::Executable loaded = runtime::load_artifact(path());
  ASSERT_EQ(loaded.inputs().size(), 1);
  EXPECT_EQ(loaded.inputs()[0].name, "x");
  EXPECT_EQ(loaded.inputs()[0].type, "f32[N, 4]");
  EXPECT_THROW(loaded.run({Tensor::zeros(DType::F32, Shape{3, 5})}), Error);
  EXPECT_EQ(loaded.run({Tensor::zeros(DType::F32, Shape{3, 4})})[0].tensor().shape(), (Shape{3, 2}));
}

TEST_F(ArtifactFile, IsTheSameEachTime) {
  const TemporaryFile again(temporary_name(path()));
  runtime::save_artifact(runtime::load_artifact(path()), again.path());
  std::ifstream file(again.path(), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), bytes());
}

TEST_F(ArtifactFile, WhatIsDamagedIsRefused) {
  EXPECT_EQ(error_of(bytes()), "");
  EXPECT_EQ(error_of(""), "this is no compiled model");
  EXPECT_EQ(error_of("graph @main() { return 1 }"), "this is no compiled model");
  EXPECT_EQ(error_of(bytes().substr(0, bytes().size() - 1)), "the file is cut off");
  std::string records = bytes(), elements = bytes();
  records[200] ^= 1;
  EXPECT_EQ(error_of(records), "the file is damaged");
  elements[elements.size() - 64] ^= 1;
  EXPECT_EQ(error_of(elements), "");  // nobody has read them yet
  EXPECT_EQ(error_of(elements, true), "the file is damaged: weights differ from what was written");
}

TEST_F(ArtifactFile, OfAnotherVersionIsRefused) {
  std::string other = bytes();
  const size_t version = other.find("anfora ");
  ASSERT_NE(version, std::string::npos);
  other[version + 7] = '9';
  EXPECT_NE(error_of(other).find("the model was compiled for anfora 9"), std::string::npos) << error_of(other);
}

}  // namespace
}  // namespace anfora::plan
