// Sizes are asked of the model's inputs, not of what is computed from them:
//
//     Shape(Max(Unsqueeze(Range(batch)), …)) : [batch, 1, 1, sequence]  =  Concat(Shape(ids)[0:1], [1, 1], Shape(ids)[1:2])
//
// Exporters broadcast index grids only to learn the shape that they would have. Symbolic shapes tell which input has each size.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <optional>
#include <vector>
#include "passes/simplify/engines.h"


namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

// More questions than that are no gain over asking the tensor.
constexpr size_t kMostSources = 2;

struct SizeOrigin {
  Node* input;
  int64_t axis;
};

std::optional<SizeOrigin> find_size(const Module& module, Dim size) {
  for (Parameter* parameter : module.main()->parameters()) {
    const Type* type = parameter->type();
    if (!type || !type->is_tensor() || !type->has_rank()) continue;
    for (size_t axis = 0; axis < type->dims().size(); ++axis) {
      if (provably_equal(type->dims()[axis], size)) return SizeOrigin{parameter, static_cast<int64_t>(axis)};
    }
  }
  return std::nullopt;
}

// Neighbouring constant sizes, or neighbouring axes of one input.
struct Piece {
  std::vector<int64_t> sizes;
  Node* input = nullptr;
  int64_t start = 0, end = 0;
};

std::optional<std::vector<Piece>> pieces_of(const Module& module, std::span<const Dim> dims) {
  std::vector<Piece> pieces;
  size_t num_sources = 0;
  for (Dim dim : dims) {
    if (auto constant = dim.as_constant()) {
      if (pieces.empty() || pieces.back().input) pieces.emplace_back();
      pieces.back().sizes.push_back(*constant);
      continue;
    }
    auto source = find_size(module, dim);
    if (!source) return std::nullopt;
    if (!pieces.empty() && pieces.back().input == source->input && pieces.back().end == source->axis) {
      ++pieces.back().end;
      continue;
    }
    if (++num_sources > kMostSources) return std::nullopt;
    pieces.push_back({{}, source->input, source->axis, source->axis + 1});
  }
  return pieces;
}

// Which axes of one input have these sizes, constants among them; empty where it takes several.
std::optional<std::vector<int64_t>> axes_with(const Node& input, std::span<const Dim> dims) {
  std::vector<int64_t> axes;
  const auto sizes = input.type()->dims();
  for (Dim dim : dims) {
    auto axis = std::ranges::find_if(sizes, [&](Dim size) { return provably_equal(size, dim); });
    if (axis == sizes.end()) return std::nullopt;
    axes.push_back(axis - sizes.begin());
  }
  return axes;
}

Node* shape_of_inputs(Rewriter& rewriter, Apply& root) {
  const Apply* computed = root.input(0)->as_apply();
  const Module& module = rewriter.module();
  auto is_question = [](const Use& use) { return use.user->is("Shape"); };
  if (!computed || root.graph() != module.main() || !std::ranges::all_of(computed->uses(), is_question)) return nullptr;
  const Type* type = computed->type();
  if (!type || !type->is_tensor() || !type->has_rank()) return nullptr;
  const auto rank = static_cast<int64_t>(type->rank());
  auto bound = [&](std::string_view name, int64_t otherwise) {
    int64_t at = root.attributes().get_int(name, otherwise);
    return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
  };
  const int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  const auto dims = type->dims().subspan(static_cast<size_t>(start), static_cast<size_t>(end - start));
  auto pieces = pieces_of(module, dims);
  if (!pieces) return nullptr;
  auto asked = std::ranges::find_if(*pieces, [](const Piece& piece) { return piece.input != nullptr; });
  if (asked == pieces->end()) return nullptr;
  if (auto axes = axes_with(*asked->input, dims); axes && pieces->size() > 1) {
    return rewriter.apply("Gather", {rewriter.apply("Shape", {asked->input}), rewriter.integers(*axes)});
  }

  boost::container::small_vector<Node*, 4> parts;
  for (const Piece& piece : *pieces) {
    if (piece.input) {
      parts.push_back(rewriter.apply("Shape", {piece.input}, {{"start", piece.start}, {"end", piece.end}}));
    } else {
      parts.push_back(rewriter.integers(piece.sizes));
    }
  }
  if (parts.size() == 1) return parts.front();
  return rewriter.apply(rewriter.context().get_operator("Concat"), parts, {{"axis", int64_t{0}}});
}

constexpr Rule kShapeRules[] = {
    {"shape-of-inputs", "Shape", "the shape of what is computed = sizes of the model's inputs", Promise::Exact,
     shape_of_inputs},
};

}  // namespace

std::span<const Rule> shape_rules() { return kShapeRules; }

}  // namespace anfora::passes
