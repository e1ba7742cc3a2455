// Slices that tile an axis of one value are a Split:
//
//     a = Slice(x, 0, 32), b = Slice(x, 32, 64)     →     (a, b) = Split(x, [32, 32])        where x has 64 along that axis
//
// Rules see slices until here: one at a time they move through other operators and are found in composites, all at once they
// are not. It is done for what is stored; a program that runs gains nothing.
#include <algorithm>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "passes/tuple_rewriter.h"
#include "support/integers.h"

namespace anfora::passes {

extern const Pass kSplit;

using namespace ir;

namespace {

struct Part {
  int64_t axis, from, to;
  Apply* slice;
};

// A Slice along one axis by constant bounds, which canonical forms have from the front.
std::optional<Part> part_of(Apply& slice) {
  const Type *before = slice.input(0)->type(), *after = slice.type();
  bool one_axis = slice.has_input(3) && (!slice.has_input(4) || integer_of(constant_tensor(slice.input(4))) == 1);
  if (!one_axis || !before || !before->is_tensor() || !before->has_rank() || !after || !after->is_tensor())
    return std::nullopt;
  auto from = integer_of(constant_tensor(slice.input(1))), axis = integer_of(constant_tensor(slice.input(3)));
  if (!from || !axis || *from < 0 || *axis < 0 || *axis >= static_cast<int64_t>(before->rank())) return std::nullopt;
  auto length = after->has_rank() ? after->dims()[static_cast<size_t>(*axis)].as_constant() : std::nullopt;
  if (!length || *length == 0) return std::nullopt;
  return Part{*axis, *from, *from + *length, &slice};
}

// Whether the parts, in order, are all of the axis.
bool tile(std::span<const Part> parts, int64_t extent) {
  int64_t at = 0;
  for (const Part& part : parts) {
    if (part.from != at) return false;
    at = part.to;
  }
  return at == extent && parts.size() > 1;
}

class Splitter : TupleRewriter {
 public:
  using TupleRewriter::TupleRewriter;

  size_t run() {
    size_t count = 0;
    for_each_value([&](Node& value, const Graph& graph) { count += split(value, graph); });
    return count;
  }

 private:
  size_t split(Node& value, const Graph& graph) {
    parts_.clear();
    for (const Use& use : value.uses()) {
      if (use.index() != 0 || !use.user->is("Slice") || use.user->graph() != &graph) continue;
      if (auto part = part_of(*use.user)) parts_.push_back(*part);
    }
    if (parts_.size() < 2) return 0;
    std::ranges::sort(parts_, {}, [](const Part& p) { return std::tuple(p.axis, p.from, p.to); });
    size_t count = 0;
    for (auto first = parts_.begin(); first != parts_.end();) {
      auto last = std::find_if(first, parts_.end(), [&](const Part& p) { return p.axis != first->axis; });
      auto extent = value.type()->dims()[static_cast<size_t>(first->axis)].as_constant();
      if (extent && tile({first, last}, *extent) && context_.has_fuel()) {
        split_into({first, last}, value);
        ++count;
      }
      first = last;
    }
    return count;
  }

  void split_into(std::span<const Part> parts, Node& value) {
    std::vector<int64_t> sizes;
    for (const Part& part : parts) sizes.push_back(part.to - part.from);
    Apply& first = *parts.front().slice;
    AttributeSet attributes;  // canonical: without the default
    if (parts.front().axis != 0) attributes = attributes.with("axis", parts.front().axis);
    Apply* split = apply(first, "Split", {&value, integers(sizes)}, attributes, parts.size());
    context_.applied(kSplit.name, "slices-that-tile", *split);
    for (size_t i = 0; i < parts.size(); ++i) replace(*parts[i].slice, *split, i);
  }

  std::vector<Part> parts_;
};

size_t run_split(PassContext& context) { return Splitter(context).run(); }

}  // namespace

const Pass kSplit{"split", "slices to Split", "slices that tile an axis become one Split", run_split};

}  // namespace anfora::passes
