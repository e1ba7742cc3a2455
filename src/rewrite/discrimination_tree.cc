#include "rewrite/discrimination_tree.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "ir/node.h"
#include "rewrite/match.h"

namespace anfora::rewrite {

using namespace ir;

struct DiscriminationTree::Branch {
  std::unique_ptr<Branch> any, constant;
  Branches with_operands, operator_only;  // of the first, operands come next
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

namespace {

// `pending`: what is still to be walked along, the next one last. Null: an operand that is left out. Branch tells what follows, and is false
// where nothing does.
template <class Branch>
void walk(const Branch& branch, std::vector<const Node*>& pending, std::vector<uint32_t>& rules) {
  if (!branch) return;
  if (pending.empty()) {
    rules.insert(rules.end(), branch.rules().begin(), branch.rules().end());
    return;
  }
  const Node* node = pending.back();
  pending.pop_back();
  walk(branch.any(), pending, rules);
  if (const Branch next = branch.constant(); next && constant_tensor(node)) walk(next, pending, rules);
  if (const Apply* apply = node ? node->as_apply() : nullptr) {
    walk(branch.operator_only(apply->op()), pending, rules);
    if (const Branch next = branch.with_operands(apply->op())) {
      size_t before = pending.size(), present = apply->num_inputs();
      while (present > 0 && !apply->has_input(present - 1)) --present;
      for (size_t i = present; i-- > 0;) pending.push_back(apply->input(i));
      walk(next, pending, rules);
      pending.resize(before);
    }
  }
  pending.push_back(node);
}

template <class Branch>
void find_rules(const Branch& first, const Apply& root, std::vector<uint32_t>& rules) {
  std::vector<const Node*> pending = {&root};
  const auto before = static_cast<std::ptrdiff_t>(rules.size());
  walk(first, pending, rules);
  std::sort(rules.begin() + before, rules.end());
  rules.erase(std::unique(rules.begin() + before, rules.end()), rules.end());
}

}  // namespace

class DiscriminationTree::Place {
 public:
  explicit Place(const Branch* branch) : branch_(branch) {}
  explicit operator bool() const { return branch_; }
  std::span<const uint32_t> rules() const { return branch_->rules; }
  Place any() const { return Place(branch_->any.get()); }
  Place constant() const { return Place(branch_->constant.get()); }
  Place with_operands(const Operator& op) const { return next(branch_->with_operands, op); }
  Place operator_only(const Operator& op) const { return next(branch_->operator_only, op); }

 private:
  static Place next(const Branches& branches, const Operator& op) {
    const auto found = branches.find(&op);
    return Place(found == branches.end() ? nullptr : found->second.get());
  }
  const Branch* branch_;
};

void DiscriminationTree::find(const Apply& root, std::vector<uint32_t>& rules) const {
  find_rules(Place(root_.get()), root, rules);
}

// Flat trees -------------------------------------------------------------------------------------------------------------

// Of the words of a branch: where those begin that follow any node, and a constant, how many edges to operators there are, sorted by
// letter, and how many rules; then both.
constexpr size_t kAny = 0, kConstant = 1, kNumEdges = 2, kNumRules = 3, kBranchHead = 4;

uint32_t letter_of(uint32_t op, bool with_operands) { return 2 * op + (with_operands ? 1 : 0); }

std::vector<uint32_t> DiscriminationTree::flattened(const std::function<uint32_t(const Operator*)>& number) const {
  std::vector<uint32_t> words;
  auto write = [&](auto&& self, const Branch& branch) -> uint32_t {
    const size_t at = words.size();
    std::vector<std::pair<uint32_t, const Branch*>> edges;
    for (const auto& [op, next] : branch.with_operands) edges.emplace_back(letter_of(number(op), true), next.get());
    for (const auto& [op, next] : branch.operator_only) edges.emplace_back(letter_of(number(op), false), next.get());
    std::ranges::sort(edges);
    words.resize(at + kBranchHead + 2 * edges.size());
    words.insert(words.end(), branch.rules.begin(), branch.rules.end());
    words[at + kNumEdges] = static_cast<uint32_t>(edges.size());
    words[at + kNumRules] = static_cast<uint32_t>(branch.rules.size());
    if (branch.any) words[at + kAny] = self(self, *branch.any);
    if (branch.constant) words[at + kConstant] = self(self, *branch.constant);
    for (size_t i = 0; i < edges.size(); ++i) {
      words[at + kBranchHead + 2 * i] = edges[i].first;
      words[at + kBranchHead + 2 * i + 1] = self(self, *edges[i].second);
    }
    return static_cast<uint32_t>(at);
  };
  write(write, *root_);
  return words;
}

class FlatTree::Place {
 public:
  Place(const FlatTree& tree, uint32_t at) : tree_(&tree), words_(tree.words_.subspan(at)) {}
  explicit operator bool() const { return tree_; }
  std::span<const uint32_t> rules() const {
    return words_.subspan(kBranchHead + 2 * words_[kNumEdges], words_[kNumRules]);
  }
  Place any() const { return next(words_[kAny]); }
  Place constant() const { return next(words_[kConstant]); }
  Place with_operands(const Operator& op) const { return next(op, true); }
  Place operator_only(const Operator& op) const { return next(op, false); }

 private:
  Place() = default;
  Place next(uint32_t at) const { return at == 0 ? Place() : Place(*tree_, at); }
  Place next(const Operator& op, bool with_operands) const {
    const auto number = tree_->numbers_.find(&op);
    if (number == tree_->numbers_.end()) return {};
    const uint32_t letter = letter_of(number->second, with_operands);
    const auto letter_at = [&](size_t i) { return words_[kBranchHead + 2 * i]; };
    const auto edges = std::views::iota(size_t{0}, size_t{words_[kNumEdges]});
    const auto edge = std::ranges::lower_bound(edges, letter, {}, letter_at);
    return edge != edges.end() && letter_at(*edge) == letter ? Place(*tree_, words_[kBranchHead + 2 * *edge + 1]) : Place();
  }

  const FlatTree* tree_ = nullptr;
  std::span<const uint32_t> words_;
};

FlatTree::FlatTree(std::span<const uint32_t> words, std::span<const Operator* const> operators) : words_(words) {
  for (size_t i = 0; i < operators.size(); ++i) numbers_.emplace(operators[i], static_cast<uint32_t>(i));
}

void FlatTree::find(const Apply& root, std::vector<uint32_t>& rules) const { find_rules(Place(*this, 0), root, rules); }

}  // namespace anfora::rewrite
