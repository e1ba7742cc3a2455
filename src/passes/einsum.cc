// What an Einsum of the source became is one again, where that takes more operators:
//
//     Einsum("bqd,bkd->bqk")   →   MatMul(q, Transpose(k))   →   Einsum("abc,adc->abd")
//
// In parts it takes part in other rewrites until here: a transpose goes into weights or meets another, attention is found. Where
// nothing came of that, the model keeps its operator. It is done for what is stored; a program that runs has kernels for the parts.
//
// The parts are those applications that lie where the Einsum lay. A tree of them is written as letters, from its result down: each
// axis of the result is one, a product brings one for what it sums over, a Transpose puts them in another order:
//
//     MatMul ab            Mul abc, of a column and a row
//     ├ x: ac              ├ Unsqueeze ab·       → x: ab
//     └ Transpose cb       └ Unsqueeze a·c       → y: ac
//       └ y: bc
//
// What is read so is an Einsum whatever the parts were before, if axes of one letter have one size.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/order.h"
#include "ir/queries.h"
#include "passes/origins.h"
#include "passes/pass.h"
#include "passes/permutation.h"

namespace anfora::passes {

extern const Pass kEinsum;

using namespace ir;

namespace {

constexpr std::string_view kEinsumRule = "parts-of-an-einsum";
// More operands than rules take apart are products of products, which kernels compute much slower.
constexpr size_t kMostOperands = 2;
// A rule makes at most four; more are those of iterations in a row, which lie in one place.
constexpr size_t kMostParts = 8;
// There are 26 letters; a few are for axes that are summed over.
constexpr int kMostAxes = 20;

// Rising, from the front; empty when they are not known.
std::vector<int64_t> axes_of(const Apply& node, int rank) {
  auto axes = constant_integers(node, 1).value_or(std::vector<int64_t>());
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::ranges::sort(axes);
  return axes;
}

class Equation {
 public:
  explicit Equation(Module& module) : module_(module) {}

  // False: the tree is no Einsum.
  bool read(const Apply& root) {
    if (rank_of(&root) < 0 || rank_of(&root) > kMostAxes) return false;
    for (int axis = 0; axis < rank_of(&root); ++axis) result_ += new_letter();
    if (!read(root, root, result_)) return false;
    if (!name_units()) stop_broadcasting();
    name_summed();
    return has_one_size_a_letter();
  }

  size_t num_parts() const { return num_parts_; }
  const std::vector<Node*>& operands() const { return operands_; }
  std::string text() const { return fmt::format("{}->{}", fmt::join(terms_, ","), result_); }

 private:
  static bool is_part(const Node& node, const Apply& root) {
    const Apply* apply = node.as_apply();
    return apply && apply->location() == root.location() && apply->graph() == root.graph() && apply->has_one_use();
  }

