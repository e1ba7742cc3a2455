#include "driver/flops.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <string>
#include <vector>

#include "analysis/flops.h"
#include "anfora/error.h"
#include "driver/model.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "pipeline/expand.h"
#include "pipeline/pipeline.h"

namespace anfora::driver {

namespace {

using namespace ir;

// What sizes are computed of is small, and little.
constexpr int64_t kLargestSize = 1 << 16;
constexpr double kWorkForSizes = 1e9;

SymbolValue value_in(const SizeByName& sizes) {
  return [&sizes](std::string_view symbol) -> std::optional<int64_t> {
    auto size = sizes.find(symbol);
    return size == sizes.end() ? 1 : size->second;
  };
}

template <class F>
void for_each_application(const Module& module, F&& f) {
  for (const Graph* graph : module.graphs()) {
    for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) f(*node);
  }
}

bool is_static(const Type* type) {
  if (!type) return false;
  if (type->is_tuple()) return std::ranges::all_of(type->elements(), is_static);
  return !type->is_tensor() || type->is_static();
}

// Whether types alone tell everything: one function, and no size but those of the inputs and what is computed of them.
bool is_plain(const Module& module) {
  if (module.graphs().size() > 1 || has_expansions(module)) return false;
  const auto symbols = symbolic_dims(module);
  const SymbolValue of_inputs = [&](std::string_view symbol) -> std::optional<int64_t> {
    return symbols.contains(symbol) ? std::optional<int64_t>(1) : std::nullopt;
  };
  boost::unordered_flat_map<const Type*, bool> told;
  auto tells = [&](const Type* type) {
    if (is_static(type)) return true;
    if (!type || !type->is_tensor() || !type->has_rank()) return false;
    auto [at, is_new] = told.try_emplace(type, true);
    if (is_new) {
      at->second =
          std::ranges::all_of(type->dims(), [&](Dim dim) { return !dim.is_unknown() && evaluate(dim, of_inputs); });
    }
    return at->second;
  };
  bool plain = true;
  for_each_application(module, [&](const Apply& node) { plain = plain && (!node.has_uses() || tells(node.type())); });
  return plain;
}

double count_as_typed(Module& module, const SizeByName& sizes) {
  analysis::Inference inference(module);
  inference.run();
  return analysis::FlopCounter(inference, value_in(sizes)).of_module();
}

void set_input_sizes(Module& module, const SizeByName& sizes) {
  Context& context = module.context();
  for (Parameter* parameter : module.main()->parameters()) {
    const Type* type = parameter->type();
    if (!type || !type->is_tensor() || !type->has_rank()) continue;
    std::vector<Dim> dims;
    for (Dim dim : type->dims()) {
      auto size = dim.is_unknown() ? 1 : evaluate(dim, value_in(sizes)).value_or(1);
      dims.push_back(context.dims().constant(std::max(size, int64_t{0})));
    }
    parameter->set_type(context.tensor_type(type->dtype(), dims));
  }
}

// Types by which others are sharpened.
struct KnownTypes {
  std::vector<const Type*> by_id;  // of nodes of the module that they are asked for
  boost::unordered_flat_map<std::string, const Type*> by_name;

  // Null: no more than before.
  const Type* of(const Apply& node) const {
    if (node.id() < by_id.size() && by_id[node.id()]) return by_id[node.id()];
    auto named = by_name.find(std::string(node.name()));
    return named == by_name.end() ? nullptr : named->second;
  }
};

// Beyond, simplifying a copy only to learn its sizes takes too long.
constexpr size_t kMostSimplified = 50'000;

// A copy of a module whose inputs have sizes, with types as sharp as can be.
class SizedCopy {
 public:
  SizedCopy(const Module& original, const SizeByName& sizes)
      : sizes_(sizes), module_(clone(original)), inference_(*module_) {
    set_input_sizes(*module_, sizes);
    expand(*module_);
    run(*module_, {"inline"});  // what is called with other sizes counts by itself
    inference_.run();
    sharpen(when_run({"fold"}));
    if (!is_told_ && module_->num_operations() <= kMostSimplified) sharpen(when_run({"fold", "simplify", "dce"}));
  }

  double count() { return analysis::FlopCounter(inference_, value_in(sizes_)).of_module(); }
  bool is_told() const { return is_told_; }

  KnownTypes by_name() const {
    KnownTypes known;
    for_each_application(*module_, [&](const Apply& node) { add_name(known, node); });
    return known;
  }

  // In order: what is known, and what follows from it.
  void sharpen(const KnownTypes& known) {
    is_told_ = true;
    auto order = shared_order(*module_);
    for (const GraphOrder& graph : order->graphs) {
      for (Apply* node : graph.nodes) {
        const Type* old = node->type();
        if (node->primitive() != Primitive::Operation || !old || is_static(old)) continue;
        inference_.infer(*node);
        const Type* type = is_static(node->type()) ? nullptr : known.of(*node);
        if (type && type->kind() == old->kind()) node->set_type(type);
        is_told_ = is_told_ && is_static(node->type());
      }
    }
  }

 private:
  static void run(Module& module, std::initializer_list<const char*> passes) {
    pipeline::OptimizeOptions options;
    for (const char* pass : passes) options.only.push_back(pipeline::find_pass(pass));
    options.passes.fold_limit = kLargestSize;
    options.passes.fold_budget = std::make_shared<analysis::FoldBudget>(kWorkForSizes);
    pipeline::optimize(module, options);
  }
  static void add_name(KnownTypes& known, const Apply& node) {
    const bool tells = !node.name().empty() && node.primitive() == Primitive::Operation && is_static(node.type());
    if (tells) known.by_name.emplace(node.name(), node.type());
  }

  // What is known once these passes have run on another copy.
  KnownTypes when_run(std::initializer_list<const char*> passes) const {
    std::unique_ptr<Module> copy = snapshot(*module_);  // with the same ids
    run(*copy, passes);
    KnownTypes known;
    known.by_id.resize(module_->next_id());
    for_each_application(*copy, [&](const Apply& node) {
      if (node.id() >= known.by_id.size()) {
        add_name(known, node);
      } else if (is_static(node.type())) {
        known.by_id[node.id()] = node.type();
      }
    });
    return known;
  }

  const SizeByName& sizes_;
  std::unique_ptr<Module> module_;
  analysis::Inference inference_;
  bool is_told_ = false;
};

}  // namespace

double count_flops(Module& module, const SizeByName& sizes) {
  const double as_typed = count_as_typed(module, sizes);
  if (is_plain(module)) return as_typed;
  try {
    return SizedCopy(module, sizes).count();
  } catch (const Error&) {
    return as_typed;  // inputs of such sizes do not fit: a window is larger than an image of 1 x 1
  }
}

FlopPair compare_flops(Module& before, Module& after, const SizeByName& sizes) {
  const FlopPair as_typed{count_as_typed(before, sizes), count_as_typed(after, sizes)};
  if (is_plain(before) && is_plain(after)) return as_typed;
  try {
    SizedCopy first(before, sizes), second(after, sizes);
    if (!first.is_told()) first.sharpen(second.by_name());
    if (!second.is_told()) second.sharpen(first.by_name());
    return {first.count(), second.count()};
  } catch (const Error&) {
    return as_typed;
  }
}

}  // namespace anfora::driver
