#include "rewrite/discrimination_tree.h"

#include <algorithm>
#include <iterator>

#include "ir/node.h"
#include "rewrite/match.h"

namespace anfora::rewrite {

using namespace ir;

struct DiscriminationTree::Branch {
  std::unique_ptr<Branch> any, constant;
  boost::unordered_flat_map<const Operator*, std::unique_ptr<Branch>> with_operands;  // which come next
  boost::unordered_flat_map<const Operator*, std::unique_ptr<Branch>> operator_only;
  std::vector<uint32_t> rules;  // of the words that end here
};

struct DiscriminationTree::Word {
  struct Letter {
    enum class Kind : uint8_t { Any, Constant, WithOperands, OperatorOnly };
    Kind kind;
    const Operator* op = nullptr;
  };
  std::vector<Letter> letters;
};

DiscriminationTree::DiscriminationTree() : root_(std::make_unique<Branch>()) {}
DiscriminationTree::~DiscriminationTree() = default;

namespace {

// Words of one term, beyond which its operands are not told apart: choices within choices multiply.
constexpr size_t kMostWords = 1024;

bool has_fixed_operands(const Term& t) {
  return !t.flattened && std::ranges::none_of(t.operands, [](const Term& o) {
    return o.repeated || o.optional || o.kind == Term::Kind::None;
  });
}

}  // namespace

// All words of a term: one for each of its operators, each order of commutative operands, each choice.
std::vector<DiscriminationTree::Word> DiscriminationTree::words_of(const Term& term, bool is_root) {
  using Letter = Word::Letter;
  switch (term.kind) {
    case Term::Kind::Number: return {{{{Letter::Kind::Constant}}}};
    case Term::Kind::Item: return {{{{Letter::Kind::OperatorOnly, term.operators[0]}}}};
    case Term::Kind::Apply:
      if (term.any_results && !is_root) return {{{{Letter::Kind::Any}}}};  // or a result of it
      break;
    case Term::Kind::Either: break;
    default: return {{{{Letter::Kind::Any}}}};
  }
  std::vector<Word> words;
  if (term.kind == Term::Kind::Either) {
    for (const Term& choice : term.operands) std::ranges::move(words_of(choice, is_root), std::back_inserter(words));
    return words;
  }
  for (const Operator* op : term.operators) {
    if (!has_fixed_operands(term)) {
      words.push_back({{{Letter::Kind::OperatorOnly, op}}});
      continue;
    }
    std::vector<std::vector<Word>> operands;
    size_t product = 1;  // capped
    for (const Term& operand : term.operands) {
      operands.push_back(words_of(operand, false));
      product = std::min(product * operands.back().size(), kMostWords + 1);
    }
    if (product > kMostWords) {
      words.push_back({{{Letter::Kind::OperatorOnly, op}}});
      continue;
    }
    bool both_orders = operands.size() == 2 && op->commutative;
    for (int order = 0; order < (both_orders ? 2 : 1); ++order) {
      std::vector<Word> partial = {{{{Letter::Kind::WithOperands, op}}}};
      for (const std::vector<Word>& choices : operands) {
        std::vector<Word> longer;
        for (const Word& word : partial) {
          for (const Word& choice : choices) {
            longer.push_back(word);
            longer.back().letters.insert(longer.back().letters.end(), choice.letters.begin(), choice.letters.end());
          }
        }
        partial = std::move(longer);
      }
      words.insert(words.end(), partial.begin(), partial.end());
      std::ranges::reverse(operands);
    }
  }
  return words;
}

void DiscriminationTree::insert(const Term& pattern, uint32_t rule) {
  for (const Word& word : words_of(pattern, true)) {
    Branch* branch = root_.get();
    for (const Word::Letter& letter : word.letters) {
      using Kind = Word::Letter::Kind;
      std::unique_ptr<Branch>& next = letter.kind == Kind::Any            ? branch->any
                                      : letter.kind == Kind::Constant     ? branch->constant
                                      : letter.kind == Kind::WithOperands ? branch->with_operands[letter.op]
                                                                          : branch->operator_only[letter.op];
      if (!next) next = std::make_unique<Branch>();
      branch = next.get();
    }
    if (branch->rules.empty() || branch->rules.back() != rule) branch->rules.push_back(rule);
  }
}

// `pending`: what is still to be walked along, the next one last. Null: an operand that is left out.
void DiscriminationTree::walk(const Branch& branch, std::vector<const Node*>& pending, std::vector<uint32_t>& rules) {
  if (pending.empty()) {
    rules.insert(rules.end(), branch.rules.begin(), branch.rules.end());
    return;
  }
  const Node* node = pending.back();
  pending.pop_back();
  if (branch.any) walk(*branch.any, pending, rules);
  if (branch.constant && constant_tensor(node)) walk(*branch.constant, pending, rules);
  if (const Apply* apply = node ? node->as_apply() : nullptr) {
    if (auto next = branch.operator_only.find(&apply->op()); next != branch.operator_only.end()) {
      walk(*next->second, pending, rules);
    }
    if (auto next = branch.with_operands.find(&apply->op()); next != branch.with_operands.end()) {
      size_t before = pending.size(), present = apply->num_inputs();
      while (present > 0 && !apply->has_input(present - 1)) --present;
      for (size_t i = present; i-- > 0;) pending.push_back(apply->input(i));
      walk(*next->second, pending, rules);
      pending.resize(before);
    }
  }
  pending.push_back(node);
}

void DiscriminationTree::find(const Apply& root, std::vector<uint32_t>& rules) const {
  std::vector<const Node*> pending = {&root};
  walk(*root_, pending, rules);
  std::ranges::sort(rules);
  rules.erase(std::ranges::unique(rules).begin(), rules.end());
}

}  // namespace anfora::rewrite
