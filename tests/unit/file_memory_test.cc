#include "support/file_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "anfora/error.h"

namespace anfora {
namespace {

TEST(FileMemory, HoldsACopy) {
  std::vector<std::byte> bytes(100'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  const std::shared_ptr<void> copy = copy_into_file(bytes);
  auto* const copied = static_cast<std::byte*>(copy.get());
  EXPECT_TRUE(std::ranges::equal(bytes, std::span(copied, bytes.size())));
  copied[0] = std::byte{7};  // may be written over
  EXPECT_EQ(bytes[0], std::byte{0});
  EXPECT_EQ(copy_into_file({}), nullptr);
}

TEST(FileMemory, SaysWhichFolder) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  ::setenv("TMPDIR", "/proc/self", 1);  // no files can be made there
  try {
    copy_into_file(std::vector<std::byte>(10));
    ADD_FAILURE() << "there is a file in /proc";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Io);
    EXPECT_NE(std::string(error.what()).find("/proc/self"), std::string::npos);
  }
  before ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace anfora
