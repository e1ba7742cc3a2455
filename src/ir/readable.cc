#include "ir/readable.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace anfora::ir {

// "_495_100", as analysis::Inference calls the sizes that it cannot tell.
bool is_generated(std::string_view symbol) {
  auto skip_number = [](std::string_view& text) {
    if (!text.starts_with('_')) return false;
    text.remove_prefix(1);
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0;
  };
  return skip_number(symbol) && skip_number(symbol) && symbol.empty();
}

namespace {

std::string dim_text(Dim dim) {
  bool is_named = true;
  for_each_symbol(dim, [&](Dim symbol) { is_named = is_named && !is_generated(symbol.symbol_name()); });
  return is_named ? to_string(dim) : "?";
}

std::string joined(std::span<const Type* const> types) {
  std::string text;
  for (const Type* type : types) text += (text.empty() ? "" : ", ") + readable(type);
  return text;
}

}  // namespace

std::string readable(const Type* type) {
  if (!type) return "no type";
  switch (type->kind()) {
    case TypeKind::Tensor: {
      if (!type->has_rank()) return to_string(type);
      std::string text(type->dtype() == DType::Undefined ? "any" : name(type->dtype()));
      text += '[';
      for (int i = 0; i < type->rank(); ++i) text += (i ? ", " : "") + dim_text(type->dim(i));
      return text + ']';
    }
    case TypeKind::Sequence: return fmt::format("seq({})", readable(type->element()));
    case TypeKind::Optional: return fmt::format("opt({})", readable(type->element()));
    case TypeKind::Tuple:
      return fmt::format("({}{})", joined(type->elements()), type->elements().size() == 1 ? "," : "");
    default: return to_string(type);
  }
}

}  // namespace anfora::ir
