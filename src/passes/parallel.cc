// Products of one value with several constants side by side are one product, where that is cheaper:
//
//     a = MatMul(x, V) + v, b = MatMul(x, W) + w     →     (a, b) = Split(MatMul(x, (V, W)) + (v, w))
//
// and so with Gemm and Conv. It saves the calls of operators and costs a copy of the results, which Split makes: it pays where they
// are small. It is done for what is stored, behind all rules: one at a time they find products in composites, all at once they do
// not. A run time whose kernels have little to do runs faster; a program of our own would gain nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/cost.h"
#include "analysis/evaluate.h"
#include "ir/sidecar.h"
#include "passes/tuple_rewriter.h"

namespace anfora::passes {

extern const Pass kParallel;

using namespace ir;

namespace {

constexpr std::string_view kParallelRule = "parallel-products";

// One product of the value, with the bias that is added to it.
struct Branch {
  Apply* product;
  Apply* sum;  // of a MatMul and its bias; null: none
  const Tensor* weights;
  const Tensor* bias;  // one value a column or channel; null: none
  int axis;            // of the weights: columns, or output channels

  Apply* result() const { return sum ? sum : product; }
  int64_t width() const { return weights->shape()[static_cast<size_t>(axis)]; }
  // The axis of the result.
  int split_axis() const { return product->is("MatMul") ? product->type()->rank() - 1 : 1; }
  size_t num_applications() const { return sum ? 2 : 1; }

  // Whether both can be one product.
  bool goes_with(const Branch& other) const {
    Shape mine = weights->shape(), its = other.weights->shape();
    if (&product->op() != &other.product->op() || mine.size() != its.size() || !bias != !other.bias) return false;
    mine[static_cast<size_t>(axis)] = its[static_cast<size_t>(other.axis)] = 0;
    return axis == other.axis && std::ranges::equal(mine, its) && weights->dtype() == other.weights->dtype() &&
           product->graph() == other.product->graph() && product->attributes() == other.product->attributes();
  }
};

// A constant that nobody else uses: its bytes go where the larger one comes.
const Tensor* own_constant(const Apply& node, size_t i) {
  if (!node.has_input(i) || !node.input(i)->has_one_use()) return nullptr;
  const Tensor* constant = constant_tensor(node.input(i));
  return constant && is_float(constant->dtype()) ? constant : nullptr;
}

bool has_width(const Tensor& bias, int64_t width) { return bias.rank() == 1 && bias.shape()[0] == width; }

// The sum with a constant that is the only user of a MatMul.
Apply* sum_with_bias(Apply& product, const Tensor*& bias, int64_t width) {
  if (!product.has_one_use()) return nullptr;
  Apply* user = (*product.uses().begin()).user;
  if (!user->is("Add") || user->graph() != product.graph()) return nullptr;
  for (size_t i : {0, 1}) {
    const Tensor* constant = own_constant(*user, i);
    if (!constant || !has_width(*constant, width)) continue;
    bias = constant;
    return user;
  }
  return nullptr;
}

std::optional<Branch> branch_of(Apply& node) {
  const bool is_matmul = node.is("MatMul"), is_gemm = node.is("Gemm"), is_conv = node.is("Conv");
  if (!is_matmul && !is_gemm && !is_conv) return std::nullopt;
  const Tensor* weights = own_constant(node, 1);
  const Type* type = node.type();
  if (!weights || !type || !type->is_tensor() || !type->has_rank() || type->rank() < 2) return std::nullopt;
  Branch branch{&node, nullptr, weights, nullptr, 0};
  if (is_conv) {
    if (node.attributes().get_int("group", 1) != 1) return std::nullopt;
  } else {
    if (weights->rank() != 2) return std::nullopt;
    branch.axis = node.attributes().get_int("transB", 0) != 0 ? 0 : 1;
  }
  if (is_matmul) {
    branch.sum = sum_with_bias(node, branch.bias, branch.width());
  } else if (node.has_input(2)) {
    branch.bias = own_constant(node, 2);
    if (!branch.bias || !has_width(*branch.bias, branch.width())) return std::nullopt;
  }
  return branch;
}

// Parts in an order that depends on nothing but what they are.
void sort_by_content(std::vector<Branch>& branches) {
  using Key = std::array<uint64_t, 4>;
  std::vector<std::pair<Key, Branch>> keyed;
  for (const Branch& branch : branches) {
    const ContentHash weights = content_hash(*branch.weights),
                      bias = branch.bias ? content_hash(*branch.bias) : ContentHash{};
    keyed.emplace_back(Key{weights.high, weights.low, bias.high, bias.low}, branch);
  }
  std::ranges::stable_sort(keyed, {}, &std::pair<Key, Branch>::first);
  std::ranges::transform(keyed, branches.begin(), &std::pair<Key, Branch>::second);
}

class Merger : TupleRewriter {
 public:
  using TupleRewriter::TupleRewriter;

