#include "kernels/generated/byte_table.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace anfora {
namespace {

TEST(ByteTable, GivesWhatItHasForEachByte) {
  std::mt19937 random(1);
  kernels::generated::ByteTable table;
  for (uint8_t& value : table) value = static_cast<uint8_t>(random());
  for (size_t size : {0, 1, 31, 32, 33, 64, 100, 255, 256, 1000}) {
    std::vector<uint8_t> bytes(size), wanted(size), found(size, 77);
    for (size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<uint8_t>(size < 256 ? random() : i);
      wanted[i] = table[bytes[i]];
    }
    kernels::generated::look_up(table, bytes.data(), static_cast<int64_t>(size), found.data());
    EXPECT_EQ(found, wanted) << size;
    kernels::generated::look_up(table, bytes.data(), static_cast<int64_t>(size), bytes.data());
    EXPECT_EQ(bytes, wanted) << size << " in place";
  }
}

}  // namespace
}  // namespace anfora
