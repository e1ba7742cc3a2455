// Constant folding: applications whose operands are known before the run are computed now, by the reference
// kernels; and integer values that shape inference knows element by element (Shape, Size, and arithmetic on them, also of
// partly symbolic shapes) become constants.
//
// One pass over the applications in topological order computes transitively: a value of the constant region is
// kept in memory while the region is walked, and only what is used outside of the region becomes a constant of
// the module:
//
//     Constant ─ Transpose ─ Reshape ─┬─ MatMul(x, ·)        Transpose is computed, only Reshape's result is stored
//                                     └─ …
//
// Size: a result may take at most `fold_limit` bytes more than the constants that it is made from and that nothing
// else needs; otherwise (an Expand of a scalar to a weight's shape) the application stays, with a remark. Random operators
// and effects never fold. Neither does main's parameter with a default: a caller may override it.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <numeric>

#include "analysis/evaluate.h"
#include "ir/order.h"
#include "ops/registry.h"
#include "passes/pass.h"

namespace anfora::passes {
namespace {

using namespace ir;

constexpr std::string_view kFolded = "constant-folding";
constexpr std::string_view kShapeFolded = "shape-folding";

class Folder {
 public:
  explicit Folder(PassContext& context)
      : context_(context), module_(context.module), place_in_region_(module_.next_id(), kOutside) {}

  size_t run() {
    for (const GraphOrder& graph : topological_order(module_).graphs) {
      for (Apply* node : graph.nodes) visit(*node);
    }
    return store();
  }

 private:
  struct Known {
    Apply* node;
    std::vector<Datum> outputs;
    int64_t source_bytes = 0;  // of the constants this was made from and that nothing else needs
    std::string_view rule;
  };

  void keep(Known known) {
    place_in_region_[known.node->id()] = static_cast<uint32_t>(region_.size());
    region_.push_back(std::move(known));
  }
  // Null when the node's value is not known.
  const Known* find(const Node* node) const {
    uint32_t place = place_in_region_[node->id()];
    return place == kOutside ? nullptr : &region_[place];
  }

  void visit(Apply& node) {
    if (node.primitive() == Primitive::TupleGetItem) {
      const Known* tuple = find(node.input(0));
      if (!tuple) return;
      size_t index = static_cast<size_t>(node.attributes().require_int("index"));
      if (index >= tuple->outputs.size()) return;
      keep({&node, {tuple->outputs[index]}, tuple->source_bytes, tuple->rule});
    } else if (node.primitive() == Primitive::Operation && !is_kept(node) && !fold_elements(node)) {
      fold_by_kernel(node);
    }
  }

  bool is_kept(const Apply& node) const {
    if (context_.options.fold_transposed_weights || !node.is("Transpose")) return false;
    const Tensor* weights = constant_tensor(node.input(0));
    if (!weights || weights->dtype() != DType::F32 || weights->rank() != 2) return false;
    return std::ranges::all_of(node.uses(), [](const Use& use) {
      const Type* left = use.user->num_inputs() == 2 ? use.user->input(0)->type() : nullptr;
      return use.user->is("MatMul") && use.index() == 1 && !constant_tensor(use.user->input(0)) && left &&
             left->is_tensor() && left->has_rank() && left->rank() > 1;
    });
  }

  // A tensor of integers or bools whose elements inference knows.
  bool fold_elements(Apply& node) {
    if (node.num_outputs() != 1 || !node.type() || !node.type()->is_tensor()) return false;
    auto elements = context_.inference.elements(&node);
    auto shape = node.type()->static_shape();
    DType dtype = node.type()->dtype();
    if (!elements || !shape || (dtype != DType::I64 && dtype != DType::I32 && dtype != DType::Bool)) return false;
    if (element_count(*shape) != static_cast<int64_t>(elements->size())) return false;
    if (!std::ranges::all_of(*elements, &Dim::is_constant)) return false;
    Tensor value = Tensor::allocate(dtype, *shape);
    for (size_t i = 0; i < elements->size(); ++i) {
      int64_t element = (*elements)[i].constant();
      if (dtype == DType::I64) {
        value.data<int64_t>()[i] = element;
      } else if (dtype == DType::I32) {
        value.data<int32_t>()[i] = static_cast<int32_t>(element);
      } else {
        value.data<bool>()[i] = element != 0;
      }
    }
    keep({&node, {std::move(value)}, 0, kShapeFolded});
    return true;
  }

