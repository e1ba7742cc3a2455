// Constant folding: applications whose operands are known before the run are computed now, by the reference
// kernels; and integers and bools that shape inference knows element by element (Shape, Size, and arithmetic on them, also
// of partly symbolic shapes) become constants.
//
// First the region of all applications that could be computed is found from operators and types alone. Then it is decided
// what of it is worth storing, component by component: applications that are joined by an operand or by a big
// constant that they share.
//
//     W ─┬─ Slice ─┐                                 stored: the results that are used outside (Unsqueeze's)
//        ├─ Slice ─┼─ Concat ─ Unsqueeze ─ LSTM      saved:  the constants that are used only inside (W)
//        └─ Slice ─┘
//
// A component that stores at most `fold_limit` bytes more than it saves is computed as a whole, and where no limit is given also
// one whose work takes a run longer than reading what it stores (a windowed sine is stored, a mask of a comparison is
// not); of another one, those
// applications whose own result is at most that much larger than the constants that it is made of and that nothing else
// needs (an Expand of a scalar to a weight's shape stays, with a remark, a Transpose of a weight goes). What was accepted is
// computed in topological order; only what is used outside of the region becomes a constant of the module. Random
// operators and effects never fold. Neither does main's parameter with a default: a caller may override it. What takes more work
// than the budget has (analysis/folding.h) stays, with a remark. Near-linear, but for the kernels.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <limits>
#include <numeric>

#include "analysis/evaluate.h"
#include "ir/order.h"
#include "ops/registry.h"
#include "passes/narrow_weights.h"
#include "passes/pass.h"
#include "support/union_find.h"

namespace anfora::passes {

extern const Pass kFold;

namespace {

using namespace ir;

constexpr std::string_view kFolded = "constant-folding";
constexpr std::string_view kShapeFolded = "shape-folding";

// A constant of fewer bytes does not join the applications that use it: nobody minds a second copy.
constexpr size_t kJoiningBytes = 1024;

// The size policy where none is given: what a result may have more, at least and as a share of all constants, and what all
// of them together may have more.
constexpr double kDefaultLimit = analysis::FoldBudget::kSureLimit;
// Work from which an application is computed by the fast kernels, where there are any.
constexpr double kLargeWork = 1e8;
constexpr double kShare = 1.0 / 400, kShareInAll = 1.0 / 100;
// Operations that a processor does while it reads one byte from memory: what takes more of them for a byte of its result is
// faster to read than to compute. All that is stored for this reason takes at most so many bytes.
constexpr double kFlopsPerByte = 8;
constexpr double kMostForSpeed = 16 << 20;

class Folder {
 public:
  explicit Folder(PassContext& context)
      : context_(context), module_(context.module), place_(module_.next_id(), kOutside) {}

  size_t run() {
    auto order = shared_order(module_);
    for (const GraphOrder& graph : order->graphs) {
      for (Apply* node : graph.nodes) classify(*node);
    }
    join();
    decide();
    // What inference knows first, then a component after the other: the constants that one leaves behind go before the next is computed.
    std::vector<std::pair<size_t, Candidate*>> order_of_components;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& c = candidates_[i];
      order_of_components.emplace_back(c.from_elements ? 0 : components_.find(i) + 1, &c);
    }
    std::ranges::stable_sort(order_of_components, {}, &std::pair<size_t, Candidate*>::first);
    size_t folded = 0;
    std::vector<Candidate*> component;
    for (size_t i = 0; i < order_of_components.size(); ++i) {
      component.push_back(order_of_components[i].second);
      const bool is_last = i + 1 == order_of_components.size() || order_of_components[i + 1].first != order_of_components[i].first;
      if (!is_last) continue;
      folded += run(component);
      component.clear();
    }
    return folded;
  }

 private:
  // An application that could be computed.
  struct Candidate {
    Apply* node;
    double bytes;        // of its results
    bool from_elements;  // inference knows the result
    bool accepted = false;
    double source_bytes = 0;  // of the constants that it is made of and that nothing else needs; when decided alone
    bool too_large = false;      // for that
    std::ptrdiff_t pending = 0;  // uses by candidates that are still to be computed
    std::vector<Datum> outputs = {};
  };

  // Null also of what was made meanwhile.
  Candidate* candidate(const Node* node) {
    uint32_t place = node->id() < place_.size() ? place_[node->id()] : kOutside;
    return place == kOutside ? nullptr : &candidates_[place];
  }

