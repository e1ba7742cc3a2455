#include "ops/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "anfora/error.h"
#include "ir/parse.h"
#include "ops/infer_helpers.h"

namespace anfora::ops {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Signature read() {
    Signature signature;
    signature.inputs = terms();
    if (!take("->")) fail("'->'");
    skip();
    signature.outputs = next() == '(' ? terms() : std::vector{term()};
    skip();
    if (at_ != text_.size()) fail("the end");
    return signature;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("the signature \"{}\" is malformed: {} is missing at column {}", text_, expected, at_ + 1))
        .with_hint("(x: T[N, K], w: f32[K]) -> T[N]");
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(next())) || next() == '_') ++at_;
    if (begin == at_) fail("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  // Up to a comma or the bracket that ends the list.
  std::string dim() {
    skip();
    const size_t begin = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      if (depth == 0 && (next() == ',' || next() == ']')) break;
      depth += next() == '(' ? 1 : next() == ')' ? -1 : 0;
    }
    std::string_view found = text_.substr(begin, at_ - begin);
    while (!found.empty() && found.back() == ' ') found.remove_suffix(1);
    if (found.empty()) fail("a size");
    return std::string(found);
  }
  SignatureTerm term() {
    SignatureTerm term{.name = {}, .element = word(), .dims = {}};
    if (take(":")) term.name = std::exchange(term.element, word());
    if (!take("[")) fail("'['");
    if (take("]")) return term;
    do {
      if (take("...")) {
        if (term.has_leading || !term.dims.empty()) fail("'...' in front");
        term.has_leading = true;
      } else {
        term.dims.push_back(dim());
      }
    } while (take(","));
    if (!take("]")) fail("']'");
    return term;
  }
  std::vector<SignatureTerm> terms() {
    std::vector<SignatureTerm> all;
    if (!take("(")) fail("'('");
    if (take(")")) return all;
    do {
      all.push_back(term());
    } while (take(","));
    if (!take(")")) fail("')'");
    return all;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// What unification gave the variables.
struct Bindings {
  std::map<std::string, DType> elements;
  std::map<std::string, Dim> sizes;
  std::optional<Dims> leading;
};

void bind_element(InferenceContext& ctx, Bindings& bound, const SignatureTerm& term, size_t i) {
  const DType dtype = ctx.dtype(i);
  if (dtype == DType::Undefined) return;
  const auto fixed = dtype_from_name(term.element);
  const DType wanted = fixed ? *fixed : bound.elements.emplace(term.element, dtype).first->second;
  if (wanted != dtype)
    ctx.fail(fmt::format("operand {} is of {}, not of {}", i, anfora::name(dtype), anfora::name(wanted)));
}

void bind_sizes(InferenceContext& ctx, Bindings& bound, const SignatureTerm& term, size_t i) {
  const auto given = ctx.dims(i);
  if (!given) return;
  if (term.has_leading ? given->size() < term.dims.size() : given->size() != term.dims.size()) {
    ctx.fail(fmt::format("operand {} has {} axes, not {}{}", i, given->size(), term.dims.size(),
                         term.has_leading ? " or more" : ""));
  }
  const auto first = given->end() - static_cast<std::ptrdiff_t>(term.dims.size());
  if (term.has_leading) {
    const Dims leading(given->begin(), first);
    bound.leading = bound.leading ? merge_dims(ctx, *bound.leading, leading) : leading;
  }
  for (size_t k = 0; k < term.dims.size(); ++k) {
    const Dim wanted = ir::parse_dim(ctx.context(), term.dims[k]), size = *(first + static_cast<std::ptrdiff_t>(k));
    if (wanted.is_unknown()) continue;
    if (wanted.is_symbol()) {
      auto [known, is_new] = bound.sizes.try_emplace(std::string(wanted.symbol_name()), size);
      if (!is_new) known->second = merge_dim(ctx, known->second, size);
    } else {
      merge_dim(ctx, wanted, size);
    }
  }
}

const Type* type_of(InferenceContext& ctx, const Bindings& bound, const SignatureTerm& term, size_t& unknowns) {
  const auto fixed = dtype_from_name(term.element);
  const auto variable = bound.elements.find(term.element);
  const DType dtype = fixed ? *fixed : variable != bound.elements.end() ? variable->second : DType::Undefined;
  if (term.has_leading && !bound.leading) return ctx.context().unranked_type(dtype);
  Dims dims = term.has_leading ? *bound.leading : Dims();
  for (const std::string& text : term.dims) {
    bool is_known = text != "?";
    Dim dim = ir::parse_dim(ctx.context(), text);
    dim = substitute(dim, [&](Dim symbol) -> std::optional<Dim> {
      auto found = bound.sizes.find(std::string(symbol.symbol_name()));
      is_known = is_known && found != bound.sizes.end();
      return found == bound.sizes.end() ? std::nullopt : std::optional(found->second);
    });
    dims.push_back(is_known ? dim : ctx.fresh_dim(unknowns++));
  }
  return ctx.context().tensor_type(dtype, dims);
}

}  // namespace

Signature parse_signature(std::string_view text) {
  Signature signature = Reader(text).read();
  if (signature.outputs.empty())
    throw Error(ErrorCode::InvalidArgument, fmt::format("the signature \"{}\" has no result", text));
  for (const SignatureTerm& output : signature.outputs) {
    const bool is_known = dtype_from_name(output.element) || std::ranges::count(signature.inputs, output.element, &SignatureTerm::element);
    if (!is_known) {
      throw Error(ErrorCode::InvalidArgument,
                  fmt::format("the signature \"{}\" has a result of {}, which no operand has", text, output.element));
    }
  }
  return signature;
}

void infer_signature(InferenceContext& ctx) {
  const Signature signature = parse_signature(ctx.op().signature);
  Bindings bound;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    bind_element(ctx, bound, signature.inputs[i], i);
    bind_sizes(ctx, bound, signature.inputs[i], i);
  }
  size_t unknowns = 0;
  for (size_t i = 0; i < std::min(ctx.num_outputs(), signature.outputs.size()); ++i)
    ctx.set_output(i, type_of(ctx, bound, signature.outputs[i], unknowns));
}

void check_results(const Signature& signature, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SignatureTerm& term = signature.outputs[i];
    auto like = std::ranges::find(signature.inputs, term.element, &SignatureTerm::element);
    const auto fixed = dtype_from_name(term.element);
    const DType wanted = fixed ? *fixed : inputs[static_cast<size_t>(like - signature.inputs.begin())].dtype();
    if (!outputs[i].defined())
      throw Error(ErrorCode::InvalidArgument, fmt::format("the kernel gives no result {}", i));
    const auto rank = static_cast<size_t>(outputs[i].rank());
    if (outputs[i].dtype() != wanted || (term.has_leading ? rank < term.dims.size() : rank != term.dims.size())) {
      throw Error(ErrorCode::InvalidArgument,
                  fmt::format("the kernel gives {}[{}] as result {}, which the operator declares as {} of {}{} axes", name(outputs[i].dtype()),
                              to_string(outputs[i].shape()), i, name(wanted), term.dims.size(), term.has_leading ? " or more" : ""));
    }
  }
}

}  // namespace anfora::ops
