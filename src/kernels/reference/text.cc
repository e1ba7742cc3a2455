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
#include "kernels/reference/utf8.h"
#include "support/element_types.h"

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
  const std::string delimiter = context.attributes().get_string("delimiter", "");
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

void regex_full_match(KernelContext& context) {
  const Tensor& data = context.input(0);
  re2::RE2 pattern(context.attributes().get_string("pattern", ""), re2::RE2::Quiet);
  if (!pattern.ok()) refuse("the pattern is no regular expression: {}", pattern.error());
  auto texts = data.data<std::string>();
  auto matches = context.allocate_output(0, DType::Bool, data.shape()).data<bool>();
  for (size_t i = 0; i < texts.size(); ++i) matches[i] = re2::RE2::FullMatch(texts[i], pattern);
}

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
  const std::string action = attributes.get_string("case_change_action", "NONE");
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

// Tokens are numbered, so that an n-gram is a vector of numbers; tokens of no n-gram have none.
struct Pool {
  std::unordered_map<int64_t, int64_t> integer_tokens;
  std::unordered_map<std::string, int64_t> string_tokens;
  std::map<std::vector<int64_t>, size_t> grams;  // to their places in ngram_indexes

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
Pool make_pool(const std::vector<Token>& tokens, const std::vector<int64_t>& counts) {
  Pool pool;
  size_t id = 0;
  for (size_t n = 1; n <= counts.size(); ++n) {
    const int64_t begin = counts[n - 1], end = n < counts.size() ? counts[n] : std::ssize(tokens);
    if (begin < 0 || begin > end || end > std::ssize(tokens) || (end - begin) % static_cast<int64_t>(n) != 0) {
      refuse("the {}-grams lie from {} to {} in a pool of {}", n, begin, end, tokens.size());
    }
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(n)) {
      std::vector<int64_t> gram;
      for (size_t k = 0; k < n; ++k) gram.push_back(pool.add(tokens[at + static_cast<int64_t>(k)]));
      pool.grams.emplace(std::move(gram), id++);
    }
  }
  return pool;
}

// Counts the n-grams of a row that are in the pool, their tokens being up to `most_skips` + 1 apart.
void count_grams(const Pool& pool, std::span<const int64_t> row, int64_t shortest, int64_t longest, int64_t most_skips,
                 std::vector<int64_t>& counts) {
  const int64_t size = std::ssize(row);
  std::vector<int64_t> gram;
  for (int64_t n = shortest; n <= std::min(longest, size); ++n) {
    const int64_t widest = n == 1 ? 1 : std::min(most_skips + 1, size);  // skips make no difference to 1-grams
    for (int64_t step = 1; step <= widest; ++step) {
      for (int64_t begin = 0; begin + (n - 1) * step < size; ++begin) {
        gram.clear();
        for (int64_t k = 0; k < n; ++k) gram.push_back(row[begin + k * step]);
        if (auto found = pool.grams.find(gram); found != pool.grams.end()) ++counts[found->second];
      }
    }
  }
}

void tf_idf_vectorizer(KernelContext& context) {
  const Tensor& data = context.input(0);
  const AttributeSet& attributes = context.attributes();
  const std::string mode = attributes.get_string("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") refuse("mode is '{}'; TF, IDF and TFIDF exist", mode);
  const int64_t shortest = attributes.require_int("min_gram_length"),
                longest = attributes.require_int("max_gram_length");
  const int64_t most_skips = attributes.require_int("max_skip_count");
  if (shortest < 1 || longest < shortest || most_skips < 0) {
    refuse("n-grams of {} to {} tokens, {} skipped", shortest, longest, most_skips);
  }
  const auto columns = attributes.get_ints("ngram_indexes");
  const auto weights = attributes.get_floats("weights", std::vector<float>(columns.size(), 1));
  const bool strings = data.dtype() == DType::String;
  const Pool pool = strings ? make_pool(attributes.get_strings("pool_strings"), attributes.get_ints("ngram_counts"))
                            : make_pool(attributes.get_ints("pool_int64s"), attributes.get_ints("ngram_counts"));
  if (columns.size() != pool.grams.size() || weights.size() != columns.size() || columns.empty()) {
    refuse("{} n-grams, {} indexes and {} weights", pool.grams.size(), columns.size(), weights.size());
  }
  if (std::ranges::min(columns) < 0) refuse("an n-gram has the index {}", std::ranges::min(columns));
  if (data.rank() != 1 && data.rank() != 2) refuse("expected a row or rows of tokens, got rank {}", data.rank());

  std::vector<int64_t> tokens;
  if (strings) {
    for (const std::string& token : data.data<std::string>()) tokens.push_back(pool.find(token));
  } else {
    for (int64_t token : integers(data)) tokens.push_back(pool.find(token));
  }
  const int64_t rows = data.rank() == 2 ? data.dim(0) : 1, length = data.dim(data.rank() - 1);
  const int64_t width = checked_add(std::ranges::max(columns), 1);
  Tensor& output = context.allocate_output(0, DType::F32, data.rank() == 2 ? Shape{rows, width} : Shape{width});
  auto to = output.data<float>();
  std::ranges::fill(to, 0.0f);
  std::vector<int64_t> counts(columns.size());
  for (int64_t r = 0; r < rows; ++r) {
    std::ranges::fill(counts, 0);
    count_grams(pool, std::span(tokens).subspan(static_cast<size_t>(r * length), static_cast<size_t>(length)), shortest,
                longest, most_skips, counts);
    for (size_t id = 0; id < counts.size(); ++id) {
      if (counts[id] == 0) continue;
      const float count = mode == "IDF" ? 1 : static_cast<float>(counts[id]);
      to[r * width + columns[id]] += mode == "TF" ? count : count * weights[id];
    }
  }
}

}  // namespace

void register_text(KernelRegistry& registry) {
  registry.add("StringConcat", string_concat);
  registry.add("StringSplit", string_split);
  registry.add("RegexFullMatch", regex_full_match);
  registry.add("StringNormalizer", string_normalizer);
  registry.add("TfIdfVectorizer", tf_idf_vectorizer);
}

}  // namespace anfora::kernels
