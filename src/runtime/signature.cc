#include "runtime/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "anfora/error.h"
#include "runtime/profiler.h"
#include "support/nearest.h"

namespace anfora::runtime {
namespace {

Error wrong_input(const ValueSpec& spec, const Datum& given, std::string hint) {
  return Error(ErrorCode::InvalidArgument,
               fmt::format("input '{}' is {}, the model takes {}", spec.name, describe(given), spec.type))
      .with_hint(std::move(hint));
}

bool fits(const Structure& structure, const Tensor& tensor) {
  return structure.kind == Structure::Kind::Any || structure.dtype == DType::Undefined ||
         structure.dtype == tensor.dtype();
}

bool fits(const Structure& structure, const Datum& given) {
  switch (structure.kind) {
    case Structure::Kind::Any: return true;
    case Structure::Kind::Tensor: return given.is_tensor() && fits(structure, given.tensor());
    case Structure::Kind::Sequence:
      return given.kind() == Datum::Kind::Sequence &&
             std::ranges::all_of(given.items(), [&](const Datum& item) { return fits(*structure.element, item); });
    case Structure::Kind::Optional: return given.is_none() || fits(*structure.element, given);
    case Structure::Kind::Map:
      return given.kind() == Datum::Kind::Map && structure.dtype == given.as_map().keys.dtype() &&
             fits(*structure.element, given.as_map().values);
  }
  return false;
}

// "sequence of 2: f32[3], i64[3]": with the items of which one does not fit.
std::string describe_items(const Datum& given) {
  if (given.kind() == Datum::Kind::Map) {
    return fmt::format("map from {} to {}", name(given.as_map().keys.dtype()), name(given.as_map().values.dtype()));
  }
  if (given.kind() != Datum::Kind::Sequence) return describe(given);
  constexpr size_t kMostItems = 4;
  std::vector<std::string> items;
  for (const Datum& item : given.items()) items.push_back(items.size() < kMostItems ? describe(item) : "…");
  items.resize(std::min(items.size(), kMostItems + 1));
  return fmt::format("a {}: {}", describe(given), fmt::join(items, ", "));
}

void check_input(const Signature& signature, size_t index, const Arguments& arguments) {
  const ValueSpec& spec = signature.inputs[index];
  const Datum& given = *arguments.data[index];
  const std::vector<int64_t>& symbols = arguments.symbols;
  if (!spec.is_tensor) {
    if (fits(spec.structure, given)) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("input '{}' is {}, the model takes {}", spec.name, describe_items(given), spec.type));
  }
  if (!given.is_tensor()) throw wrong_input(spec, given, "give a tensor");
  const Tensor& tensor = given.tensor();
  if (spec.dtype != DType::Undefined && tensor.dtype() != spec.dtype) {
    throw wrong_input(spec, given, fmt::format("convert it to {}", name(spec.dtype)));
  }
  if (!spec.dims) return;
  if (tensor.shape().size() != spec.dims->size()) {
    throw wrong_input(spec, given, fmt::format("it must have {} dimensions", spec.dims->size()));
  }
  for (size_t axis = 0; axis < spec.dims->size(); ++axis) {
    std::optional<int64_t> wanted = (*spec.dims)[axis].evaluate(symbols);
    if (!wanted || *wanted == tensor.shape()[axis]) continue;
    // Which other inputs said so, when a symbol did.
    std::vector<std::string> reasons;
    if (!(*spec.dims)[axis].is_constant()) {
      for (size_t s = 0; s < signature.symbols.size(); ++s) {
        const Signature::Symbol& symbol = signature.symbols[s];
        if (symbol.input == index || !(*spec.dims)[axis].mentions(s)) continue;
        reasons.push_back(
            fmt::format("{} is {} by input '{}'", symbol.name, symbols[s], signature.inputs[symbol.input].name));
      }
    }
    throw wrong_input(
        spec, given,
        fmt::format("dimension {} must be {}{}{}{}", axis, *wanted, reasons.empty() ? "" : ": ",
                    fmt::join(reasons, ", "), reasons.empty() ? "" : "; a compiled model takes one size for a name"));
  }
}

void add_extents(const Datum& datum, size_t input, std::vector<Arguments::Extent>& extents) {
  if (datum.is_tensor()) {
    const auto* begin = static_cast<const std::byte*>(datum.tensor().raw());
    if (datum.tensor().bytes() > 0) extents.push_back({begin, begin + datum.tensor().bytes(), input});
  } else if (datum.kind() == Datum::Kind::Sequence) {
    for (const Datum& item : datum.items()) add_extents(item, input, extents);
  }
}

// O(n log n) in the tensors; nothing where no input is donated.
void check_donated(const Signature& signature, Arguments& arguments) {
  if (std::ranges::none_of(signature.inputs, &ValueSpec::is_donated)) return;
  std::vector<Arguments::Extent>& extents = arguments.extents;
  extents.clear();
  for (size_t i = 0; i < arguments.data.size(); ++i) add_extents(*arguments.data[i], i, extents);
  std::ranges::sort(extents, std::less(), &Arguments::Extent::begin);
  const Arguments::Extent *reaches_farthest = nullptr, *donated_farthest = nullptr;  // of those so far
  for (const Arguments::Extent& extent : extents) {
    const bool is_donated = signature.inputs[extent.input].is_donated;
    const Arguments::Extent* before = is_donated ? reaches_farthest : donated_farthest;
    if (before && before->end > extent.begin) {
      const auto [donated, other] =
          is_donated ? std::pair(extent.input, before->input) : std::pair(before->input, extent.input);
      throw Error(ErrorCode::InvalidArgument, fmt::format("input '{}' is donated, and shares memory with input '{}'",
                                                          signature.inputs[donated].name, signature.inputs[other].name))
          .with_hint("a donated array is overwritten: give a copy for one of them");
    }
    auto is_farther = [&](const Arguments::Extent* than) { return !than || extent.end > than->end; };
    if (is_farther(reaches_farthest)) reaches_farthest = &extent;
    if (is_donated && is_farther(donated_farthest)) donated_farthest = &extent;
  }
}

}  // namespace

