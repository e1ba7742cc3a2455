// An Einsum in parts. Each operand carries the labels of its axes; two become one, in the order that takes the fewest multiplications where sizes are
// known, else from left to right, until a tensor with the labels of the result is left:
//
//     Einsum("iib,bj,jk->ik", x, y, z)
//
//     x: iib  →  ib        a label that repeats: the diagonal
//     ib · bj →  ij        labels that nobody else has are summed: MatMul over b
//     ij · jk →  ik        …, with what is left over in an order for Transpose
//
// Of two, labels of both that are still needed are a batch, those that are not are contracted; what one has alone is a row or a column.
//
// Simplification does so where views and one product are enough. Of what is left, a program that runs has pairs of operands as matrices, whose product has
// faster kernels (the pass `contraction`); differentiation takes all apart (decompose.cc).
#include "passes/contraction.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "ir/queries.h"
#include "kernels/reference/einsum_equation.h"
#include "passes/insert_function.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kContraction;

using namespace ir;
using rewrite::Rewriter;

namespace {

using Labels = kernels::EinsumLabels;
using Integers = std::vector<int64_t>;

struct Labelled {
  Node* value;
  Labels labels;
};

bool has(const Labels& labels, int label) { return std::ranges::count(labels, label) > 0; }
int64_t axis_of_label(const Labels& labels, int label) { return std::ranges::find(labels, label) - labels.begin(); }
void append(Labels& to, const Labels& labels) { to.insert(to.end(), labels.begin(), labels.end()); }

// What is refused.
enum class Allowed : uint8_t {
  Plain,   // diagonals, axes that would be merged into one, and sizes that are not shown to agree
  Merged,  // the last only
  All,     // nothing
};

class Contraction {
 public:
  Contraction(Rewriter& rewriter, int num_broadcast, Allowed allowed)
      : rewriter_(rewriter), num_broadcast_(num_broadcast), allowed_(allowed) {}

  // A label that occurs twice: the second axis is left where it has the index of the first.
  Labelled diagonal(Labelled x) {
    for (size_t i = 0; i < x.labels.size(); ++i) {
      while (std::ranges::count(x.labels, x.labels[i]) > 1) {
        if (allowed_ == Allowed::Plain) throw rewrite::Refusal{"it is of a diagonal"};
        const auto second = std::find(x.labels.begin() + static_cast<ptrdiff_t>(i) + 1, x.labels.end(), x.labels[i]);
        const auto j = static_cast<size_t>(second - x.labels.begin());
        auto positions = [&](size_t axis) {
          Node* size = rewriter_.apply("Gather", {rewriter_.apply("Shape", {x.value}), number(static_cast<int64_t>(axis))});
          Integers shape(x.labels.size(), 1);
          shape[axis] = -1;
          return rewriter_.apply("Reshape", {rewriter_.apply("Range", {number(0), size, number(1)}), rewriter_.integers(shape)});
        };
        Node* is_diagonal = rewriter_.apply("Equal", {positions(i), positions(j)});
        Node* zero = rewriter_.constant(*rewrite::scalar_of(x.value->type()->dtype(), 0));
        x.value = rewriter_.apply("Where", {is_diagonal, x.value, zero});
        x.value = sum(x.value, {static_cast<int64_t>(j)});
        x.labels.erase(x.labels.begin() + static_cast<ptrdiff_t>(j));
      }
    }
    return x;
  }