  size_t run() {
    if (context_.options.math != rewrite::Promise::Real) return 0;  // a wider product may be summed in another order
    size_t count = 0;
    for_each_value([&](Node& value, const Graph&) { count += merge_products_of(value); });
    return count;
  }

 private:
  size_t merge_products_of(Node& value) {
    branches_.clear();
    for (const Use& use : value.uses()) {
      if (use.index() != 0) continue;
      if (auto branch = branch_of(*use.user)) branches_.push_back(*branch);
    }
    size_t count = 0;
    while (branches_.size() > 1) {
      const Branch first = branches_.front();
      auto rest = std::stable_partition(branches_.begin(), branches_.end(),
                                        [&](const Branch& b) { return first.goes_with(b); });
      std::vector<Branch> group(branches_.begin(), rest);
      branches_.erase(branches_.begin(), rest);
      if (group.size() < 2 || !context_.has_fuel() || !pays(group)) continue;
      sort_by_content(group);
      merge(group);
      ++count;
    }
    return count;
  }

  // Calls that are saved against the copy that Split makes.
  bool pays(std::span<const Branch> group) {
    double bytes = 0, calls = -1;  // that of Split
    for (const Branch& branch : group) {
      bytes += 2 * analysis::bytes_of(branch.result()->type());
      calls += static_cast<double>(branch.num_applications());
    }
    calls -= static_cast<double>(group.front().num_applications());
    if (calls <= 0) return false;
    const double saved = calls * analysis::estimate_us(0.0),
                 copied = analysis::estimate_us(bytes) - analysis::estimate_us(0.0);
    if (copied < saved) return true;
    context_.remarks.refused(
        kParallel.name, kParallelRule, *group.front().product,
        fmt::format("{} products of one value stay: splitting the result takes {:.0f} us, and saves {:.0f}",
                    group.size(), copied, saved));
    return false;
  }

  Node* side_by_side(std::span<const Datum> parts, int axis) {
    const Operator& concat = module_.context().get_operator("Concat");
    return module_.constant(analysis::evaluate_operator(concat, {{"axis", int64_t{axis}}}, parts, 1).front().tensor());
  }

  void merge(std::span<const Branch> group) {
    std::vector<Datum> weights, biases;
    std::vector<int64_t> widths;
    for (const Branch& branch : group) {
      weights.emplace_back(*branch.weights);
      if (branch.bias) biases.emplace_back(*branch.bias);
      widths.push_back(branch.width());
    }
    const Branch& first = group.front();
    Apply& old = *first.product;
    Node* bias = biases.empty() ? nullptr : side_by_side(biases, 0);
    std::vector<Node*> operands{old.input(0), side_by_side(weights, first.axis)};
    if (bias && !first.sum) operands.push_back(bias);
    Apply* merged = apply(old, old.op().qualified, operands, old.attributes());
    if (first.sum) merged = apply(*first.sum, "Add", {merged, bias});
    Apply* split =
        apply(old, "Split", {merged, integers(widths)}, {{"axis", int64_t{first.split_axis()}}}, group.size());
    rewrite::Remark* remark =
        context_.applied(kParallel.name, kParallelRule, old, fmt::format("{} products are one", group.size()));
    if (remark) {
      for (const Branch& branch : group) {
        remark->before += rewrite::work_of(inference_, *branch.product);
        if (branch.sum) remark->before += rewrite::work_of(inference_, *branch.sum);
      }
      remark->after = rewrite::work_of(inference_, *split);
      remark->after += rewrite::work_of(inference_, *merged);
      if (first.sum) remark->after += rewrite::work_of(inference_, *merged->input(0)->as_apply());
    }
    for (size_t i = 0; i < group.size(); ++i) replace(*group[i].result(), *split, i);
  }

  std::vector<Branch> branches_;
};

size_t run_parallel(PassContext& context) { return Merger(context).run(); }

}  // namespace

const Pass kParallel{"parallel", "horizontal fusion", "products of one value become one product", run_parallel};

}  // namespace anfora::passes
