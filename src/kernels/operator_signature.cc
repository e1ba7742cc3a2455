#include "kernels/operator_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "anfora/error.h"

namespace anfora::kernels {
namespace {

class SignatureReader {
 public:
  explicit SignatureReader(std::string_view text) : text_(text) {}

  OperatorSignature read() {
    OperatorSignature signature;
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

}  // namespace

OperatorSignature parse_signature(std::string_view text) {
  OperatorSignature signature = SignatureReader(text).read();
  if (signature.outputs.empty())
    throw Error(ErrorCode::InvalidArgument, fmt::format("the signature \"{}\" has no result", text));
  for (const SignatureTerm& output : signature.outputs) {
    const bool is_known = dtype_from_name(output.element) ||
                          std::ranges::count(signature.inputs, output.element, &SignatureTerm::element);
    if (!is_known) {
      throw Error(ErrorCode::InvalidArgument,
                  fmt::format("the signature \"{}\" has a result of {}, which no operand has", text, output.element));
    }
  }
  return signature;
}

void check_results(const OperatorSignature& signature, std::span<const Tensor> inputs,
                   std::span<const Tensor> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SignatureTerm& term = signature.outputs[i];
    auto like = std::ranges::find(signature.inputs, term.element, &SignatureTerm::element);
    const auto fixed = dtype_from_name(term.element);
    const DType wanted = fixed ? *fixed : inputs[static_cast<size_t>(like - signature.inputs.begin())].dtype();
    if (!outputs[i].defined()) throw Error(ErrorCode::InvalidArgument, fmt::format("the kernel gives no result {}", i));
    const auto rank = static_cast<size_t>(outputs[i].rank());
    if (outputs[i].dtype() != wanted || (term.has_leading ? rank < term.dims.size() : rank != term.dims.size())) {
      throw Error(ErrorCode::InvalidArgument,
                  fmt::format("the kernel gives {}[{}] as result {}, which the operator declares as {} of {}{} axes",
                              name(outputs[i].dtype()), to_string(outputs[i].shape()), i, name(wanted),
                              term.dims.size(), term.has_leading ? " or more" : ""));
    }
  }
}

}  // namespace anfora::kernels