  bool read(const Apply& part, const Apply& root, const std::string& letters) {
    if (++num_parts_ > kMostParts) return false;
    auto descend = [&](size_t i, const std::string& of_operand) {
      Node* operand = part.input(i);
      if (rank_of(operand) != static_cast<int>(of_operand.size())) return false;
      if (is_part(*operand, root)) {
        const size_t parts = num_parts_, operands = operands_.size();
        const char letter = next_letter_;
        if (read(*operand->as_apply(), root, of_operand)) return true;
        num_parts_ = parts;
        next_letter_ = letter;
        operands_.resize(operands);
        terms_.resize(operands);
      }
      add_operand(operand, of_operand);
      return operands_.size() <= kMostOperands;
    };
    const size_t rank = letters.size();
    if (part.is("Transpose")) {
      std::string before = letters;
      const Permutation perm = permutation_of(part, static_cast<int>(rank));
      for (size_t i = 0; i < rank; ++i) before[static_cast<size_t>(perm[i])] = letters[i];
      return descend(0, before);
    }
    if (part.is("Unsqueeze")) {
      const auto axes = axes_of(part, static_cast<int>(rank));
      std::string before;
      for (size_t i = 0; i < rank; ++i) {
        if (!std::ranges::count(axes, static_cast<int64_t>(i))) before += letters[i];
      }
      return descend(0, before);
    }
    if (part.is("Reshape")) {
      const Type* from = part.input(0)->type();
      const std::optional<std::string> before = from && from->has_rank() ? letters_before(*from, *part.type(), letters) : std::nullopt;
      return before && descend(0, *before);
    }
    if (part.is("ReduceSum") || part.is("Squeeze")) {  // an axis of length 1 that goes is summed over
      const int before_sum = rank_of(part.input(0));
      if (before_sum < 0) return false;
      const bool keeps_axes = part.is("ReduceSum") && part.attributes().get_int("keepdims", 1) != 0;  // of length 1
      std::string before = letters;
      for (int64_t axis : axes_of(part, before_sum)) {
        if (!keeps_axes) before.insert(before.begin() + axis, 'a');
        before[static_cast<size_t>(axis)] = new_letter();
      }
      return descend(0, before);
    }
    // Of MatMul, vectors are none of batches of matrices.
    const int least = part.is("Mul") ? 0 : 2;
    if ((least == 2 && !part.is("MatMul")) || rank_of(part.input(0)) < least || rank_of(part.input(1)) < least) return false;
    // The last of these letters, as many as an operand has axes.
    auto last = [&](size_t i, const std::string& all) {
      return all.substr(all.size() - static_cast<size_t>(rank_of(part.input(i))));
    };
    if (part.is("Mul")) return descend(0, last(0, letters)) && descend(1, last(1, letters));
    const char summed = new_letter();
    const std::string batch = letters.substr(0, rank - 2);
    return descend(0, last(0, batch + letters[rank - 2] + summed)) &&
           descend(1, last(1, batch + summed + letters[rank - 1]));
  }

  // Of what a Reshape reads that adds, leaves out or moves axes of length 1 alone, where `letters` are those of its result; nothing for another.
  std::optional<std::string> letters_before(const Type& from, const Type& to, const std::string& letters) {
    std::string units, others, before;
    std::vector<Dim> sizes;  // of `others`
    for (size_t i = 0; i < letters.size(); ++i) {
      const Dim size = to.dims()[i];
      (size.as_constant() == 1 ? units : others) += letters[i];
      if (size.as_constant() != 1) sizes.push_back(size);
    }
    size_t unit = 0, other = 0;
    for (Dim size : from.dims()) {
      if (size.as_constant() == 1) {
        before += unit < units.size() ? units[unit++] : new_letter();
      } else if (other < others.size() && provably_equal(size, sizes[other])) {
        before += others[other++];
      } else {
        return std::nullopt;
      }
    }
    return other == others.size() ? std::optional(before) : std::nullopt;
  }

  // Axes of length 1 of a constant are left out: another operand has the letter.
  void add_operand(Node* operand, std::string letters) {
    if (const Tensor* t = constant_tensor(operand)) {
      Shape shape;
      std::string rest;
      for (size_t axis = 0; axis < letters.size(); ++axis) {
        if (t->shape()[axis] == 1) continue;
        shape.push_back(t->shape()[axis]);
        rest += letters[axis];
      }
      if (rest.size() < letters.size()) operand = module_.constant(t->reshaped(shape));
      letters = std::move(rest);
    }
    operands_.push_back(operand);
    terms_.push_back(std::move(letters));
  }

  // Calls `visit` for each axis of each operand: its term, the axis, its letter and its size.
  template <typename Visit>
  void for_each_axis(Visit visit) {
    for (size_t i = 0; i < terms_.size(); ++i) {
      for (size_t axis = 0; axis < terms_[i].size(); ++axis) {
        visit(terms_[i], axis, terms_[i][axis], operands_[i]->type()->dim(static_cast<int>(axis)));
      }
    }
  }

  static bool is_in(char letter, const std::string& letters) { return letters.find(letter) != std::string::npos; }

  // Letters of axes that are not of length 1 everywhere.
  std::string long_letters() {
    std::string letters;
    for_each_axis([&](std::string&, size_t, char letter, Dim size) {
      if (size.as_constant() != 1) letters += letter;
    });
    return letters;
  }

