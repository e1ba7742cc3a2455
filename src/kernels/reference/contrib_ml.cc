// Operators of ONNX Runtime (domain com.microsoft) that converters of classical models write.
#include <re2/re2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/utf8.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

// Tokenizer ------------------------------------------------------------------------------------------

using Tokens = std::vector<std::string_view>;

constexpr const char *kStartOfText = "\x02", *kEndOfText = "\x03";

size_t length_of_first_character(std::string_view text) {
  size_t length = 0;
  for_each_character(text.substr(0, std::min<size_t>(text.size(), 4)), [&](int32_t, std::string_view bytes) {
    if (length == 0) length = bytes.size();
  });
  return length;
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for_each_character(text, [&](int32_t code, std::string_view) {
    if (code < 0) refuse("a string to be split into tokens is not valid UTF-8");
    ++count;
  });
  return count;
}

std::unique_ptr<re2::RE2> longest_match(const std::string& pattern) {
  re2::RE2::Options options(re2::RE2::Quiet);
  options.set_longest_match(true);
  auto expression = std::make_unique<re2::RE2>(pattern, options);
  if (!expression->ok()) refuse("'{}' is no regular expression: {}", pattern, expression->error());
  return expression;
}

// Calls gap_and_match(what lies between the last match and this one, the match) for each match of the expression, and returns
// what is left. Matches do not overlap; behind an empty one the search goes on a character later.
template <class Body>
std::string_view for_each_match(const re2::RE2& expression, std::string_view text, Body&& gap_and_match) {
  size_t start = 0;
  re2::StringPiece match;
  const re2::StringPiece whole(text.data(), text.size());
  while (start <= text.size() && expression.Match(whole, start, text.size(), re2::RE2::UNANCHORED, &match, 1)) {
    const size_t at = static_cast<size_t>(match.data() - text.data());
    gap_and_match(text.substr(start, at - start), text.substr(at, match.size()));
    if (at >= text.size()) return {};
    start = at + (match.empty() ? length_of_first_character(text.substr(at)) : match.size());
  }
  return text.substr(std::min(start, text.size()));
}

// Splits strings as the attributes say: at every character, by an expression for tokens, or by expressions for what
// separates them, one after the other.
class Splitter {
 public:
  explicit Splitter(const AttributeSet& attributes) : least_(attributes.require_int("mincharnum")) {
    if (least_ < 1) refuse("mincharnum is {}; tokens have at least 1 character", least_);
    const auto separators = attributes.get_strings("separators");
    const std::string token(attributes.string("tokenexp", ""));
    if (separators.empty() == token.empty()) refuse("one of separators and tokenexp says what a token is, not {}",
                                                    token.empty() ? "none" : "both");
    by_character_ = separators.size() == 1 && separators[0].empty();
    if (by_character_) {
      if (least_ > 1) refuse("mincharnum is {}, and tokens are single characters", least_);
    } else if (!token.empty()) {
      token_ = longest_match(token);
    } else {
      for (const std::string& separator : separators) {
        if (separator.empty()) refuse("an empty separator has others beside it");
        separators_.push_back(longest_match(separator));
      }
    }
  }

  Tokens split(std::string_view text) const {
    Tokens tokens;
    auto add = [&](std::string_view token) {
      if (count_characters(token) >= least_) tokens.push_back(token);
    };
    if (by_character_) {
      for_each_character(text, [&](int32_t, std::string_view bytes) { add(bytes); });
    } else if (token_) {
      for_each_match(*token_, text, [&](std::string_view, std::string_view match) { add(match); });
    } else {
      tokens.push_back(text);
      for (const auto& separator : separators_) {
        const Tokens parts = std::exchange(tokens, {});
        for (std::string_view part : parts) {
          add(for_each_match(*separator, part, [&](std::string_view gap, std::string_view) { add(gap); }));
        }
      }
    }
    return tokens;
  }

 private:
  int64_t least_;
  bool by_character_ = false;
  std::unique_ptr<re2::RE2> token_;
  std::vector<std::unique_ptr<re2::RE2>> separators_;
};

void tokenizer(KernelContext& context) {
  const Tensor& data = context.input(0);
  const AttributeSet& attributes = context.attributes();
  if (data.rank() != 1 && data.rank() != 2) refuse("expected strings of rank 1 or 2, got {}", data.rank());
  const Splitter splitter(attributes);
  const std::string_view pad = attributes.string("pad_value", "");
  const bool mark = attributes.require_int("mark") != 0;
  auto texts = data.data<std::string>();
  if (texts.empty()) {
    context.allocate_output(0, DType::String, data.shape());
    return;
  }
  std::vector<Tokens> rows;
  int64_t longest = 0;
  for (const std::string& text : texts) {
    rows.push_back(splitter.split(text));
    longest = std::max<int64_t>(longest, std::ssize(rows.back()));
  }
  Shape shape = data.shape();
  shape.push_back(longest == 0 ? 0 : longest + (mark ? 2 : 0));
  auto to = context.allocate_output(0, DType::String, shape).data<std::string>().begin();
  if (longest == 0) return;
  for (const Tokens& row : rows) {
    if (mark) *to++ = kStartOfText;
    to = std::ranges::copy(row, to).out;
    if (mark) *to++ = kEndOfText;
    to = std::fill_n(to, longest - std::ssize(row), pad);
  }
}

// MurmurHash3 ----------------------------------------------------------------------------------------