  void classify(Apply& node) {
    bool is_item = node.primitive() == Primitive::TupleGetItem && is_reached(node.type()) && candidate(node.input(0));
    bool is_operation = node.primitive() == Primitive::Operation && is_reached(node.type()) && !is_kept(node);
    if (!is_item && !is_operation) return;
    bool from_elements = is_operation && analysis::known_elements(context_.inference, node);
    if (is_operation && !from_elements && !is_computable(node)) return;
    double bytes = bytes_of(node);
    if (bytes > analysis::FoldBudget::kLargestResult) {
      return refuse(node, bytes, 0, analysis::FoldBudget::kLargestResult);
    }
    place_[node.id()] = static_cast<uint32_t>(candidates_.size());
    candidates_.push_back({&node, bytes, from_elements});
  }

  bool is_kept(const Apply& node) const {
    if (node.is("DequantizeLinear") && (keeps_quantized(node) || keeps_narrow(node))) return true;
    if (node.is("Cast") && keeps_narrow(node)) return true;
    if (context_.options.fold_transposed_weights || !node.is("Transpose")) return false;
    const Tensor* weights = constant_tensor(node.input(0));
    if (!weights || weights->dtype() != DType::F32 || weights->rank() != 2) return false;
    return std::ranges::all_of(node.uses(), [](const Use& use) {
      const Type* left = use.user->num_inputs() == 2 ? use.user->input(0)->type() : nullptr;
      return use.user->is("MatMul") && use.index() == 1 && !constant_tensor(use.user->input(0)) && left &&
             left->is_tensor() && left->has_rank() && left->rank() > 1;
    });
  }

  // Weights of half precision, or of fewer bits with scales, take less memory, and less time to read.
  bool keeps_narrow(const Apply& node) const {
    const Type *weights = node.input(0)->type(), *type = node.type();
    if (!type->is_tensor() || type->dtype() != DType::F32) return false;
    const bool has_scales = weights->dtype() != DType::F16 && weights->dtype() != DType::BF16;
    if (has_scales != node.is("DequantizeLinear")) return false;
    const auto shape = weights->static_shape();
    return shape && is_read_narrow(node, *shape, weights->dtype(), context_.options);
  }

  bool keeps_quantized(const Apply& node) const {
    using enum PassOptions::FoldDequantized;
    if (context_.options.fold_dequantized != ButFactors) return context_.options.fold_dequantized == None;
    return std::ranges::any_of(node.uses(), [](const Use& use) {
      const Apply* other = use.user->num_inputs() > 1 ? use.user->input(0)->as_apply() : nullptr;
      return use.index() == 1 && use.user->op().fusion == FusionKind::Anchor && other && other->is("DequantizeLinear");
    });
  }

  bool is_computable(Apply& node) {
    if (node.op().effect != Effect::Pure || node.type()->kind() == TypeKind::Type) return false;
    bool known = std::ranges::all_of(node.operands(), [&](const Use& use) {
      const Value* value = use.node->as_value();
      return value ? !value->is_graph() && !value->is_type() : candidate(use.node) != nullptr;
    });
    return known && ops::reference_kernel(node.op());
  }

  // Of what is not statically shaped (NonZero) nothing is known before it is computed: 0.
  static double bytes_of(const Apply& node) {
    double bytes = 0;  // no integer overflows on an absurd shape
    auto add = [&](const Type* type) {
      if (auto shape = type->static_shape()) {
        bytes += std::accumulate(shape->begin(), shape->end(), static_cast<double>(element_bytes(type->dtype())),
                                 std::multiplies<>());
      }
    };
    if (node.type()->is_tuple()) {
      std::ranges::for_each(node.type()->elements(), add);
    } else {
      add(node.type());
    }
    return bytes;
  }

