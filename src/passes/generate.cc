// Constants that folding made and that are cheap to make of less are stored as what makes them:
//
//     f32[512, 2048] 0.0                        ConstantOfShape{value = 0.0}([512, 2048])
//     i64[4096] [0, 1, 2, …]                    Range(0, 4096, 1)
//     a row, repeated                           Expand(the row, shape)
//     another constant, otherwise arranged      Reshape(it, shape), Transpose(it), Cast(it)
//
// Until here they were constants so that other rewrites could see through them (a normalization whose statistics are made by
// ConstantOfShape goes into the weights; the transposed embedding is the matrix of a product, but is read as it was as well).
// What is left of that shall not make the file larger. But an operator more is not wanted either: the largest ones are taken,
// until what the others would save is no longer worth it. Constants that the model had stay, but for a second one with the elements
// of another.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "analysis/evaluate.h"
#include "passes/origins.h"
#include "passes/pass.h"
#include "rewrite/match.h"
#include "support/repetition.h"

namespace anfora::passes {

extern const Pass kGenerate;

using namespace ir;

namespace {

// An operator with its shape takes about as much space in a file.
constexpr size_t kGeneratorBytes = 512;
// A file may grow by this share of the constants that it stores anyway.
constexpr double kGrowth = 0.01;
// As many elements tell whether it is worth to convert or compare all of them.
constexpr int64_t kProbe = 64;

bool has_bytes(const Tensor& t) { return t.dtype() != DType::String && element_bits(t.dtype()) >= 8; }
bool is_number(DType dtype) { return is_integer(dtype) || is_float(dtype); }

Tensor head(const Tensor& t, int64_t count) {
  return Tensor::view(t.dtype(), {&count, 1}, const_cast<void*>(t.raw()), t.owner());
}

// Start and step of integers that count up or down.
std::optional<std::pair<int64_t, int64_t>> progression(const Tensor& t) {
  if (t.rank() != 1 || t.size() < 2 || t.dtype() != DType::I64) return std::nullopt;
  auto elements = t.data<int64_t>();
  // The difference of two numbers need not be one.
  auto step = [&](size_t i) { return static_cast<uint64_t>(elements[i]) - static_cast<uint64_t>(elements[i - 1]); };
  for (size_t i = 2; i < elements.size(); ++i) {
    if (step(i) != step(1)) return std::nullopt;
  }
  int64_t limit;
  const int64_t first = elements[0], difference = static_cast<int64_t>(step(1));
  bool ends = !__builtin_mul_overflow(difference, t.size(), &limit) && !__builtin_add_overflow(first, limit, &limit);
  return ends && difference != 0 ? std::optional(std::pair(first, difference)) : std::nullopt;
}

bool is_transposed(const Tensor& a, const Tensor& b) {
  if (a.rank() != 2 || b.rank() != 2 || a.dim(0) != b.dim(1) || a.dim(1) != b.dim(0)) return false;
  const size_t bytes = element_bytes(a.dtype());
  const auto *x = static_cast<const std::byte*>(a.raw()), *y = static_cast<const std::byte*>(b.raw());
  const auto rows = static_cast<size_t>(a.dim(0)), columns = static_cast<size_t>(a.dim(1));
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      if (std::memcmp(x + (i * columns + j) * bytes, y + (j * rows + i) * bytes, bytes) != 0) return false;
    }
  }
  return true;
}

class Generation {
 public:
  explicit Generation(PassContext& context)
      : context_(context), module_(context.module) {
    const uint32_t first_id = context.origins().first_id;
    for (Value* value : module_.constants()) {
      if (!value->has_uses() || !has_bytes(value->tensor())) continue;
      stored_ += static_cast<double>(value->tensor().bytes());
      if (value->tensor().bytes() <= kGeneratorBytes) continue;
      by_size_[value->tensor().size()].push_back(value);
      const bool is_shared = !elements_.insert(value->tensor().raw()).second;
      if ((value->id() >= first_id || is_shared) && context_.is_only_in_main(*value)) made_.push_back(value);
    }
  }

  size_t run() {
    std::ranges::stable_sort(made_, std::greater(), [](const Value* v) { return v->tensor().bytes(); });
    std::vector<Recipe> recipes;
    double saving = 0;
    for (Value* value : made_) {
      std::optional<Recipe> recipe = recipe_for(*value);
      if (!recipe) continue;
      replaced_.insert(value);
      if (recipe->source) sources_.insert(recipe->source);
      saving += recipe->saving;
      recipes.push_back(std::move(*recipe));
    }
    std::ranges::stable_sort(recipes, std::greater(), &Recipe::saving);
    const double allowed = kGrowth * (stored_ - saving);
    size_t generated = 0;
    for (const Recipe& recipe : recipes) {
      if (saving <= allowed || !context_.has_fuel()) break;
      if (!follow(recipe)) continue;
      saving -= recipe.saving;
      ++generated;
    }
    return generated;
  }

