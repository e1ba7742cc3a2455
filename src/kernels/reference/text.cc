// Operators on strings, which are UTF-8.
#include <re2/re2.h>

#include <algorithm>
#include <clocale>
#include <cwctype>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/prepared.h"
#include "kernels/reference/utf8.h"
#include "support/element_types.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

void string_concat(KernelContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  auto left = a.data<std::string>(), right = b.data<std::string>();
  Tensor& output = context.allocate_output(0, DType::String, broadcast_shape(a.shape(), b.shape()));
  auto to = output.data<std::string>();
  LoopNest nest = LoopNest::broadcast(output.shape(), {a.shape(), b.shape()});
  nest.for_each_run(kElementwiseGrain, [&](const int64_t* at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      to[at[0] + i] = left[at[1] + i * nest.run_stride(1)] + right[at[2] + i * nest.run_stride(2)];
    }
  });
}

// Splitting ------------------------------------------------------------------------------------------

constexpr std::string_view kWhitespace = " \t\n\v\f\r";

// Runs of whitespace separate, and none is left at the ends; what follows the last split is kept as it is.
std::vector<std::string_view> split_at_whitespace(std::string_view text, int64_t most_splits) {
  std::vector<std::string_view> parts;
  for (;;) {
    size_t begin = text.find_first_not_of(kWhitespace);
    if (begin == text.npos) return parts;
    text.remove_prefix(begin);
    size_t end = std::ssize(parts) < most_splits ? text.find_first_of(kWhitespace) : text.npos;
    if (end == text.npos) {
      if (std::ssize(parts) < most_splits) end = text.find_last_not_of(kWhitespace) + 1;
      parts.push_back(text.substr(0, end));
      return parts;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view delimiter, int64_t most_splits) {
  if (delimiter.empty()) return split_at_whitespace(text, most_splits);
  std::vector<std::string_view> parts;
  while (std::ssize(parts) < most_splits) {
    size_t end = text.find(delimiter);
    if (end == text.npos) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + delimiter.size());
  }
  parts.push_back(text);
  return parts;
}

void string_split(KernelContext& context) {
  const Tensor& data = context.input(0);
  const std::string_view delimiter = context.attributes().string("delimiter", "");
  int64_t most_splits = context.attributes().get_int("maxsplit", -1);
  if (most_splits < 0) most_splits = std::numeric_limits<int64_t>::max();
  auto texts = data.data<std::string>();
  std::vector<std::vector<std::string_view>> parts;
  int64_t longest = 0;
  for (const std::string& text : texts) {
    parts.push_back(split_at(text, delimiter, most_splits));
    longest = std::max<int64_t>(longest, std::ssize(parts.back()));
  }
  Shape shape = data.shape();
  shape.push_back(longest);
  auto substrings = context.allocate_output(0, DType::String, shape).data<std::string>();
  for (size_t i = 0; i < parts.size(); ++i) {
    std::ranges::copy(parts[i], substrings.begin() + static_cast<std::ptrdiff_t>(i) * longest);
  }
  if (context.num_outputs() < 2) return;
  auto counts = context.allocate_output(1, DType::I64, data.shape()).data<int64_t>();
  for (size_t i = 0; i < parts.size(); ++i) counts[i] = std::ssize(parts[i]);
}

class RegexFullMatch {
 public:
  explicit RegexFullMatch(const AttributeSet& attributes)
      : pattern_(attributes.string("pattern", ""), re2::RE2::Quiet) {
    if (!pattern_.ok()) refuse("the pattern is no regular expression: {}", pattern_.error());
  }
  void run(KernelContext& context) const {
    const Tensor& data = context.input(0);
    auto matches = context.allocate_output(0, DType::Bool, data.shape()).data<bool>();
    std::ranges::transform(data.data<std::string>(), matches.begin(),
                           [&](const std::string& text) { return re2::RE2::FullMatch(text, pattern_); });
  }

 private:
  re2::RE2 pattern_;
};

// Normalization --------------------------------------------------------------------------------------

void append_utf8(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const int extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += static_cast<char>((0xf0 << (3 - extra) & 0xff) | code >> (6 * extra));
  for (int k = extra - 1; k >= 0; --k) text += static_cast<char>(0x80 | (code >> (6 * k) & 0x3f));
}

// Changes case by the tables of the C library, for all scripts. Locales differ in few characters (Turkish i); the
// operator's `locale` is taken for the default one, en_US.
class CaseChanger {
 public:
  CaseChanger() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {}
  ~CaseChanger() {
    if (locale_) freelocale(locale_);
  }
  CaseChanger(const CaseChanger&) = delete;

  std::string lower(std::string_view text) const { return change(text, towlower_l); }
  std::string upper(std::string_view text) const { return change(text, towupper_l); }

 private:
  std::string change(std::string_view text, wint_t (*change_character)(wint_t, locale_t)) const {
    std::string changed;
    for_each_character(text, [&](int32_t code, std::string_view bytes) {
      if (code < 0 || !locale_) {
        changed += bytes;
      } else {
        append_utf8(changed, static_cast<uint32_t>(change_character(static_cast<wint_t>(code), locale_)));
      }
    });
    return changed;
  }
  locale_t locale_;
};

void string_normalizer(KernelContext& context) {
  const Tensor& data = context.input(0);
  const AttributeSet& attributes = context.attributes();
  if (data.rank() != 1 && !(data.rank() == 2 && data.dim(0) == 1)) {
    refuse("expected strings of shape [C] or [1, C], got {}", to_string(data.shape()));
  }
  const std::string_view action = attributes.string("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") refuse("case_change_action is '{}'", action);
  const bool case_sensitive = attributes.get_int("is_case_sensitive", 0) != 0;
  const CaseChanger changer;
  auto folded = [&](const std::string& word) { return case_sensitive ? word : changer.lower(word); };
  std::unordered_set<std::string> stopwords;
  for (const std::string& word : attributes.get_strings("stopwords")) stopwords.insert(folded(word));
  std::vector<std::string> kept;
  for (const std::string& word : data.data<std::string>()) {
    if (!stopwords.empty() && stopwords.contains(folded(word))) continue;
    kept.push_back(action == "LOWER" ? changer.lower(word) : action == "UPPER" ? changer.upper(word) : word);
  }
  if (kept.empty()) kept.emplace_back();  // so says the operator
  Shape shape = data.shape();
  shape.back() = std::ssize(kept);
  std::ranges::copy(kept, context.allocate_output(0, DType::String, shape).data<std::string>().begin());
}

// TfIdfVectorizer ------------------------------------------------------------------------------------

// Tokens are numbered, so that an n-gram is a list of numbers; tokens of no n-gram have none.
struct GramOrder {
  using is_transparent = void;
  bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const {
    return std::ranges::lexicographical_compare(a, b);
  }
};
struct Pool {
  std::unordered_map<int64_t, int64_t> integer_tokens;
  std::unordered_map<std::string, int64_t> string_tokens;
  std::map<std::vector<int64_t>, size_t, GramOrder> grams;  // to their places in ngram_indexes

  int64_t add(int64_t token) { return integer_tokens.try_emplace(token, std::ssize(integer_tokens)).first->second; }
  int64_t add(const std::string& token) {
    return string_tokens.try_emplace(token, std::ssize(string_tokens)).first->second;
  }
  int64_t find(int64_t token) const {
    auto found = integer_tokens.find(token);
    return found == integer_tokens.end() ? -1 : found->second;
  }
  int64_t find(const std::string& token) const {
    auto found = string_tokens.find(token);
    return found == string_tokens.end() ? -1 : found->second;
  }
};

// The pool holds all 1-grams, then all 2-grams, and so on; counts[n-1] is where the n-grams begin.
template <class Token>
Pool make_pool(std::span<const Token> tokens, std::span<const int64_t> counts) {
  Pool pool;
  size_t id = 0;
  for (size_t n = 1; n <= counts.size(); ++n) {
    const int64_t begin = counts[n - 1], end = n < counts.size() ? counts[n] : std::ssize(tokens);
    if (begin < 0 || begin > end || end > std::ssize(tokens) || (end - begin) % static_cast<int64_t>(n) != 0) {
      refuse("the {}-grams lie from {} to {} in a pool of {}", n, begin, end, tokens.size());
    }
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(n)) {
      std::vector<int64_t> gram;
      for (size_t k = 0; k < n; ++k) gram.push_back(pool.add(tokens[static_cast<size_t>(at) + k]));
      pool.grams.emplace(std::move(gram), id++);
    }
  }
  return pool;
}

