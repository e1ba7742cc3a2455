#include "rules/operands.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "rules/operand_tables.h"

namespace anfora::rules {

namespace {

const AttributeValue* value_of(const Application& a, std::string_view name) {
  if (auto given = a.attributes.find(std::string(name)); given != a.attributes.end()) return &given->second;
  const ir::AttributeDeclaration* declared = a.op.find_attribute(name);
  return declared && declared->otherwise ? &*declared->otherwise : nullptr;
}

}  // namespace

std::string get_text(const Application& a, std::string_view name) {
  const AttributeValue* value = value_of(a, name);
  const std::string* text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? *text : "";
}

void set_values(Want& want, Ints values) {
  want.shape = {static_cast<int64_t>(values.size())};
  want.values = std::move(values);
}
void set_scalar(Want& want, int64_t value) {
  want.shape = {};
  want.values = Ints{value};
}

std::optional<int> resolve(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? std::optional(static_cast<int>(axis)) : std::nullopt;
}

void make_scalars(Application& a, std::initializer_list<size_t> operands) {
  for (size_t i : operands) {
    if (a.has(i)) a.operands[i].shape = {};
  }
}
void leave_out(Application& a, std::initializer_list<size_t> operands) {
  for (size_t i : operands) {
    if (a.has(i)) a.operands[i].absent = true;
  }
}

int64_t some(Draw& draw) { return draw.between(1, 3); }

int64_t maybe_negative(Draw& draw, int64_t axis, int rank) { return draw.percent(30) ? axis - rank : axis; }

Ints shuffled(Draw& draw, size_t size) {
  Ints list(size);
  std::iota(list.begin(), list.end(), 0);
  for (size_t i = size; i > 1; --i) std::swap(list[i - 1], list[draw.below(i)]);
  return list;
}

Ints random_subset(Draw& draw, int size, size_t chance) {
  Ints subset;
  for (int i = 0; i < size; ++i) {
    if (draw.percent(chance)) subset.push_back(i);
  }
  return subset;
}

Ints divisors(int64_t n) {
  Ints list;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) list.push_back(d);
  }
  return list.empty() ? Ints{1} : list;
}

int64_t Application::get_int(std::string_view name, int64_t otherwise) const {
  const AttributeValue* value = value_of(*this, name);
  const int64_t* integer = value ? std::get_if<int64_t>(value) : nullptr;
  return integer ? *integer : otherwise;
}

std::vector<int64_t> Application::get_ints(std::string_view name, std::vector<int64_t> otherwise) const {
  const AttributeValue* value = value_of(*this, name);
  const Ints* integers = value ? std::get_if<Ints>(value) : nullptr;
  return integers ? *integers : otherwise;
}

namespace {

const OperandEntry* find_entry(std::span<const std::span<const OperandEntry>> tables, const ir::Operator& op) {
  for (std::span<const OperandEntry> table : tables) {
    auto found = std::ranges::find(table, op.qualified, &OperandEntry::op);
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

static bool choose_from_operands(const OperandEntry& entry, Application& a) {
  size_t required =
      static_cast<size_t>(std::ranges::count(a.op.inputs, ir::Formal::Arity::Required, &ir::Formal::arity));
  return a.operands.size() >= required && entry.choose(a);
}

bool choose_operands(Application& a) {
  const std::array tables{moving_operands(), product_operands(), element_operands()};
  if (const OperandEntry* entry = find_entry(tables, a.op)) return !a.operands.empty() && entry->choose(a);
  if (a.op.name.starts_with("Reduce")) return !a.operands.empty() && choose_reduced(a);
  if (a.op.fusion == ir::FusionKind::Broadcast || a.op.fusion == ir::FusionKind::Elementwise) {
    return choose_elementwise(a);
  }
  // There is no way back from the result of a layer: what it has comes of the operands, and may not be what is wanted.
  const OperandEntry* layer = find_entry(std::array{layer_operands()}, a.op);
  if (layer && a.draw.percent(75)) return choose_from_operands(*layer, a);
  for (Want& want : a.operands) want.shape = a.result;
  return true;
}

bool choose_free_operands(Application& a) {
  const std::array tables{layer_operands(), indexed_operands()};
  const OperandEntry* entry = find_entry(tables, a.op);
  return entry ? choose_from_operands(*entry, a) : choose_operands(a);
}

int64_t random_extent(Draw& draw) {
  static constexpr int64_t kExtents[] = {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 2, 3, 2, 3, 1, 2, 3, 0};
  return draw.of(kExtents);
}

Shape random_shape(Draw& draw, int rank) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(random_extent(draw));
  if (rank > 0 && draw.percent(20)) std::ranges::fill(shape, shape[0]);  // where a wrong axis has the right extent
  return shape;
}

Shape narrower_shape(Draw& draw, const Shape& shape) {
  if (draw.percent(30)) return {};
  size_t dropped = draw.percent(50) ? 0 : draw.below(shape.size() + 1);
  Shape narrower(shape.begin() + static_cast<std::ptrdiff_t>(dropped), shape.end());
  for (int64_t& extent : narrower) {
    if (draw.percent(30)) extent = 1;
  }
  return narrower;
}

}  // namespace anfora::rules
