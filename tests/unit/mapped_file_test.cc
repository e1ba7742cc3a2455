#include "support/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <vector>

namespace anfora {
namespace {

TEST(MappedFile, DroppedPagesAreReadAgain) {
  const auto path = std::filesystem::temp_directory_path() / ("anfora_mapped_" + std::to_string(::getpid()));
  const std::string content(100'000, 'x');
  std::ofstream(path) << content;
  auto file = MappedFile::open(path);
  EXPECT_EQ(file->text(), content);
  drop_mapped_pages(file->bytes().data() + 10, 50'000);
  EXPECT_EQ(file->text(), content);
  drop_mapped_pages();
  EXPECT_EQ(file->text(), content);
  // Memory that no file is mapped to stays as it is.
  std::vector<char> other(100'000, 'y');
  drop_mapped_pages(other.data(), other.size());
  EXPECT_EQ(other, std::vector<char>(100'000, 'y'));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace anfora