class TfIdfVectorizer {
 public:
  explicit TfIdfVectorizer(const AttributeSet& attributes);
  void run(KernelContext& context) const;

 private:
  void count_grams(std::span<const int64_t> row, std::span<int64_t> counts) const;

  std::string_view mode_;
  int64_t shortest_, longest_, most_skips_;
  std::span<const int64_t> columns_;
  std::span<const float> weights_;  // empty: all 1
  Pool pool_;
};

TfIdfVectorizer::TfIdfVectorizer(const AttributeSet& attributes)
    : mode_(attributes.string("mode", "")),
      shortest_(attributes.require_int("min_gram_length")),
      longest_(attributes.require_int("max_gram_length")),
      most_skips_(attributes.require_int("max_skip_count")),
      columns_(attributes.ints("ngram_indexes")),
      weights_(attributes.floats("weights")),
      pool_(attributes.has("pool_strings")
                ? make_pool(attributes.strings("pool_strings"), attributes.ints("ngram_counts"))
                : make_pool(attributes.ints("pool_int64s"), attributes.ints("ngram_counts"))) {
  if (mode_ != "TF" && mode_ != "IDF" && mode_ != "TFIDF") refuse("mode is '{}'; TF, IDF and TFIDF exist", mode_);
  if (shortest_ < 1 || longest_ < shortest_ || most_skips_ < 0) {
    refuse("n-grams of {} to {} tokens, {} skipped", shortest_, longest_, most_skips_);
  }
  const bool weighted = attributes.has("weights");
  if (columns_.size() != pool_.grams.size() || (weighted && weights_.size() != columns_.size()) || columns_.empty()) {
    refuse("{} n-grams, {} indexes and {} weights", pool_.grams.size(), columns_.size(), weights_.size());
  }
  if (std::ranges::min(columns_) < 0) refuse("an n-gram has the index {}", std::ranges::min(columns_));
}