  // Without the labels that nobody else needs.
  Labelled reduced(Labelled x, const Labels& needed) {
    Integers axes;
    for (size_t i = 0; i < x.labels.size(); ++i) {
      if (!has(needed, x.labels[i])) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return x;
    x.value = sum(x.value, axes);
    const auto summed = std::ranges::remove_if(x.labels, [&](int label) { return !has(needed, label); });
    x.labels.erase(summed.begin(), summed.end());
    return x;
  }

  Labelled product(Labelled a, Labelled b, const Labels& needed) {
    auto needed_with = [&](const Labels& other) {
      Labels all = needed;
      append(all, other);
      return all;
    };
    a = reduced(a, needed_with(b.labels));
    b = reduced(b, needed_with(a.labels));
    if (allowed_ != Allowed::All && std::ranges::any_of(a.labels, [&](int label) { return has(b.labels, label) && !is_one_size(a, b, label); }))
      throw rewrite::Refusal{"sizes of axes are not shown to be equal"};
    Labels batch, rows, columns, contracted;
    for (int label : a.labels) (!has(b.labels, label) ? rows : has(needed, label) ? batch : contracted).push_back(label);
    for (int label : b.labels) {
      if (!has(a.labels, label)) columns.push_back(label);
    }
    Labels all = batch;
    append(all, rows);
    append(all, columns);
    // Axes that broadcast, as those of an ellipsis may, have a size of 1 in one of the two, which no product sums over.
    auto extent = [](const Labelled& x, int label) { return extent_of(x.value, static_cast<int>(axis_of_label(x.labels, label))); };
    const bool broadcasts = std::ranges::any_of(contracted, [&](int label) {
      return label < num_broadcast_ || (extent(a, label) == 1) != (extent(b, label) == 1);
    });
    if (contracted.empty() || (rows.empty() && columns.empty()) || broadcasts) {
      append(all, contracted);
      Labelled product{rewriter_.apply("Mul", {aligned(a, all), aligned(b, all)}), all};
      return reduced(product, needed);
    }
    // A matrix for all rows, whatever axes they have.
    if (batch.empty() && !rows.empty() && columns.size() == 1 && contracted.size() == 1) {
      Labels of_left = rows, of_right = contracted;
      append(of_left, contracted);
      append(of_right, columns);
      return {rewriter_.apply("MatMul", {ordered(a, of_left), ordered(b, of_right)}), all};
    }
    Node* left = as_matrices(a, batch, rows, contracted);
    Node* right = as_matrices(b, batch, contracted, columns);
    return {split(rewriter_.apply("MatMul", {left, right}), a, b, batch, rows, columns), all};
  }

  // With its axes in the order of these labels, of which it has all.
  Node* ordered(const Labelled& x, const Labels& labels) {
    Integers perm;
    for (int label : labels) perm.push_back(axis_of_label(x.labels, label));
    return std::ranges::is_sorted(perm) ? x.value : rewriter_.apply("Transpose", {x.value}, {{"perm", perm}});
  }

 private:
  static bool is_one_size(const Labelled& a, const Labelled& b, int label) {
    auto size = [&](const Labelled& x) { return x.value->type()->dim(static_cast<int>(axis_of_label(x.labels, label))); };
    return provably_equal(size(a), size(b));
  }
  Node* number(int64_t n) { return rewriter_.constant(Tensor::scalar<int64_t>(n)); }
  Node* sum(Node* x, const Integers& axes) { return rewriter_.apply("ReduceSum", {x, rewriter_.integers(axes)}, {{"keepdims", int64_t{0}}}); }

  // The same with an axis of size 1 for each label that it does not have, but for those in front, by which it broadcasts.
  Node* aligned(const Labelled& x, const Labels& labels) {
    Labels own;
    Integers missing;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (has(x.labels, labels[i])) {
        own.push_back(labels[i]);
      } else if (!own.empty()) {
        missing.push_back(static_cast<int64_t>(i));
      }
    }
    const auto in_front = static_cast<int64_t>(labels.size() - own.size() - missing.size());
    for (int64_t& axis : missing) axis -= in_front;
    Node* value = ordered(x, own);
    return missing.empty() ? value : rewriter_.apply("Unsqueeze", {value, rewriter_.integers(missing)});
  }

