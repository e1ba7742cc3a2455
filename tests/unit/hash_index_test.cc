#include "support/hash_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/hash.h"

namespace anfora {
namespace {

// A set of words over the index.
class Words {
 public:
  explicit Words(uint64_t (*hash)(const std::string&)) : hash_(hash) {}
  std::pair<uint32_t, bool> insert(const std::string& word) {
    auto result = index_.insert(hash_(word), words_.size(), [&](uint32_t i) { return words_[i] == word; });
    if (result.second) words_.push_back(word);
    return result;
  }
  uint32_t find(const std::string& word) const {
    index_.prefetch(hash_(word));
    return index_.find(hash_(word), [&](uint32_t i) { return words_[i] == word; });
  }
  HashIndex& index() { return index_; }

 private:
  uint64_t (*hash_)(const std::string&);
  HashIndex index_;
  std::vector<std::string> words_;
};

uint64_t good_hash(const std::string& word) { return hash_bytes(word.data(), word.size()); }

TEST(HashIndex, FindsWhatWasInserted) {
  Words words(good_hash);
  EXPECT_EQ(words.find("a"), HashIndex::kNone);
  constexpr uint32_t kCount = 10000;
  for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(words.insert(std::to_string(i)), std::pair(i, true));
  for (uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(words.find(std::to_string(i)), i);
    EXPECT_EQ(words.insert(std::to_string(i)), std::pair(i, false));
  }
  EXPECT_EQ(words.find(std::to_string(kCount)), HashIndex::kNone);
  EXPECT_EQ(words.index().size(), kCount);
}

TEST(HashIndex, ToleratesEqualHashes) {
  for (auto hash :
       {+[](const std::string&) { return uint64_t{0}; }, +[](const std::string&) { return ~uint64_t{0}; }}) {
    Words words(hash);
    for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(words.insert(std::to_string(i)), std::pair(i, true));
    for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(words.find(std::to_string(i)), i);
    EXPECT_EQ(words.find("another"), HashIndex::kNone);
  }
}

TEST(HashIndex, ReservesAheadAndInBetween) {
  Words words(good_hash);
  words.index().reserve(0);
  EXPECT_EQ(words.find("a"), HashIndex::kNone);
  words.insert("a");
  words.index().reserve(5000);
  EXPECT_EQ(words.find("a"), 0u);
  for (uint32_t i = 0; i < 5000; ++i) EXPECT_TRUE(words.insert(std::to_string(i)).second);
  words.index().reserve(1);
  for (uint32_t i = 0; i < 5000; ++i) EXPECT_EQ(words.find(std::to_string(i)), i + 1);
}

}  // namespace
}  // namespace anfora