// Counts the n-grams of a row that are in the pool, their tokens being up to most_skips_ + 1 apart.
void TfIdfVectorizer::count_grams(std::span<const int64_t> row, std::span<int64_t> counts) const {
  const int64_t size = std::ssize(row);
  ScratchVector<int64_t> gram;
  for (int64_t n = shortest_; n <= std::min(longest_, size); ++n) {
    const int64_t widest = n == 1 ? 1 : std::min(most_skips_ + 1, size);  // skips make no difference to 1-grams
    for (int64_t step = 1; step <= widest; ++step) {
      for (int64_t begin = 0; begin + (n - 1) * step < size; ++begin) {
        gram.clear();
        for (int64_t k = 0; k < n; ++k) gram.push_back(row[begin + k * step]);
        if (auto found = pool_.grams.find(std::span<const int64_t>(gram)); found != pool_.grams.end())
          ++counts[found->second];
      }
    }
  }
}

void TfIdfVectorizer::run(KernelContext& context) const {
  const Tensor& data = context.input(0);
  if (data.rank() != 1 && data.rank() != 2) refuse("expected a row or rows of tokens, got rank {}", data.rank());
  const auto tokens = context.workspace_of<int64_t>(static_cast<size_t>(data.size()));
  auto number = [&](const auto& token) { return pool_.find(token); };
  if (data.dtype() == DType::String) {
    std::ranges::transform(data.data<std::string>(), tokens.begin(), number);
  } else {
    std::ranges::transform(integers(data), tokens.begin(), number);
  }
  const int64_t rows = data.rank() == 2 ? data.dim(0) : 1, length = data.dim(data.rank() - 1);
  const int64_t width = checked_add(std::ranges::max(columns_), 1);
  Tensor& output = context.allocate_output(0, DType::F32, data.rank() == 2 ? Shape{rows, width} : Shape{width});
  auto to = output.data<float>();
  std::ranges::fill(to, 0.0f);
  const auto counts = context.workspace_of<int64_t>(columns_.size());
  for (int64_t r = 0; r < rows; ++r) {
    std::ranges::fill(counts, 0);
    count_grams(tokens.subspan(static_cast<size_t>(r * length), static_cast<size_t>(length)), counts);
    for (size_t id = 0; id < counts.size(); ++id) {
      if (counts[id] == 0) continue;
      const float count = mode_ == "IDF" ? 1 : static_cast<float>(counts[id]);
      const bool weighted = mode_ != "TF" && !weights_.empty();
      to[r * width + columns_[id]] += weighted ? count * weights_[id] : count;
    }
  }
}

}  // namespace

void register_text(KernelRegistry& registry) {
  registry.add("StringConcat", string_concat);
  registry.add("StringSplit", string_split);
  registry.add("RegexFullMatch", run_operation<RegexFullMatch>);
  registry.add("StringNormalizer", string_normalizer);
  registry.add("TfIdfVectorizer", run_operation<TfIdfVectorizer>);
}

void prepare_text(PreparedRegistry& registry) {
  registry.add("RegexFullMatch", "pattern", prepare_operation<RegexFullMatch>);
  registry.add("TfIdfVectorizer", "pool", prepare_operation<TfIdfVectorizer>);
}

}  // namespace anfora::kernels
