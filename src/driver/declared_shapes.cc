#include "driver/declared_shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace anfora::driver {

DeclaredShapes::DeclaredShapes(const ir::Module& module) {
  std::map<std::string_view, Axis> first;
  for (const ir::Parameter* parameter : module.main()->parameters()) {
    Input& input = inputs_.emplace_back(Input{.name = std::string(parameter->name())});
    if (const ir::Value* value = module.default_of(parameter); value && value->is_tensor()) {
      input.otherwise = value->tensor().shape();
      input.has_default = true;
    }
    const ir::Type* type = parameter->type();
    if (!type || !type->is_tensor() || !type->has_rank()) continue;
    for (ir::Dim dim : type->dims()) {
      const Axis axis{inputs_.size() - 1, input.dims.size()};
      input.dims.emplace_back(dim.is_symbol() ? dim.symbol_name() : "");
      if (!dim.is_symbol()) continue;
      auto [known, is_new] = first.try_emplace(dim.symbol_name(), axis);
      if (!is_new) named_alike_.emplace_back(known->second, axis);
    }
  }
  const std::vector<const ir::Type*>& declared = module.metadata().output_types;
  for (size_t i = 0; i < std::min(declared.size(), module.output_names().size()); ++i) {
    Output& output = outputs_.emplace_back(Output{.name = module.output_names()[i]});
    if (!declared[i] || !declared[i]->is_tensor() || !declared[i]->has_rank()) continue;
    output.is_known = true;
    output.type = to_string(declared[i]);
    for (ir::Dim dim : declared[i]->dims()) output.dims.push_back(dim.as_constant().value_or(-1));
  }
}

Contradiction DeclaredShapes::check_inputs(const runtime::NamedData& inputs) const {
  return check([&](size_t i) -> const Datum* {
    auto given = std::ranges::find(inputs, inputs_[i].name, &runtime::NamedData::value_type::first);
    return given == inputs.end() ? nullptr : &given->second;
  });
}

Contradiction DeclaredShapes::check_inputs(std::span<const Datum> inputs) const {
  return check([&](size_t i) { return i < inputs.size() && !inputs[i].is_none() ? &inputs[i] : nullptr; });
}

const Shape* DeclaredShapes::shape_of(size_t i, Given given_for) const {
  const Input& input = inputs_[i];
  const Shape* shape = input.has_default ? &input.otherwise : nullptr;
  if (const Datum* given = given_for(i)) shape = given->is_tensor() ? &given->tensor().shape() : nullptr;
  return shape && shape->size() == input.dims.size() ? shape : nullptr;
}

bool DeclaredShapes::is_contradicted(Given given_for) const {
  return std::ranges::any_of(named_alike_, [&](const std::pair<Axis, Axis>& axes) {
    const Shape *first = shape_of(axes.first.input, given_for), *second = shape_of(axes.second.input, given_for);
    return !first || !second || (*first)[axes.first.axis] != (*second)[axes.second.axis];
  });
}

Contradiction DeclaredShapes::check(Given given_for) const {
  if (!is_contradicted(given_for)) return {};
  struct Sizes {
    std::vector<std::pair<int64_t, std::string_view>> all;  // each with the first input that has it
  };
  std::map<std::string, Sizes, std::less<>> by_name;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    const Shape* shape = shape_of(i, given_for);
    if (!shape) continue;
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      if (input.dims[axis].empty()) continue;
      auto& sizes = by_name[input.dims[axis]].all;
      const int64_t size = (*shape)[axis];
      if (std::ranges::find(sizes, size, &std::pair<int64_t, std::string_view>::first) == sizes.end()) {
        sizes.emplace_back(size, input.name);
      }
    }
  }
  Contradiction found;
  std::vector<std::string> texts;
  for (const auto& [name, sizes] : by_name) {
    if (sizes.all.size() < 2) continue;
    found.names.insert(name);
    std::vector<std::string> parts;
    for (const auto& [size, input] : sizes.all) parts.push_back(fmt::format("{} in '{}'", size, input));
    texts.push_back(fmt::format("'{}' is {}", name, fmt::join(parts, " and ")));
  }
  if (!texts.empty()) {
    found.message =
        fmt::format("one name of a dimension has several sizes: {}; they are taken for different dimensions",
                    fmt::join(texts, ", "));
  }
  return found;
}

Contradiction DeclaredShapes::check_outputs(std::span<const Datum> outputs) const {
  Contradiction found;
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(outputs.size(), outputs_.size()); ++i) {
    const Output& output = outputs_[i];
    if (!output.is_known || !outputs[i].is_tensor()) continue;
    const Shape& shape = outputs[i].tensor().shape();
    const bool fits = std::ranges::equal(shape, output.dims,
                                         [](int64_t is, int64_t declared) { return declared < 0 || is == declared; });
    if (!fits)
      texts.push_back(
          fmt::format("'{}' has shape {}, the model declares {}", output.name, to_string(shape), output.type));
  }
  if (!texts.empty()) found.message = fmt::format("outputs are not as declared: {}", fmt::join(texts, ", "));
  return found;
}

Contradiction reload_if_contradicted(LoadedModel& model, const ModelSource& source,
                                     const runtime::NamedData& inputs) {
  if (!source.is_onnx()) return {};  // whose types hold
  Contradiction found = DeclaredShapes(*model.module).check_inputs(inputs);
  if (found) model = load_model(source, nullptr, found.names);
  return found;
}

}  // namespace anfora::driver