  // The sizes of these axes as a vector; multiplied, as one number in a vector.
  Node* sizes(const Labelled& x, const Labels& labels) {
    Integers axes;
    for (int label : labels) axes.push_back(axis_of_label(x.labels, label));
    return rewriter_.apply("Gather", {rewriter_.apply("Shape", {x.value}), rewriter_.integers(axes)});
  }
  Node* size(const Labelled& x, const Labels& labels) {
    return rewriter_.apply("ReduceProd", {sizes(x, labels), rewriter_.integers(Integers{0})}, {{"keepdims", int64_t{1}}});
  }
  Node* concatenated(std::initializer_list<Node*> parts) { return rewriter_.apply("Concat", parts, {{"axis", int64_t{0}}}); }

  // [batch…, first, second], where several labels of a side are one axis.
  Node* as_matrices(const Labelled& x, const Labels& batch, const Labels& first, const Labels& second) {
    Labels all = batch;
    append(all, first);
    append(all, second);
    Node* value = ordered(x, all);
    if (first.size() == 1 && second.size() == 1) return value;
    if (allowed_ == Allowed::Plain) throw rewrite::Refusal{"several axes would become one"};
    return rewriter_.apply("Reshape", {value, concatenated({sizes(x, batch), size(x, first), size(x, second)})}, {{"allowzero", int64_t{1}}});
  }
  // … and back. A batch is as large as that of both, of which one may be 1.
  Node* split(Node* product, const Labelled& a, const Labelled& b, const Labels& batch, const Labels& rows, const Labels& columns) {
    if (rows.size() == 1 && columns.size() == 1) return product;
    Node* shape = rewriter_.apply("Shape", {product}, {{"end", static_cast<int64_t>(batch.size())}});
    return rewriter_.apply("Reshape", {product, concatenated({shape, sizes(a, rows), sizes(b, columns)})}, {{"allowzero", int64_t{1}}});
  }

  Rewriter& rewriter_;
  const int num_broadcast_;
  const Allowed allowed_;
};

// Which operands become one before others: the order with the fewest multiplications, by dynamic programming over sets of operands; from left to
// right where sizes are not known. O(3^n) for n operands.
class ContractionOrder {
 public:
  using Set = uint32_t;  // of operands, by bits

  ContractionOrder(std::span<const Labelled> terms, const kernels::EinsumEquation& equation) : terms_(terms) {
    for (Set set = 0; set < Set{1} << terms.size(); ++set) first_part_.push_back(set & ~std::bit_floor(set));
    const bool is_known = std::ranges::all_of(terms, [](const Labelled& term) { return term.value->type()->is_static(); });
    if (is_known && terms.size() <= kMostOrdered && equation.label_count <= 64) search(equation);
  }

  // One of two parts, whose product is that of the set.
  Set first_part(Set set) const { return first_part_[set]; }

 private:
  using LabelSet = uint64_t;
  static constexpr size_t kMostOrdered = 8;

  static LabelSet set_of(const Labels& labels) {
    LabelSet set = 0;
    for (int label : labels) set |= LabelSet{1} << label;
    return set;
  }

