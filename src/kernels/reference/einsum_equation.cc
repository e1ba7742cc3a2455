#include "kernels/reference/einsum_equation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "anfora/error.h"

namespace anfora::kernels {
namespace {

// One comma-separated term: letters, and where among them the ellipsis stands.
struct Term {
  boost::container::small_vector<char, 8> letters;
  std::optional<size_t> ellipsis;
};

[[noreturn]] void malformed(std::string_view equation, std::string_view why) {
  throw Error(ErrorCode::InvalidModel, fmt::format("the equation '{}' {}", equation, why));
}

Term parse_term(std::string_view equation, std::string_view text) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      term.letters.push_back(text[i]);
    } else if (text.substr(i, 3) == "..." && !term.ellipsis) {
      term.ellipsis = term.letters.size();
      i += 2;
    } else {
      malformed(equation, fmt::format("has an unexpected '{}'", text[i]));
    }
  }
  return term;
}

PerOperand<Term> parse_terms(std::string_view equation, std::string_view text) {
  PerOperand<Term> terms;
  while (true) {
    size_t comma = text.find(',');
    terms.push_back(parse_term(equation, text.substr(0, comma)));
    if (comma == std::string_view::npos) return terms;
    text.remove_prefix(comma + 1);
  }
}

// Numbers the letters in the order of their appearance, after the dimensions of the ellipsis.
class Labels {
 public:
  explicit Labels(int ellipsis_rank) : ellipsis_rank_(ellipsis_rank), count_(ellipsis_rank) { numbers_.fill(-1); }

  int of(char letter) {
    int& number = numbers_[static_cast<unsigned char>(letter)];
    if (number < 0) number = count_++;
    return number;
  }
  bool known(char letter) const { return numbers_[static_cast<unsigned char>(letter)] >= 0; }
  int count() const { return count_; }

  // The labels of a term whose ellipsis stands for the last `ellipsis_dims` broadcast dimensions.
  EinsumLabels expand(const Term& term, int ellipsis_dims) {
    EinsumLabels labels;
    for (size_t i = 0; i <= term.letters.size(); ++i) {
      if (term.ellipsis == i) {
        for (int d = ellipsis_rank_ - ellipsis_dims; d < ellipsis_rank_; ++d) labels.push_back(d);
      }
      if (i < term.letters.size()) labels.push_back(of(term.letters[i]));
    }
    return labels;
  }

 private:
  int ellipsis_rank_, count_;
  std::array<int, 256> numbers_;
};

// Without "->": the ellipsis, then the letters that occur once, in the order of their codes.
Term implicit_output(const PerOperand<Term>& inputs) {
  std::array<int, 256> occurrences{};
  Term output;
  for (const Term& term : inputs) {
    for (char letter : term.letters) ++occurrences[static_cast<unsigned char>(letter)];
    if (term.ellipsis) output.ellipsis = 0;
  }
  for (int c = 0; c < 256; ++c) {
    if (occurrences[c] == 1) output.letters.push_back(static_cast<char>(c));
  }
  return output;
}

}  // namespace

EinsumEquation parse_einsum(std::string_view equation, std::span<const int> ranks) {
  size_t arrow = equation.find("->");
  PerOperand<Term> terms = parse_terms(equation, equation.substr(0, arrow));
  if (terms.size() != ranks.size()) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("the equation '{}' has {} operands, the node {}", equation, terms.size(), ranks.size()));
  }
  int ellipsis_rank = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    int rest = ranks[i] - static_cast<int>(terms[i].letters.size());
    if (rest < 0 || (rest > 0 && !terms[i].ellipsis)) {
      throw Error(ErrorCode::TypeMismatch,
                  fmt::format("operand {} of '{}' does not fit a tensor of rank {}", i, equation, ranks[i]));
    }
    ellipsis_rank = std::max(ellipsis_rank, rest);
  }
  bool is_explicit = arrow != std::string_view::npos;
  Term output = is_explicit ? parse_term(equation, equation.substr(arrow + 2)) : implicit_output(terms);

  Labels labels(ellipsis_rank);
  EinsumEquation result;
  for (size_t i = 0; i < terms.size(); ++i) {
    result.inputs.push_back(labels.expand(terms[i], ranks[i] - static_cast<int>(terms[i].letters.size())));
  }
  for (size_t i = 0; i < output.letters.size(); ++i) {
    if (!labels.known(output.letters[i])) malformed(equation, "has an output label that no operand has");
    if (std::ranges::count(output.letters, output.letters[i]) > 1) malformed(equation, "repeats an output label");
  }
  result.output = labels.expand(output, ellipsis_rank);
  result.label_count = labels.count();
  result.ellipsis_rank = ellipsis_rank;
  return result;
}

}  // namespace anfora::kernels
