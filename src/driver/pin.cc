#include "driver/pin.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "analysis/infer.h"
#include "anfora/error.h"

namespace anfora::driver {

using namespace ir;

namespace {

const Type* substitute_in(Context& context, const Type* type, const SymbolImage& image_of) {
  if (!type) return type;
  auto items = [&] {
    std::vector<const Type*> made;
    for (const Type* item : type->elements()) made.push_back(substitute_in(context, item, image_of));
    return made;
  };
  switch (type->kind()) {
    case TypeKind::Tensor: {
      if (!type->has_rank()) return type;
      std::vector<Dim> dims;
      for (Dim d : type->dims()) dims.push_back(substitute(d, image_of));
      return context.tensor_type(type->dtype(), std::span<const Dim>(dims));
    }
    case TypeKind::Tuple: return context.tuple_type(items());
    case TypeKind::Sequence: return context.sequence_type(substitute_in(context, type->element(), image_of));
    case TypeKind::Optional: return context.optional_type(substitute_in(context, type->element(), image_of));
    default: return type;
  }
}

// The sizes that symbols have, and which input said so.
class Bindings {
 public:
  explicit Bindings(Module& module) : module_(module) {}

  void bind(std::string_view symbol, int64_t size, std::string_view input) {
    auto [at, is_new] = sizes_.try_emplace(std::string(symbol), Bound{size, std::string(input)});
    if (is_new || at->second.size == size) return;
    throw Error(ErrorCode::InvalidArgument, fmt::format("dimension {} is {} by input '{}', and {} by input '{}'",
                                                        symbol, at->second.size, at->second.input, size, input));
  }

  // The type of an input of that shape.
  void pin(Parameter& input, std::span<const int64_t> shape) {
    const Type* type = input.type();
    auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::InvalidArgument, fmt::format("input '{}' is {}: {}", input.name(), to_string(type), why));
    };
    if (!type->is_tensor()) refuse("it has no shape");
    if (type->has_rank() && type->rank() != static_cast<int>(shape.size()))
      refuse(fmt::format("{} dimensions are given instead of {}", shape.size(), type->rank()));
    for (int axis = 0; type->has_rank() && axis < type->rank(); ++axis) {
      const Dim dim = type->dim(axis);
      const int64_t size = shape[static_cast<size_t>(axis)];
      if (dim.is_symbol()) bind(dim.symbol_name(), size, input.name());
      if (dim.is_constant() && dim.constant() != size)
        refuse(fmt::format("dimension {} is {}, not {}", axis, dim.constant(), size));
    }
    input.set_type(module_.context().tensor_type(type->dtype(), shape));
  }

  void apply() {
    Context& context = module_.context();
    const SymbolImage image_of = [&](Dim symbol) -> std::optional<Dim> {
      auto bound = sizes_.find(symbol.symbol_name());
      return bound == sizes_.end() ? std::nullopt : std::optional(context.dims().constant(bound->second.size));
    };
    for (const Type*& type : module_.metadata().output_types) type = substitute_in(context, type, image_of);
    for (const Graph* graph : module_.graphs()) {
      for (Parameter* p : graph->parameters()) p->set_type(substitute_in(context, p->type(), image_of));
      // Operators without a declaration have the types that the model states.
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph())
        node->set_type(substitute_in(context, node->type(), image_of));
    }
    analysis::infer_types(module_);
  }

 private:
  struct Bound {
    int64_t size;
    std::string input;
  };
  Module& module_;
  std::map<std::string, Bound, std::less<>> sizes_;
};

}  // namespace

void pin_shapes(Module& module, const Pins& pins) {
  if (pins.empty()) return;
  Bindings bindings(module);
  for (const auto& [name, shape] : pins.shapes) bindings.pin(input_named(module, name), shape);
  if (pins.batch) {
    bool has_batch = false;
    for (Parameter* p : module.main()->parameters()) {
      const Type* type = p->type();
      if (module.default_of(p) || !type->is_tensor() || !type->has_rank() || type->rank() == 0) continue;
      if (pins.shapes.contains(p->name())) continue;
      if (type->dim(0).is_symbol()) bindings.bind(type->dim(0).symbol_name(), *pins.batch, p->name());
      has_batch = has_batch || type->dim(0).is_symbol() || type->dim(0).as_constant() == *pins.batch;
    }
    if (!has_batch) {
      throw Error(ErrorCode::InvalidArgument, "no input has a first dimension that is not fixed")
          .with_hint("anfora info MODEL shows the inputs; --batch is not needed");
    }
  }
  bindings.apply();
}

void pin_dims(Module& module, const SizeByName& sizes) {
  Bindings bindings(module);
  for (const auto& [name, size] : sizes) bindings.bind(name, size, "");
  bindings.apply();
}

}  // namespace anfora::driver
