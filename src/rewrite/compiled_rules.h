// Rules as data. What the parser makes of rules/*.rules is written into the program when it is built (tools/compile_rules.cc): starting it
// reads no text. An equation is made from its bytes when it may match for the first time; which may, the discrimination tree tells, which
// is walked where it lies.
//
//     operators, functions | classes, weights | entries: name, theme, length | equations, one after the other        bytes
//     branches, see FlatTree                                                                                         tree
//
// Numbers are written in seven bits a byte, the lowest first, and lists and texts behind their length; operators and functions are places
// in the tables in front.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/operator_table.h"
#include "rewrite/discrimination_tree.h"
#include "rewrite/parse_rules.h"

namespace anfora::rewrite {

// Both parts live as long as what is made of them.
struct RuleData {
  std::string_view bytes;
  std::span<const uint32_t> tree;
};

class CompiledRules {
 public:
  CompiledRules(const ir::OperatorTable& operators, RuleData data);

  struct Entry {
    std::string_view name, theme;
    bool moves_kinks = false;
    std::string_view bytes;
  };
  std::span<const Entry> entries() const { return entries_; }
  // May be asked by several threads.
  const Equation& equation(uint32_t i) const;
  // Appends the equations that may match there in rising order, each once.
  void find(const ir::Apply& root, std::vector<uint32_t>& found) const { tree_->find(root, found); }

  const OperatorClasses& classes() const { return classes_; }
  const OperatorWeights& weights() const { return weights_; }

 private:
  struct Lazy {
    std::once_flag once;
    std::unique_ptr<const Equation> equation;
  };
  std::vector<const ir::Operator*> operators_;
  std::vector<const Function*> functions_;
  OperatorClasses classes_;
  OperatorWeights weights_;
  std::vector<Entry> entries_;
  std::unique_ptr<Lazy[]> equations_;
  std::unique_ptr<const FlatTree> tree_;
};

RuleSet::Compiled compile_rules(const std::deque<Equation>& equations, const OperatorClasses& classes,
                                const OperatorWeights& weights, const DiscriminationTree& tree);

}  // namespace anfora::rewrite
