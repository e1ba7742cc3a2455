// One form for what can be written in several, so that rules see one form and equal applications look equal:
//
//     Concat{axis = −1}(a, b)                      Concat{axis = 2}(a, b)               where the rank is 3
//     Transpose(x)                                 Transpose{perm = 2, 1, 0}(x)
//     ReduceMean{keepdims = 1}(x, [-1, 1])         ReduceMean(x, [1, 2])
//     Slice(x, [0], [9223372036854775807], [-1])   Slice(x, [0], [8], [2])              where that axis has size 8
//     Add(1.0, x)                                  Add(x, 1.0)
//     Mul(x, [[2.0]])                              Mul(x, 2.0)                       where x has two dimensions or more
//     Dropout:2(x), whose mask nobody reads        Dropout(x)
//
// An attribute that is its operator's default is left out, and one that is not but means the same as the default becomes
// it: Softmax over the last axis has no attribute. Nothing is added to the graph, and a second run finds nothing to do.
// Linear in the number of applications.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "ir/clone.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "passes/pass.h"
#include "passes/permutation.h"
#include "support/integers.h"

namespace anfora::passes {

extern const Pass kCanonicalize;

namespace {

using namespace ir;
using Integers = std::vector<int64_t>;

constexpr std::string_view kAttribute = "canonical-attribute";
constexpr std::string_view kOperand = "canonical-operand";
constexpr std::string_view kResult = "canonical-result";

int64_t from_front(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

class Canonicalizer {
 public:
  explicit Canonicalizer(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    auto order = shared_order(module_);
    for (const GraphOrder& graph : order->graphs) {
      for (Apply* each : graph.nodes) {
        if (each->primitive() != Primitive::Operation || !each->op().known) continue;
        Apply* node = with_read_results(*each);
        if (!node->op().domain.empty()) continue;
        attributes(*node);
        operands(*node);
      }
    }
    return changes_;
  }

 private:
  void changed(Apply& node, std::string_view rule) {
    context_.remarks.applied(kCanonicalize.name, rule, node);
    ++changes_;
  }

  // Results ---------------------------------------------------------------------------------------------------
  // The application without the results behind the last one that is read, where the operator may lack them.
  Apply* with_read_results(Apply& node) {
    size_t kept = node.num_outputs(), num_read = 1;
    // In training it has all of its results.
    if (kept < 2 || node.is("BatchNormalization")) return &node;
    std::vector<Apply*> readers;
    std::string_view name;
    for (const Use& use : node.uses()) {
      if (use.user->primitive() != Primitive::TupleGetItem) return &node;
      readers.push_back(use.user);
      if (!use.user->has_uses()) continue;
      num_read = std::max(num_read, static_cast<size_t>(use.user->attributes().require_int("index")) + 1);
      name = use.user->name();
    }
    while (kept > num_read && may_lack_result(node.op(), kept - 1)) --kept;
    if (kept == node.num_outputs()) return &node;

    Apply* made = module_.apply_interned(node.graph(), node.op(), operands_of(node), &node.attributes(), kept, node.location(),
                                         kept == 1 ? name : node.name());
    if (const Type* type = node.type(); type && type->is_tuple())
      made->set_type(kept == 1 ? type->element(0) : module_.context().tuple_type(type->elements().first(kept)));
    changed(node, kResult);
    for (Apply* reader : readers) {
      const bool is_read = reader->has_uses();
      if (is_read && kept == 1) module_.replace(reader, made);
      if (!is_read || kept == 1) module_.erase(reader);
    }
    module_.replace(&node, made);
    module_.erase(&node);
    return made;
  }
  static bool may_lack_result(const Operator& op, size_t i) {
    return i < op.outputs.size() && op.outputs[i].arity == Formal::Arity::Optional;
  }

  // Attributes ------------------------------------------------------------------------------------------------
  void attributes(Apply& node) {
    AttributeSet set = node.attributes();
    if (const int rank = node.num_inputs() > 0 ? rank_of(node.input(0)) : -1; rank >= 0) {
      if (node.op().has_axis) set = with_axis_from_front(node, std::move(set), rank);
      if (node.op().movement == Movement::Permutation && !set.has("perm")) set = set.with("perm", permutation_of(node, rank));
    }
    for (const AttributeDeclaration& declared : node.op().attributes) {
      const AttributeValue* value = declared.otherwise ? set.find(declared.name) : nullptr;
      if (value && identical(*value, *declared.otherwise)) set = set.without(declared.name);
    }
    if (set == node.attributes()) return;
    module_.set_attributes(&node, set);
    changed(node, kAttribute);
  }

  static AttributeSet with_axis_from_front(const Apply& node, AttributeSet set, int rank) {
    const AttributeValue* value = set.find("axis");
    const int64_t* axis = value ? std::get_if<int64_t>(value) : nullptr;
    if (!axis || rank == 0) return set;
    const AttributeDeclaration* declared = node.op().find_attribute("axis");
    const int64_t* otherwise = declared->otherwise ? std::get_if<int64_t>(&*declared->otherwise) : nullptr;
    if (otherwise && from_front(*axis, rank) == from_front(*otherwise, rank)) return set.without("axis");
    return *axis < 0 ? set.with("axis", *axis + rank) : set;
  }

  // Operands --------------------------------------------------------------------------------------------------
  void operands(Apply& node) {
    if (node.op().fusion == FusionKind::Broadcast && node.op().movement == Movement::None) scalars(node);
    if (node.num_inputs() == 2 && node.op().commutative) return constant_last(node);
    const int rank = node.num_inputs() > 0 ? rank_of(node.input(0)) : -1;
    if (rank < 0) return;
    if (node.op().movement == Movement::Slice) return slice(node, rank);
    axes(node, rank);
  }

  void constant_last(Apply& node) {
    Node *first = node.input(0), *second = node.input(1);
    if (constant_tensor(first) && !constant_tensor(second)) set_operands(node, std::array{second, first});
  }

  // A constant of one element is a scalar where another operand has its rank.
  void scalars(Apply& node) {
    Operands operands = operands_of(node);
    int rank = 0;
    for (const Node* operand : operands) {
      if (!constant_tensor(operand)) rank = std::max(rank, rank_of(operand));
    }
    for (size_t i = node.op().broadcasts_to_first ? 1 : 0; i < operands.size(); ++i) {
      const Tensor* constant = constant_tensor(operands[i]);
      if (!constant || constant->size() != 1 || constant->rank() == 0 || constant->rank() > rank) continue;
      operands[i] = module_.constant(constant->reshaped({}));
    }
    set_operands(node, operands);
  }

  // Axes of 64 bits that count from the front, of the operand or the result, whichever has more. They rise where nothing else is listed in
  // their order, as pads are.
  void axes(Apply& node, int rank) {
    const size_t place = node.op().find_input("axes").value_or(node.num_inputs());
    const auto axes = constant_integers(node, place);
    if (!axes) return;
    const AttributeValue* keeps = attribute_or_default(node, "noop_with_empty_axes");
    if (axes->empty() && keeps && identical(*keeps, int64_t{0})) {
      return set_operands(node, std::array{node.input(0)});  // no axes are all axes
    }
    const int counted = std::max(rank, rank_of(&node));
    Integers canonical;
    for (int64_t axis : *axes) canonical.push_back(from_front(axis, counted));
    if (place == 1) std::ranges::sort(canonical);
    Operands operands = operands_of(node);
    operands[place] = index_constant(canonical, DType::I64);
    set_operands(node, operands);
  }

  // Axes that are written out and count from the front; starts and ends within the axis, where its size is known; no
  // steps that are all 1.
  void slice(Apply& node, int rank) {
    const auto starts = constant_integers(node, 1), ends = constant_integers(node, 2);
    if (!starts || !ends) return;
    const size_t count = starts->size();
    const auto axes = node.has_input(3) ? constant_integers(node, 3) : std::optional(identity(static_cast<int>(count)));
    const auto steps = node.has_input(4) ? constant_integers(node, 4) : std::optional(Integers(count, 1));
    if (!axes || !steps || ends->size() != count || axes->size() != count || steps->size() != count || count > static_cast<size_t>(rank)) return;
    Integers from = *starts, to = *ends, along = *axes;
    for (size_t i = 0; i < along.size(); ++i) {
      along[i] = from_front(along[i], rank);
      if (along[i] < 0 || along[i] >= rank) return;
      auto size = node.input(0)->type()->dim(static_cast<int>(along[i])).as_constant();
      if (!size || (*steps)[i] <= 0) continue;
      from[i] = std::clamp<int64_t>(from[i] < 0 ? from[i] + *size : from[i], 0, *size);
      to[i] = std::clamp<int64_t>(to[i] < 0 ? to[i] + *size : to[i], from[i], std::max(from[i], *size));
    }
    const DType dtype = constant_tensor(node.input(1))->dtype();
    boost::container::small_vector<Node*, 5> operands{node.input(0)};
    for (const Integers* list : {&from, &to, &along}) operands.push_back(index_constant(*list, dtype));
    if (std::ranges::count(*steps, 1) < std::ssize(*steps)) operands.push_back(node.input(4));
    set_operands(node, operands);
  }

  // An application has as many operands as it was made with.
  void set_operands(Apply& node, std::span<Node* const> operands) {
    if (std::ranges::equal(node.operands(), operands, {}, &Use::node)) return;
    changed(node, kOperand);
    if (node.num_inputs() == operands.size()) {
      for (size_t i = 0; i < operands.size(); ++i) module_.set_operand(&node, i, operands[i]);
    } else {
      with_operands(module_, node, operands);
    }
  }

  Value* index_constant(const Integers& values, DType dtype) {
    if (dtype == DType::I64) return module_.constant(Tensor::vector<int64_t>(values));
    std::vector<int32_t> narrow(values.begin(), values.end());
    return module_.constant(Tensor::vector<int32_t>(narrow));
  }

  PassContext& context_;
  Module& module_;
  size_t changes_ = 0;
};

size_t run_canonicalize(PassContext& context) { return Canonicalizer(context).run(); }

}  // namespace

const Pass kCanonicalize{"canonicalize", "canonical forms", "normalize equivalent forms", run_canonicalize};

}  // namespace anfora::passes