  // Components ------------------------------------------------------------------------------------------------------
  void join() {
    components_ = UnionFind(candidates_.size());
    boost::unordered_flat_map<const Node*, size_t> first_user;  // of a big constant
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].from_elements) continue;  // not made of its operands
      for (const Use& use : candidates_[i].node->operands()) {
        if (candidate(use.node)) {
          components_.unite(place_[use.node->id()], i);
        } else if (const Tensor* constant = constant_tensor(use.node); constant && constant->bytes() > kJoiningBytes) {
          auto [user, is_first] = first_user.try_emplace(use.node, i);
          if (!is_first) components_.unite(user->second, i);
        }
      }
    }
  }

  // Whether the user is a candidate that is made of its operands.
  bool is_used_inside(const Use& use) {
    const Candidate* user = candidate(use.user);
    return user && !user->from_elements;
  }
  bool is_used_only_inside(const Node* node) {
    return std::ranges::all_of(node->uses(), [&](const Use& use) { return is_used_inside(use); });
  }

  void decide() {
    struct Balance {
      double stored = 0, saved = 0, flops = 0;
      bool for_speed = false;
    };
    std::vector<Balance> balances(candidates_.size());
    boost::unordered_flat_set<const Node*> seen;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Balance& balance = balances[components_.find(i)];
      const Apply& node = *candidates_[i].node;
      bool outside = std::ranges::any_of(node.uses(), [&](const Use& use) { return !candidate(use.user); });
      if (outside) balance.stored += candidates_[i].bytes;
      if (candidates_[i].from_elements) continue;
      if (node.primitive() == Primitive::Operation) balance.flops += context_.inference.flops(node);
      for (const Use& use : node.operands()) {
        const Tensor* constant = constant_tensor(use.node);
        if (!constant || !seen.insert(use.node).second || !is_used_only_inside(use.node)) continue;
        balance.saved += static_cast<double>(constant->bytes());
      }
    }
    auto accept = [&](double limit) {
      for (size_t i = 0; i < candidates_.size(); ++i) {
        const Balance& balance = balances[components_.find(i)];
        candidates_[i].accepted =
            balance.for_speed || balance.stored <= balance.saved + limit || is_worth_it_alone(candidates_[i], limit);
      }
    };
    double limit = static_cast<double>(context_.options.fold_limit.value_or(0));
    if (context_.options.fold_limit) {
      accept(limit);
    } else {
      double for_speed = 0;
      for (Balance& balance : balances) {
        const double more = balance.stored - balance.saved;
        balance.for_speed = more > 0 && balance.flops > kFlopsPerByte * more && for_speed + more <= kMostForSpeed;
        if (balance.for_speed) for_speed += more;
      }
      const double all = constant_bytes();
      limit = std::max(kDefaultLimit, all * kShare);
      for (accept(limit); limit > kDefaultLimit && growth() - for_speed > all * kShareInAll; accept(limit)) {
        limit = std::max(kDefaultLimit, limit / 2);
      }
    }
    for (const Candidate& c : candidates_) {
      if (!c.accepted && c.too_large) refuse(*c.node, c.bytes, c.source_bytes, limit);
    }
  }

  // By how many bytes the constants grow if what is accepted is computed.
  double growth() {
    auto is_accepted = [&](const Use& use) {
      const Candidate* user = candidate(use.user);
      return user && user->accepted;
    };
    double bytes = 0;
    boost::unordered_flat_set<const Node*> seen;
    for (const Candidate& c : candidates_) {
      if (!c.accepted) continue;
      if (!std::ranges::all_of(c.node->uses(), is_accepted)) bytes += c.bytes;
      for (const Use& use : c.node->operands()) {
        const Tensor* constant = constant_tensor(use.node);
        if (!constant || !seen.insert(use.node).second) continue;
        if (std::ranges::all_of(use.node->uses(), is_accepted)) bytes -= static_cast<double>(constant->bytes());
      }
    }
    return bytes;
  }

  double constant_bytes() const {
    double bytes = 0;
    for (const Value* value : module_.constants()) {
      if (value->has_uses()) bytes += static_cast<double>(value->tensor().bytes());
    }
    return bytes;
  }

  bool is_worth_it_alone(Candidate& c, double limit) {
    if (c.from_elements) return true;
    c.source_bytes = 0;
    c.too_large = false;
    for (const Use& use : c.node->operands()) {
      const Candidate* operand = candidate(use.node);
      if (operand && !operand->accepted) return false;
      if (!use.node->has_one_use()) continue;
      const Tensor* constant = constant_tensor(use.node);
      c.source_bytes += constant ? static_cast<double>(constant->bytes()) : operand ? operand->source_bytes : 0;
    }
    c.too_large = c.bytes > c.source_bytes + limit;
    return !c.too_large;
  }

  void refuse(const Apply& node, double bytes, double source_bytes, double limit) {
    context_.remarks.refused(
        kFold.name, kFolded, node,
        fmt::format("the result has {:.0f} bytes, what it is made of {:.0f}; the limit is {:.0f} more", bytes,
                    source_bytes, limit));
  }

  // Computing -------------------------------------------------------------------------------------------------------
  size_t run(std::span<Candidate* const> component) {
    compute(component);
    const size_t folded = store(component);
    module_.erase_unused_constants_at_times();
    return folded;
  }

  void compute(std::span<Candidate* const> component) {
    for (Candidate* c : component) c->pending = std::ranges::count_if(c->node->uses(), [&](const Use& use) { return is_used_inside(use); });
    for (Candidate* c : component) {
      if (c->accepted) c->accepted = evaluate(*c);
      if (c->from_elements) continue;
      for (const Use& use : c->node->operands()) {
        Candidate* operand = candidate(use.node);
        if (operand && --operand->pending == 0) release(*operand);
      }
    }
  }

  // Drops a result that will not be stored. What makes a sequence or a map may stay an application, and needs its operands.
  void release(Candidate& c) {
    bool needed = std::ranges::any_of(c.node->uses(), [&](const Use& use) {
      const Candidate* user = candidate(use.user);
      return !user || !user->accepted || !(user->node->type()->is_tensor() || user->node->type()->is_tuple());
    });
    if (!needed) c.outputs.assign(c.outputs.size(), Datum());
  }

  // False: there is no result after all.
  bool evaluate(Candidate& c) {
    const Apply& node = *c.node;
    if (c.from_elements) {
      c.outputs = {*analysis::known_elements(context_.inference, node)};
      return true;
    }
    boost::container::small_vector<Datum, 4> inputs;
    for (const Use& use : node.operands()) {
      if (const Tensor* constant = constant_tensor(use.node)) {
        inputs.emplace_back(*constant);
      } else if (const Candidate* operand = candidate(use.node)) {
        if (!operand->accepted) return false;
        bool is_item = node.primitive() == Primitive::TupleGetItem;
        size_t output = is_item ? static_cast<size_t>(node.attributes().require_int("index")) : 0;
        if (output >= operand->outputs.size() || (!is_item && operand->outputs.size() != 1)) return false;
        inputs.push_back(operand->outputs[output]);
      } else {
        inputs.emplace_back();  // left out
      }
    }
    if (node.primitive() == Primitive::TupleGetItem) {
      c.outputs = {inputs[0]};
      return true;
    }
    const double left = context_.fold_budget->left();
    if (!context_.fold_budget->spend(context_.inference, node)) {
      context_.remarks.refused(
          kFold.name, kFolded, node,
          fmt::format(
              "it takes {:.1f} billion operations, and the budget has {:.1f} left, of which one application gets half",
              analysis::FoldBudget::work_of(context_.inference, node) / 1e9, left / 1e9));
      return false;
    }
    try {
      const bool is_large = analysis::FoldBudget::work_of(context_.inference, node) >= kLargeWork;
      c.outputs = is_large && context_.options.evaluate
                      ? context_.options.evaluate(node.op(), node.attributes(), inputs, node.num_outputs())
                      : analysis::evaluate_operator(node.op(), node.attributes(), inputs, node.num_outputs());
    } catch (const Error& error) {
      // The model is wrong there, or the kernel lacks a type; the run will tell if it is ever reached.
      context_.remarks.refused(kFold.name, kFolded, node, error.message());
      return false;
    }
    return true;
  }

  // Stores what is used outside of the region and erases the region, users first. A sequence, a map or an optional stays an
  // application: constants are tensors.
  size_t store(std::span<Candidate* const> component) {
    size_t folded = 0;
    for (size_t i = component.size(); i-- > 0;) {
      Candidate& c = *component[i];
      if (!c.accepted) continue;
      rewrite::Work work;
      if (context_.remarks.keeps()) work = rewrite::work_of(context_.inference, *c.node);
      if (c.node->has_uses()) {
        if (c.outputs.size() != 1 || !c.outputs[0].is_tensor() || !c.node->type()->is_tensor()) continue;
        module_.replace(c.node, module_.constant(c.outputs[0].tensor(), c.node->name()));
      }
      rewrite::Remark* remark = context_.remarks.applied(kFold.name, c.from_elements ? kShapeFolded : kFolded, *c.node);
      if (remark) remark->before = work;
      module_.erase(c.node);
      ++folded;
    }
    return folded;
  }

  PassContext& context_;
  Module& module_;
  LargeVector<Candidate> candidates_;  // in topological order
  UnionFind components_{0};            // of them
  static constexpr uint32_t kOutside = std::numeric_limits<uint32_t>::max();
  LargeVector<uint32_t> place_;  // among the candidates, by node id
};

size_t run_fold(PassContext& context) { return Folder(context).run(); }

}  // namespace

const Pass kFold{"fold", "constant folding", "compute shapes and values known before the run", run_fold};

}  // namespace anfora::passes