  const Datum* value_of(Node* node, int64_t& source_bytes) {
    static const Datum kNone;
    if (const Value* value = node->as_value()) {
      if (value->is_none()) return &kNone;
      if (!value->is_tensor()) return nullptr;
      if (node->has_one_use()) source_bytes += static_cast<int64_t>(value->tensor().bytes());
      return &constants_.try_emplace(node, value->tensor()).first->second;
    }
    const Known* known = find(node);
    if (!known || known->outputs.size() != 1) return nullptr;
    if (node->has_one_use()) source_bytes += known->source_bytes;
    return &known->outputs[0];
  }

  void fold_by_kernel(Apply& node) {
    const Operator& op = node.op();
    if (op.effect != Effect::Pure) return;
    int64_t source_bytes = 0;
    std::vector<Datum> inputs;
    for (const Use& use : node.operands()) {
      const Datum* value = value_of(use.node, source_bytes);
      if (!value) return;
      inputs.push_back(*value);
    }
    if (!ops::reference_kernel(op) || !worth_storing(node, source_bytes)) return;
    std::vector<Datum> outputs;
    try {
      outputs = analysis::evaluate_operator(op, node.attributes(), inputs, node.num_outputs());
    } catch (const Error& error) {
      // The model is wrong there, or the kernel lacks a type; the run will tell if it is ever reached.
      context_.remarks.refused(kFold.name, kFolded, node, error.message());
      return;
    }
    keep({&node, std::move(outputs), source_bytes, kFolded});
  }

  bool worth_storing(const Apply& node, int64_t source_bytes) {
    double bytes = 0;  // no integer overflows on an absurd shape
    auto add = [&](const Type* type) {
      if (auto shape = type->static_shape()) {
        bytes += std::accumulate(shape->begin(), shape->end(), static_cast<double>(element_bytes(type->dtype())),
                                 std::multiplies<>());
      }
    };
    if (!node.type()) return false;
    if (node.type()->is_tuple()) {
      for (const Type* item : node.type()->elements()) add(item);
    } else {
      add(node.type());
    }
    if (bytes <= static_cast<double>(source_bytes) + static_cast<double>(context_.options.fold_limit)) return true;
    context_.remarks.refused(kFold.name, kFolded, node,
                             fmt::format("the result has {:.0f} bytes, what it is made of {}; the limit is {} more",
                                         bytes, source_bytes, context_.options.fold_limit));
    return false;
  }

  // Stores what is used outside of the region and erases the region, users first. A sequence or a map stays an
  // application: constants are tensors.
  size_t store() {
    size_t folded = 0;
    for (auto known = region_.rbegin(); known != region_.rend(); ++known) {
      Apply* node = known->node;
      if (node->has_uses()) {
        if (known->outputs.size() != 1 || !known->outputs[0].is_tensor()) continue;
        module_.replace(node, module_.constant(known->outputs[0].tensor(), node->name()));
      }
      context_.remarks.applied(kFold.name, known->rule, *node);
      module_.erase(node);
      ++folded;
    }
    return folded;
  }

 private:
  PassContext& context_;
  Module& module_;
  boost::unordered_flat_map<const Node*, Datum> constants_;
  static constexpr uint32_t kOutside = UINT32_MAX;
  std::vector<uint32_t> place_in_region_;  // by id of the nodes that there were
  std::vector<Known> region_;              // in topological order
};

size_t run(PassContext& context) { return Folder(context).run(); }

}  // namespace

const Pass kFold{"fold", "constant folding", "shapes and values known before the run", run};

}  // namespace anfora::passes
