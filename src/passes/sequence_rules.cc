// Rules of sequences and optionals: what is taken out is what was put in. Exporters write sequences for lists of tensors whose
// lengths they do not know, and most turn out to be known.
#include <algorithm>
#include <optional>
#include <vector>

#include "ir/queries.h"
#include "passes/pass.h"

#include "support/integers.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

// Position `node` of `size` items, a negative one counted from the end.
std::optional<size_t> position_of(const Node* node, size_t size) {
  auto given = integer_of(constant_tensor(node));
  if (!given) return std::nullopt;
  int64_t position = *given < 0 ? *given + static_cast<int64_t>(size) : *given;
  if (position < 0 || position >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(position);
}

Apply* operand_named(Apply& root, std::string_view op) {
  Apply* operand = root.input(0)->as_apply();
  return operand && operand->is(op) ? operand : nullptr;
}

struct Parts {
  int64_t axis;
  std::vector<int64_t> sizes;
  bool squeezed;  // each is one slice, without the axis
};

// The parts of a SplitToSequence, where they are known.
std::optional<Parts> parts_of(const Apply& split) {
  const auto axis = axis_of(split, rank_of(split.input(0)));
  if (!axis) return std::nullopt;
  auto extent = split.input(0)->type()->dim(static_cast<int>(*axis)).as_constant();
  if (!extent) return std::nullopt;
  if (!split.has_input(1)) {
    bool keeps = split.attributes().get_int("keepdims", 1) != 0;
    return Parts{*axis, std::vector<int64_t>(static_cast<size_t>(*extent), 1), !keeps};
  }
  auto sizes = integers_of(constant_tensor(split.input(1)));
  if (!sizes) return std::nullopt;
  if (constant_tensor(split.input(1))->rank() > 0) return Parts{*axis, *sizes, false};
  const int64_t chunk = sizes->front();  // the last part is what is left
  if (chunk <= 0) return std::nullopt;
  std::vector<int64_t> chunks(static_cast<size_t>(*extent / chunk), chunk);
  if (*extent % chunk != 0) chunks.push_back(*extent % chunk);
  return Parts{*axis, chunks, false};
}

Node* item_of_construct(Rewriter&, Apply& root) {
  Apply* sequence = operand_named(root, "SequenceConstruct");
  if (!sequence) return nullptr;
  auto position = position_of(root.input(1), sequence->num_inputs());
  return position ? sequence->input(*position) : nullptr;
}

Node* item_of_split(Rewriter& rewriter, Apply& root) {
  Apply* sequence = operand_named(root, "SplitToSequence");
  auto parts = sequence ? parts_of(*sequence) : std::nullopt;
  auto position = parts ? position_of(root.input(1), parts->sizes.size()) : std::nullopt;
  if (!position) return nullptr;
  Node* item = sequence->input(0);
  if (parts->sizes.size() > 1) {
    Node* inputs[] = {item, rewriter.integers(parts->sizes)};
    Apply* split =
        rewriter.apply(rewriter.context().get_operator("Split"), inputs, {{"axis", parts->axis}}, parts->sizes.size());
    item = rewriter.item(split, *position);
  }
  return parts->squeezed ? rewriter.apply("Squeeze", {item, rewriter.integers({&parts->axis, 1})}) : item;
}

Node* joined_construct(Rewriter& rewriter, Apply& root) {
  Apply* sequence = operand_named(root, "SequenceConstruct");
  const auto axis = sequence ? axis_of(root, rank_of(&root)) : std::nullopt;
  if (!axis) return nullptr;
  boost::container::small_vector<Node*, 4> items;
  for (const Use& use : sequence->operands()) {
    bool is_new = root.attributes().get_int("new_axis", 0) != 0;
    items.push_back(is_new ? rewriter.apply("Unsqueeze", {use.node, rewriter.integers({&*axis, 1})}) : use.node);
  }
  return rewriter.apply(rewriter.context().get_operator("Concat"), items, {{"axis", *axis}});
}

Node* length_of_sequence(Rewriter& rewriter, Apply& root) {
  std::optional<size_t> length;
  if (Apply* construct = operand_named(root, "SequenceConstruct")) length = construct->num_inputs();
  if (Apply* split = operand_named(root, "SplitToSequence")) {
    if (auto parts = parts_of(*split)) length = parts->sizes.size();
  }
  return length ? rewriter.constant(Tensor::scalar<int64_t>(static_cast<int64_t>(*length))) : nullptr;
}

Node* element_of_optional(Rewriter&, Apply& root) {
  Apply* optional = operand_named(root, "Optional");
  return optional && optional->has_input(0) ? optional->input(0) : nullptr;
}

constexpr Rule kSequenceRules[] = {
    {"sequence-item", "SequenceAt", "item i of the sequence x₀, x₁, … = xᵢ", Promise::Exact, item_of_construct, true},
    {"sequence-part", "SequenceAt", "item i of what is split into a sequence = part i", Promise::Exact, item_of_split,
     true},
    {"sequence-join", "ConcatFromSequence", "the sequence x₀, x₁, … one after the other = Concat(x₀, x₁, …)",
     Promise::Exact, joined_construct, true},
    {"sequence-length", "SequenceLength", "the length of the sequence x₀, …, xₙ₋₁ = n", Promise::Exact,
     length_of_sequence},
    {"optional-element", "OptionalGetElement", "the element of Optional(x) = x", Promise::Exact, element_of_optional,
     true},
};

}  // namespace

std::span<const Rule> sequence_rules() { return kSequenceRules; }

}  // namespace anfora::passes
