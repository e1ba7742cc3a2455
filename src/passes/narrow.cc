// Weights that lose nothing in half precision, stored so.
//
//     f32[4096, 4096] …     →     Cast{to = f32}(bf16[4096, 4096] …)
//
// A model that was trained in bf16 or f16 and exported in f32 has such weights, and its file becomes half as large. What loads the file has them
// in f32 again, as constants: here too, whatever optimizes the model next. So the pass is in no pipeline, and runs by its name, last.
//
// Whether nothing is lost is tried, of the first elements and then of all. Linear in the size of the constants.
#include <algorithm>
#include <array>
#include <vector>

#include "analysis/evaluate.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kNarrow;

namespace {

using namespace ir;

// About what the operator takes in a file.
constexpr size_t kLeastSaved = 512;
constexpr int64_t kFirst = 64;

AttributeSet casting_to(DType dtype) { return {{"to", static_cast<int64_t>(dtype)}}; }

Tensor converted(const Tensor& tensor, DType to, const Operator& cast) {
  const Datum input(tensor);
  return analysis::evaluate_operator(cast, casting_to(to), {&input, 1}, 1)[0].tensor();
}

// In half precision; empty: it would lose something.
std::optional<Tensor> narrowed(const Tensor& tensor, DType to, const Operator& cast) {
  Tensor narrow = converted(tensor, to, cast);
  return Tensor::identical(converted(narrow, tensor.dtype(), cast), tensor) ? std::optional(std::move(narrow)) : std::nullopt;
}

std::optional<Tensor> smallest(const Tensor& tensor, const Operator& cast) {
  const int64_t count = std::min(kFirst, tensor.size());
  const Tensor first = Tensor::view(tensor.dtype(), {&count, 1}, const_cast<void*>(tensor.raw()), tensor.owner());
  for (DType to : {DType::F16, DType::BF16}) {
    if (!narrowed(first, to, cast)) continue;
    if (auto narrow = narrowed(tensor, to, cast)) return narrow;
  }
  return std::nullopt;
}

size_t run_narrow(PassContext& context) {
  Module& module = context.module;
  const Operator& cast = module.context().get_operator("Cast");
  // The Cast is made in main, which a function of its own does not see.
  auto sees_main = [&](const Use& use) { return use.user->graph()->is_inside(module.main()); };
  std::vector<Value*> weights;
  for (Value* value : module.constants()) {
    const bool is_large = value->tensor().dtype() == DType::F32 && value->tensor().bytes() / 2 > kLeastSaved;
    if (is_large && value->has_uses() && std::ranges::all_of(value->uses(), sees_main)) weights.push_back(value);
  }
  size_t changes = 0;
  for (Value* weight : weights) {
    const auto narrow = smallest(weight->tensor(), cast);
    if (!narrow || !context.has_fuel()) continue;
    Node* source = module.constant(*narrow);
    Apply* made = module.apply(module.main(), cast, {&source, 1}, casting_to(DType::F32));
    made->set_type(weight->type());
    if (const auto& has_operator = context.options.has_operator; has_operator && !has_operator(*made)) {
      module.erase(made);
      continue;
    }
    module.replace(weight, made);
    context.applied(kNarrow.name, "narrow-weight", *made);
    ++changes;
  }
  return changes;
}

}  // namespace

const Pass kNarrow{"narrow", "narrow weights", "stored in half precision where that loses nothing", run_narrow};

}  // namespace anfora::passes
