// An index from a node to the patterns that may match there, by the operators and constants around it.
//
// A pattern, read from its root downwards and from left to right, is a word; the words of all patterns make a tree, which
// a lookup walks along the graph, so that what patterns have in common is looked at once:
//
//     Mul(Add(x, 1), y)      Mul ─ Add ─ any ─ constant ─ any ──▶ rule 0
//     Mul(Add(x, z), 2)                   └── any ─ constant ──▶ rule 1
//
// After W. McCune, "Experiments with discrimination-tree indexing and path indexing for term retrieval", 1992. Operands of
// commutative operators are entered in both orders. Where a pattern has operands that repeat or may be absent, only its
// operator is entered. The index may give too many candidates, never too few; the matcher decides.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "rewrite/term.h"

namespace anfora::rewrite {

class DiscriminationTree {
 public:
  DiscriminationTree();
  ~DiscriminationTree();

  void insert(const Term& pattern, uint32_t rule);
  // Appends rules in rising order, each once.
  void find(const ir::Apply& root, std::vector<uint32_t>& rules) const;
  // For a FlatTree, whose operators have these numbers.
  std::vector<uint32_t> flattened(const std::function<uint32_t(const ir::Operator*)>& number) const;

 private:
  struct Branch;
  struct Word;
  class Place;
  using Branches = boost::unordered_flat_map<const ir::Operator*, std::unique_ptr<Branch>>;
  static std::vector<Word> words_of(const Term& term, bool is_root);
  std::unique_ptr<Branch> root_;
};

// The same as constant data.
class FlatTree {
 public:
  // The words live as long.
  FlatTree(std::span<const uint32_t> words, std::span<const ir::Operator* const> operators);
  void find(const ir::Apply& root, std::vector<uint32_t>& rules) const;

 private:
  class Place;
  std::span<const uint32_t> words_;
  boost::unordered_flat_map<const ir::Operator*, uint32_t> numbers_;
};

}  // namespace anfora::rewrite