std::vector<Datum> in_order(const Signature& signature, NamedData named) {
  std::vector<std::string> names;
  for (const ValueSpec& spec : signature.inputs) names.push_back(spec.name);
  std::vector<Datum> data(names.size());
  std::vector<bool> given(names.size());
  for (auto& [name, datum] : named) {
    auto found = std::ranges::find(names, name);
    if (found == names.end()) throw unknown_name("input", name, names);
    size_t index = static_cast<size_t>(found - names.begin());
    if (given[index]) throw Error(ErrorCode::InvalidArgument, fmt::format("input '{}' is given twice", name));
    given[index] = true;
    data[index] = std::move(datum);
  }
  return data;
}

void bind(const Signature& signature, std::span<const Datum> inputs, Arguments& arguments) {
  static const Datum none;
  if (inputs.size() > signature.inputs.size()) {
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} inputs given, the model takes {}", inputs.size(), signature.inputs.size()));
  }
  arguments.data.clear();
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const ValueSpec& spec = signature.inputs[i];
    const Datum* datum = i < inputs.size() ? &inputs[i] : &none;
    if (datum->is_none() && spec.otherwise) datum = &*spec.otherwise;
    if (datum->is_none() && !spec.otherwise && spec.is_tensor) {
      throw Error(ErrorCode::InvalidArgument, fmt::format("input '{}' ({}) is missing", spec.name, spec.type));
    }
    arguments.data.push_back(datum);
  }
  arguments.symbols.clear();
  for (const Signature::Symbol& symbol : signature.symbols) {
    const Datum& datum = *arguments.data[symbol.input];
    int64_t value = kUnbound;
    if (datum.is_tensor() && datum.tensor().shape().size() > symbol.axis) {
      int64_t size = datum.tensor().shape()[symbol.axis] - symbol.offset;
      if (size % symbol.scale == 0) value = size / symbol.scale;
    }
    arguments.symbols.push_back(value);
  }
  for (size_t i = 0; i < arguments.data.size(); ++i) check_input(signature, i, arguments);
  check_donated(signature, arguments);
}

}  // namespace anfora::runtime