// Austin Appleby's MurmurHash3_x86_32: blocks of four bytes, the rest, and a final mixing.
uint32_t murmur_hash(std::string_view bytes, uint32_t hash) {
  constexpr uint32_t kFirst = 0xcc9e2d51, kSecond = 0x1b873593;
  auto scrambled = [](uint32_t block) { return std::rotl(block * kFirst, 15) * kSecond; };
  const size_t whole = bytes.size() / 4 * 4;
  for (size_t i = 0; i < whole; i += 4) {
    uint32_t block;
    std::memcpy(&block, bytes.data() + i, 4);
    hash = std::rotl(hash ^ scrambled(block), 13) * 5 + 0xe6546b64;
  }
  if (whole < bytes.size()) {
    uint32_t rest = 0;
    std::memcpy(&rest, bytes.data() + whole, bytes.size() - whole);
    hash ^= scrambled(rest);
  }
  hash ^= static_cast<uint32_t>(bytes.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return hash ^ hash >> 16;
}

void murmur_hash3(KernelContext& context) {
  const Tensor& data = context.input(0);
  const bool positive = context.attributes().get_int("positive", 1) != 0;
  const auto seed = static_cast<uint32_t>(context.attributes().get_int("seed", 0));
  Tensor& output = context.allocate_output(0, positive ? DType::U32 : DType::I32, data.shape());
  auto* to = static_cast<uint32_t*>(output.raw());
  dispatch<TypeList<uint32_t, int32_t, uint64_t, int64_t, float, double, std::string>>(data.dtype(), [&]<class T>() {
    for (const T& element : data.data<T>()) {
      if constexpr (std::is_same_v<T, std::string>) {
        *to++ = murmur_hash(element, seed);
      } else {
        *to++ = murmur_hash({reinterpret_cast<const char*>(&element), sizeof element}, seed);
      }
    }
  });
}

// CDist ----------------------------------------------------------------------------------------------

// Differences are squared as they are, not by |a|² + |b|² − 2ab, which cancels where rows are close.
void distances(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  const std::string_view metric = context.attributes().string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") refuse("metric is '{}'; euclidean and sqeuclidean exist", metric);
  if (a.rank() != 2 || b.rank() != 2 || a.dim(1) != b.dim(1)) {
    refuse("rows of shapes {} and {}", to_string(a.shape()), to_string(b.shape()));
  }
  const int64_t columns = a.dim(1), others = b.dim(0);
  Tensor& output = context.allocate_output(0, a.dtype(), Shape{a.dim(0), others});
  dispatch<TypeList<float, double>>(a.dtype(), [&]<class T>() {
    auto rows = a.data<T>(), other_rows = b.data<T>();
    auto to = output.data<T>();
    constexpr int64_t kGrain = 16384;
    parallel_for(a.dim(0) * others, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns)),
                 [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const T* x = rows.data() + at / others * columns;
        const T* y = other_rows.data() + at % others * columns;
        T sum = 0;
        for (int64_t k = 0; k < columns; ++k) sum += (x[k] - y[k]) * (x[k] - y[k]);
        to[at] = metric == "euclidean" ? std::sqrt(sum) : sum;
      }
    });
  });
}

// DynamicTimeWarping ---------------------------------------------------------------------------------

// H. Sakoe and S. Chiba, 1978. Of ways that cost the same, the one along the row, unless another is cheaper than both others.
void warping(KernelContext& context) {
  const Tensor& costs = context.input(0);
  const int rank = costs.rank();
  if (rank < 2 || rank > 3 || (rank == 3 && costs.dim(0) != 1)) refuse("costs of shape {}; one matrix is expected", to_string(costs.shape()));
  const auto rows = static_cast<size_t>(costs.dim(rank - 2)), columns = static_cast<size_t>(costs.dim(rank - 1));
  enum class Step : uint8_t { Both, Row, Column };
  // Of ways that end in a place; the first row and column are in front of the matrix.
  std::span<Step> last = context.workspace_of<Step>((rows + 1) * (columns + 1));
  std::span<float> above = context.workspace_of<float>(columns + 1), here = context.workspace_of<float>(columns + 1);
  const float* cost = costs.data<float>().data();
  std::ranges::fill(above, std::numeric_limits<float>::infinity());
  std::ranges::fill(last.first(columns + 1), Step::Column);
  above[0] = 0;
  for (size_t i = 1; i <= rows; ++i) {
    Step* steps = last.data() + i * (columns + 1);
    steps[0] = Step::Row;
    here[0] = std::numeric_limits<float>::infinity();
    for (size_t j = 1; j <= columns; ++j) {
      const float both = above[j - 1], row = above[j], column = here[j - 1];
      steps[j] = both < row && both < column ? Step::Both : row < both && row < column ? Step::Row : Step::Column;
      here[j] = *cost++ + (steps[j] == Step::Both ? both : steps[j] == Step::Row ? row : column);
    }
    std::swap(above, here);
  }

  std::span<int32_t> way = context.workspace_of<int32_t>(2 * (rows + columns));  // from its end
  size_t length = 0;
  for (size_t i = rows, j = columns; i > 0 || j > 0; ++length) {
    way[2 * length] = static_cast<int32_t>(i) - 1;
    way[2 * length + 1] = static_cast<int32_t>(j) - 1;
    const Step step = last[i * (columns + 1) + j];
    i -= step != Step::Column;
    j -= step != Step::Row;
  }
  Tensor& output = context.allocate_output(0, DType::I32, Shape{2, static_cast<int64_t>(length)});
  int32_t* to = output.data<int32_t>().data();
  for (size_t k = 0; k < length; ++k) {
    to[k] = way[2 * (length - 1 - k)];
    to[length + k] = way[2 * (length - 1 - k) + 1];
  }
}

}  // namespace

void register_contrib_ml(KernelRegistry& registry) {
  registry.add("com.microsoft::Tokenizer", tokenizer);
  registry.add("com.microsoft::MurmurHash3", murmur_hash3);
  registry.add("com.microsoft::CDist", distances);
  registry.add("com.microsoft::DynamicTimeWarping", warping);
}

}  // namespace anfora::kernels
