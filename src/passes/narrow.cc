// Weights that lose nothing in half precision, stored so.
//
//     f32[4096, 4096] …     →     Cast{to = f32}(bf16[4096, 4096] …)
//
// A model that was trained in bf16 or f16 and exported in f32 has such weights, and its file becomes half as large. What loads the file has them
// in f32 again, as constants: here too, whatever optimizes the model next. So the pass is in no pipeline, and runs by its name, last.
//
// `narrow-factors` is the same for a model that is to be run, of weights that kernels read narrow, where rows are few, as of a decoder: reading the weights
// is what takes time then.
//
// Whether nothing is lost is tried, of a few elements first. Linear in the size of the constants.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "analysis/evaluate.h"
#include "passes/narrow_weights.h"
#include "passes/pass.h"
#include "support/function_ref.h"
#include "support/mapped_file.h"

namespace anfora::passes {

extern const Pass kNarrow, kNarrowFactors;

namespace {

using namespace ir;

// About what the operator takes in a file.
constexpr int64_t kLeastSavedInFile = 512;
constexpr int64_t kFirst = 64;  // elements that are tried before memory is taken

AttributeSet casting_to(DType dtype) { return {{"to", static_cast<int64_t>(dtype)}}; }

Tensor converted(const Tensor& tensor, DType to, const Operator& cast) {
  const Datum input(tensor);
  return analysis::evaluate_operator(cast, casting_to(to), {&input, 1}, 1)[0].tensor();
}

// In half precision, some elements after the others; empty: it would lose something.
std::optional<Tensor> narrowed(const Tensor& tensor, DType to, const Operator& cast) {
  constexpr int64_t kAtOnce = 1 << 16;
  Tensor narrow;
  for (int64_t begin = 0, count = std::min(kFirst, tensor.size()); begin < tensor.size(); begin += count, count = std::min(kAtOnce, tensor.size() - begin)) {
    auto* const from = static_cast<std::byte*>(const_cast<void*>(tensor.raw())) + begin * static_cast<int64_t>(element_bytes(tensor.dtype()));
    const Tensor part = Tensor::view(tensor.dtype(), {&count, 1}, from, tensor.owner()), small = converted(part, to, cast);
    if (!Tensor::identical(converted(small, tensor.dtype(), cast), part)) return std::nullopt;
    if (begin == 0) narrow = Tensor::allocate(to, tensor.shape());
    std::memcpy(static_cast<std::byte*>(narrow.raw()) + begin * static_cast<int64_t>(element_bytes(to)), small.raw(), small.bytes());
  }
  drop_mapped_pages(tensor.raw(), tensor.bytes());
  return narrow;
}

// Of weights that may be narrow in that type.
using MayBe = FunctionRef<bool(const Value& weights, DType narrow)>;

std::optional<Tensor> smallest(const Value& weights, const Operator& cast, MayBe may_be) {
  for (DType to : {DType::F16, DType::BF16}) {
    if (!may_be(weights, to)) continue;
    if (auto narrow = narrowed(weights.tensor(), to, cast)) return narrow;
  }
  return std::nullopt;
}

size_t narrow_weights(PassContext& context, const Pass& pass, int64_t least_saved, MayBe may_be) {
  Module& module = context.module;
  const Operator& cast = module.context().get_operator("Cast");
  std::vector<Value*> weights;
  for (Value* value : module.constants()) {
    const bool is_large = value->tensor().dtype() == DType::F32 && static_cast<int64_t>(value->tensor().bytes() / 2) > least_saved;
    if (is_large && value->has_uses() && context.is_only_in_main(*value)) weights.push_back(value);
  }
  size_t changes = 0;
  for (Value* weight : weights) {
    const auto narrow = smallest(*weight, cast, may_be);
    if (!narrow || !context.has_fuel()) continue;
    Node* source = module.constant(*narrow);
    changes += context.compute(pass.name, "narrow-weight", *weight, cast.name, {&source, 1}, casting_to(DType::F32));
  }
  return changes;
}

size_t run_narrow(PassContext& context) {
  return narrow_weights(context, kNarrow, kLeastSavedInFile, [](const Value&, DType) { return true; });
}

// Whether a product has few rows, or as many as a run says.
bool has_few_rows(const Apply& product) {
  constexpr double kMany = 16;
  const Type* left = product.input(0)->type();
  if (!left->is_tensor() || !left->has_rank() || left->rank() < 1) return false;
  double rows = 1;
  for (Dim dim : left->dims().first(left->dims().size() - 1)) {
    if (!dim.is_constant()) return true;
    rows *= static_cast<double>(dim.constant());
  }
  return rows < kMany;
}

size_t run_narrow_factors(PassContext& context) {
  constexpr int64_t kLeastSaved = 1 << 17;  // what stays in the cache is read fast
  if (!context.options.reads_weights) return 0;
  return narrow_weights(context, kNarrowFactors, kLeastSaved, [&](const Value& weights, DType narrow) {
    auto has_few = [](const Use& use) { return has_few_rows(*use.user); };
    return is_read_narrow(weights, weights.tensor().shape(), narrow, context.options) && std::ranges::all_of(weights.uses(), has_few);
  });
}

}  // namespace

bool is_read_narrow(const Node& value, std::span<const int64_t> shape, DType narrow, const PassOptions& options) {
  constexpr int64_t kFewestColumns = 16;  // fewer are left to the library, which reads f32
  if (narrow == DType::F32 || !options.reads_weights || shape.size() != 2 || std::min(shape[0], shape[1]) < kFewestColumns) return false;
  auto is_factor = [](const Use& use) { return use.index() == 1 && use.user->op().fusion == FusionKind::Anchor; };
  return options.reads_weights(narrow) && std::ranges::all_of(value.uses(), [&](const Use& use) {
           return is_factor(use) || (use.user->is("Transpose") && std::ranges::all_of(use.user->uses(), is_factor));
         });
}

const Pass kNarrow{"narrow", "narrow weights", "stored in half precision where that loses nothing", run_narrow};

const Pass kNarrowFactors{"narrow-factors", "narrow factors", "weights of products with few rows in half precision, where that loses nothing",
                          run_narrow_factors};

}  // namespace anfora::passes
