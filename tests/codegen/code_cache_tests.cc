// Machine code on disk: found again as it was, and whatever is wrong with a file counts as none.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "codegen/code_cache.h"

namespace anfora::codegen {
namespace {

namespace fs = std::filesystem;
using kernels::generated::Isa;
using kernels::generated::MachineCode;

class CodeCaches : public testing::Test {
 protected:
  CodeCaches() { fs::remove_all(folder_); }
  ~CodeCaches() override { fs::remove_all(folder_); }

  static MachineCode code(uint8_t fill, int64_t size = 100) {
    MachineCode code{.isa = Isa::Avx2, .entries = {0, 64}, .bytes = Tensor::allocate(DType::U8, Shape{size})};
    std::ranges::fill(code.bytes.data<uint8_t>(), fill);
    return code;
  }
  std::vector<fs::path> files() const {
    return {fs::directory_iterator(folder_ / "code"), fs::directory_iterator()};
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "anfora_code_cache";
};

TEST_F(CodeCaches, FindWhatWasKept) {
  CodeCache(folder_).keep("function f", code(7));
  const CodeCache later(folder_);
  const auto found = later.find(Isa::Avx2, "function f");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->entries, code(7).entries);
  EXPECT_TRUE(std::ranges::equal(found->bytes.data<uint8_t>(), code(7).bytes.data<uint8_t>()));
  EXPECT_FALSE(later.find(Isa::Avx512, "function f"));
  EXPECT_FALSE(later.find(Isa::Avx2, "function g"));
  EXPECT_EQ(generator_version().size(), 64);
}

TEST_F(CodeCaches, TakeNoDamagedFile) {
  const CodeCache cache(folder_);
  cache.keep("function f", code(7));
  const fs::path file = files().front();
  for (const auto size = static_cast<int64_t>(fs::file_size(file)); int64_t at : {int64_t{0}, int64_t{9}, int64_t{30}, size - 1}) {
    SCOPED_TRACE(at);
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(at).put('\x2a');
    EXPECT_FALSE(cache.find(Isa::Avx2, "function f"));
    cache.keep("function f", code(7));
    EXPECT_TRUE(cache.find(Isa::Avx2, "function f"));
  }
  fs::resize_file(file, 20);
  EXPECT_FALSE(cache.find(Isa::Avx2, "function f"));
  fs::resize_file(file, 0);
  EXPECT_FALSE(cache.find(Isa::Avx2, "function f"));
}

TEST_F(CodeCaches, TakeNothingThatOthersCanWrite) {
  const CodeCache cache(folder_);
  cache.keep("function f", code(7));
  fs::permissions(files().front(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache.find(Isa::Avx2, "function f"));
  cache.keep("function f", code(7));
  EXPECT_TRUE(cache.find(Isa::Avx2, "function f"));
  fs::permissions(folder_ / "code", fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(cache.find(Isa::Avx2, "function f"));
}

TEST_F(CodeCaches, MakeRoomForLaterCode) {
  for (uint8_t i = 0; i < 20; ++i) CodeCache(folder_, 2000).keep(std::string(1, static_cast<char>('a' + i)), code(i));
  EXPECT_LT(files().size(), 20);
  EXPECT_TRUE(CodeCache(folder_).find(Isa::Avx2, "t"));
}

TEST_F(CodeCaches, DoWithoutAFolder) {
  const CodeCache none(std::nullopt);
  none.keep("function f", code(7));
  EXPECT_FALSE(none.find(Isa::Avx2, "function f"));
  std::ofstream(folder_) << "a file";
  const CodeCache blocked(folder_);
  blocked.keep("function f", code(7));
  EXPECT_FALSE(blocked.find(Isa::Avx2, "function f"));
}

}  // namespace
}  // namespace anfora::codegen