  // Which axis of length 1 is which says nothing. So those of each operand get, from the front, the letters of the result's, then others that are summed over:
  // an equation is found again as it is. False: an axis of the result would be nobody's.
  bool name_units() {
    const std::string long_axes = long_letters();
    std::string units, summed;
    std::ranges::copy_if(result_, std::back_inserter(units), [&](char letter) { return !is_in(letter, long_axes); });
    std::vector<std::string> named = terms_;
    size_t most = 0;
    for (size_t i = 0; i < terms_.size(); ++i) {
      size_t unit = 0;
      for (size_t axis = 0; axis < named[i].size(); ++axis) {
        if (operands_[i]->type()->dim(static_cast<int>(axis)).as_constant() != 1) continue;
        if (unit >= units.size() + summed.size()) summed += new_letter();
        named[i][axis] = unit < units.size() ? units[unit] : summed[unit - units.size()];
        ++unit;
      }
      most = std::max(most, unit);
    }
    if (most < units.size()) return false;
    terms_ = std::move(named);
    return true;
  }

  // Behind the result's, as they come.
  void name_summed() {
    std::string old;
    for (std::string& term : terms_) {
      for (char& letter : term) {
        if (is_in(letter, result_)) continue;
        if (!is_in(letter, old)) old += letter;
        letter = static_cast<char>('a' + result_.size() + old.find(letter));
      }
    }
    if (next_letter_ <= kPastLetters) next_letter_ = static_cast<char>('a' + result_.size() + old.size());
  }

  // An axis of length 1 that broadcasts to that of another operand gets the letter of one of length 1 that its operand lacks, or a new one,
  // which is summed over.
  void stop_broadcasting() {
    const std::string long_axes = long_letters();
    for_each_axis([&](std::string& term, size_t axis, char letter, Dim size) {
      if (size.as_constant() != 1 || !is_in(letter, long_axes)) return;
      const auto unit = std::ranges::find_if(result_, [&](char of_result) { return !is_in(of_result, long_axes) && !is_in(of_result, term); });
      term[axis] = unit != result_.end() ? *unit : new_letter();
    });
  }

  bool has_one_size_a_letter() {
    if (next_letter_ > kPastLetters) return false;
    std::array<std::optional<Dim>, kPastLetters - 'a'> sizes;
    bool are_equal = true;
    for_each_axis([&](const std::string&, size_t, char letter, Dim size) {
      std::optional<Dim>& known = sizes[static_cast<size_t>(letter - 'a')];
      are_equal = are_equal && (!known || provably_equal(*known, size));
      known = size;
    });
    return are_equal && std::all_of(sizes.begin(), sizes.begin() + (next_letter_ - 'a'), [](const auto& size) { return size.has_value(); });
  }

  // Once there are none left, `next_letter_` is past kPastLetters.
  char new_letter() { return next_letter_ <= kPastLetters ? next_letter_++ : next_letter_; }

  static constexpr char kPastLetters = 'z' + 1;
  Module& module_;
  char next_letter_ = 'a';
  std::string result_;
  std::vector<std::string> terms_;  // of the operands
  std::vector<Node*> operands_;
  size_t num_parts_ = 0;
};

// Where the module had one. Parts that lie in its place become one again.
size_t run_einsum(PassContext& context) {
  const auto& places = context.origins().einsums;
  if (places.empty()) return 0;
  Module& module = context.module;
  size_t count = 0;
  // Users first: the largest trees.
  const auto order = shared_order(module);
  for (const GraphOrder& graph : order->graphs) {
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      Apply* root = *node;
      Equation equation(module);
      const bool is_tree = !root->is_erased() && root->location() &&
                           places.contains(root->location()->before_inlining()) && equation.read(*root);
      if (!is_tree || equation.num_parts() < 2 || !context.has_fuel()) continue;
      Apply* einsum = context.apply(kEinsum.name, kEinsumRule, *root, "Einsum", equation.operands(),
                                    {{"equation", equation.text()}});
      if (!einsum) continue;
      context.applied(kEinsum.name, kEinsumRule, *einsum);
      module.replace(root, einsum);
      module.erase_with_dead_operands(root);
      ++count;
    }
  }
  return count;
}

}  // namespace

const Pass kEinsum{"einsum", "Einsum restored", "where its parts did not pay", run_einsum};

}  // namespace anfora::passes