 private:
  struct Recipe {
    Value* value;  // that it makes
    std::string_view op;
    std::vector<Tensor> operands;  // behind the source, where there is one
    AttributeSet attributes;
    Value* source = nullptr;  // another constant, which stays
    double saving = 0;
  };

  std::optional<Recipe> recipe_for(Value& value) const {
    const Tensor& t = value.tensor();
    if (sources_.contains(&value)) return std::nullopt;
    const Tensor shape = Tensor::vector<int64_t>(std::span<const int64_t>(t.shape()));
    auto recipe = [&](std::string_view op, std::vector<Tensor> operands, AttributeSet attributes = {},
                      Value* source = nullptr) -> std::optional<Recipe> {
      double cost = kGeneratorBytes;
      for (const Tensor& operand : operands) cost += static_cast<double>(operand.bytes());
      const double saving = static_cast<double>(t.bytes()) - cost;
      if (saving <= 0) return std::nullopt;
      return Recipe{&value, op, std::move(operands), std::move(attributes), source, saving};
    };
    if (is_number(t.dtype()) && rewrite::splat_value(&value)) {
      return recipe("ConstantOfShape", {shape}, {{"value", head(t, 1).clone()}});
    }
    if (auto counted = progression(t)) {
      auto [first, step] = *counted;
      return recipe("Range", {Tensor::scalar(first), Tensor::scalar(first + step * t.size()), Tensor::scalar(step)});
    }
    if (auto part = without_repetition(t); part && part->size() > 1) {
      if (auto expanded = recipe("Expand", {std::move(*part), shape})) return expanded;
    }
    auto alike = by_size_.find(t.size());
    for (Value* source : alike->second) {
      if (source == &value || replaced_.contains(source)) continue;
      const Tensor& s = source->tensor();
      if (s.dtype() == t.dtype()) {
        if (Tensor::identical(s.reshaped(t.shape()), t)) return recipe("Reshape", {shape}, {}, source);
        if (is_transposed(s, t)) return recipe("Transpose", {}, {{"perm", std::vector<int64_t>{1, 0}}}, source);
      } else if (s.shape() == t.shape() && s.bytes() < t.bytes() && is_converted(s, t)) {
        return recipe("Cast", {}, {{"to", static_cast<int64_t>(t.dtype())}}, source);
      }
    }
    return std::nullopt;
  }

  // Whether Cast makes `to` of `from`; asked of a few elements first.
  bool is_converted(const Tensor& from, const Tensor& to) const {
    const AttributeSet attributes{{"to", static_cast<int64_t>(to.dtype())}};
    const Operator& cast = module_.context().get_operator("Cast");
    auto agree = [&](const Tensor& a, const Tensor& b) {
      const Datum input(a);
      return Tensor::identical(analysis::evaluate_operator(cast, attributes, {&input, 1}, 1)[0].tensor(), b);
    };
    const int64_t count = std::min(kProbe, from.size());
    return is_number(from.dtype()) && is_number(to.dtype()) && agree(head(from, count), head(to, count)) &&
           agree(from, to);
  }

  // False: the operator set to be written does not have the operator.
  bool follow(const Recipe& recipe) {
    boost::container::small_vector<Node*, 4> operands;
    if (recipe.source) operands.push_back(recipe.source);
    for (const Tensor& operand : recipe.operands) operands.push_back(module_.constant(operand));
    return context_.compute(kGenerate.name, "generated-constant", *recipe.value, recipe.op, operands, recipe.attributes);
  }

  PassContext& context_;
  Module& module_;
  std::vector<Value*> made_;
  boost::unordered_flat_map<int64_t, std::vector<Value*>> by_size_;  // constants by their number of elements
  boost::unordered_flat_set<const Value*> replaced_, sources_;
  boost::unordered_flat_set<const void*> elements_;  // what constants are, wherever it lies
  double stored_ = 0;
};

size_t run_generate(PassContext& context) { return Generation(context).run(); }

}  // namespace

const Pass kGenerate{"generate", "generated constants", "stored as what computes them, where that is smaller",
                     run_generate};

}  // namespace anfora::passes