  void search(const kernels::EinsumEquation& equation) {
    std::vector<double> sizes(static_cast<size_t>(equation.label_count), 1);
    for (const Labelled& term : terms_) {
      for (size_t axis = 0; axis < term.labels.size(); ++axis) {
        double& size = sizes[static_cast<size_t>(term.labels[axis])];
        size = std::max(size, static_cast<double>(extent_of(term.value, static_cast<int>(axis))));
      }
    }
    auto of_operands = [&](Set set) {
      LabelSet labels = 0;
      for (size_t i = 0; i < terms_.size(); ++i) labels |= set >> i & 1 ? set_of(terms_[i].labels) : 0;
      return labels;
    };
    const Set all = static_cast<Set>(first_part_.size() - 1);
    std::vector<double> cost(first_part_.size(), 0);
    std::vector<LabelSet> left(first_part_.size());  // of the product of a set
    for (Set set = 1; set <= all; ++set) {
      left[set] = of_operands(set) & (set_of(equation.output) | of_operands(all & ~set));
      if (std::has_single_bit(set)) continue;
      auto cost_of = [&](Set part) {
        double multiplications = 1;
        for (LabelSet labels = left[part] | left[set & ~part]; labels != 0; labels &= labels - 1) multiplications *= sizes[static_cast<size_t>(std::countr_zero(labels))];
        return cost[part] + cost[set & ~part] + multiplications;
      };
      cost[set] = cost_of(first_part_[set]);
      const Set lowest = set & ~(set - 1);
      for (Set part = (set - 1) & set; part != 0; part = (part - 1) & set) {
        if (!(part & lowest) || cost_of(part) >= cost[set]) continue;
        cost[set] = cost_of(part);
        first_part_[set] = part;
      }
    }
  }

  std::span<const Labelled> terms_;
  std::vector<Set> first_part_;
};

// Of some of the operands.
Labelled product_of(ContractionOrder::Set set, const ContractionOrder& order, Contraction& parts, std::span<const Labelled> terms, const Labels& output) {
  if (std::has_single_bit(set)) return terms[static_cast<size_t>(std::countr_zero(set))];
  const ContractionOrder::Set first = order.first_part(set);
  Labels needed = output;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!(set >> i & 1)) append(needed, terms[i].labels);
  }
  const Labelled a = product_of(first, order, parts, terms, output), b = product_of(set & ~first, order, parts, terms, output);
  return parts.product(a, b, needed);
}

Node* contracted(Rewriter& rewriter, Apply& root, Allowed allowed) {
  std::vector<int> ranks;
  for (const Use& use : root.operands()) ranks.push_back(rank_of(use.node));
  if (!is_typed(root) || std::ranges::count(ranks, -1)) return nullptr;
  const auto equation = kernels::parse_einsum(root.attributes().get_string("equation", ""), ranks);
  Contraction parts(rewriter, equation.ellipsis_rank, allowed);
  std::vector<Labelled> terms;
  for (size_t i = 0; i < ranks.size(); ++i) terms.push_back(parts.diagonal({root.input(i), equation.inputs[i]}));
  const auto all = static_cast<ContractionOrder::Set>((1 << terms.size()) - 1);
  Labelled result = product_of(all, ContractionOrder(terms, equation), parts, terms, equation.output);
  result = parts.reduced(result, equation.output);
  return parts.ordered(result, equation.output);
}

// Of more operands, whose sizes only a run shows, the kernel of Einsum chooses the order.
Node* contraction_in_matrices(Rewriter& rewriter, Apply& root) {
  const bool has_order = root.num_inputs() <= 2 || std::ranges::all_of(root.operands(), [](const Use& use) {
    const Type* type = ranked_type(use.node);
    return type && type->is_static();
  });
  return has_order ? contracted(rewriter, root, Allowed::Merged) : nullptr;
}

constexpr rewrite::Rule kProducts[] = {
    {"einsum-in-matrices", "Einsum", "Einsum(x…) = products of matrices", rewrite::Promise::Real, contraction_in_matrices},
};

size_t run_contraction(PassContext& context) {
  rewrite::RewriteOptions options = context.rewriting();
  options.define_roots = true;
  return rewrite::apply_rules(kProducts, options, context.inference, context.remarks, kContraction.name);
}

}  // namespace

const Pass kContraction{"contraction", "Einsum as products", "axes merged, for the kernels of products", run_contraction};

Node* contraction(Rewriter& rewriter, Apply& root) { return contracted(rewriter, root, Allowed::All); }

Node* plain_contraction(Rewriter& rewriter, Apply& root) {
  return root.num_inputs() <= 2 ? contracted(rewriter, root, Allowed::Plain) : nullptr;
}

}  // namespace anfora::passes
