// How Attention runs: the query rows of a head are divided into strips, of which the scores of a block of keys stay in the first-level
// cache. A unit of work is some strips of a head, for which a block of keys is packed once.
//
//                 keys ─▶
//               ┌───────┬───────┬───────┐
//       strip 1 │ block │ block │ block │     of each strip and block: scores, probabilities, values;
//               ├───────┼───────┼───────┤     blocks that no row of a strip sees are left out
//       strip 2 │       │       │       │
//               └───────┴───────┴───────┘
//
// Where the heads of queries that share one of keys lie as rows at equal distances, as those of a single position do, they are the rows
// of one head: so keys and values are read once for all of them.
#include "kernels/generated/attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "kernels/generated/code_entries.h"
#include "kernels/generated/hidden_keys.h"
#include "kernels/reference/attention.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::generated {
namespace {

// Of the layout of code; another generator's is not taken.
constexpr int64_t kAttentionCodeVersion = 2;

constexpr int64_t kFewRows = 8;       // for which keys are not packed, as measured
constexpr int64_t kRowsOfStrip = 24;  // a multiple of those of most tiles
constexpr int64_t kStripsOfUnit = 8;  // that share the packed keys
constexpr int64_t kBlockKeys = 384;   // at least
constexpr int64_t kFewKeys = 64;      // of which computing all takes no longer than asking the mask for hidden ones

// The rows that belong to one head of keys, or to one of the queries.
struct AttentionRows {
  int64_t heads = 0, count = 0;  // of a batch entry; of a head
  bool is_merged = false;        // the heads of a group are rows of one

  AttentionRows(const HeadLayout& q, int64_t key_heads, bool is_y_packed)
      : is_merged(q.heads > key_heads && (q.sequence == 1 || (!q.packed && !is_y_packed))) {
    heads = is_merged ? key_heads : q.heads;
    count = is_merged ? q.heads / key_heads * q.sequence : q.sequence;
  }
  bool are_few() const { return count <= kFewRows; }
  Tiling strips() const { return Tiling(count, {.rows = static_cast<int>(kRowsOfStrip), .vectors = 1}); }
};

// What is decided of Attention before it runs.
struct AttentionPlan {
  AttentionCode code;
  std::optional<AttentionRows> rows;  // where they are known

  std::vector<int64_t> numbers() const {
    return {kAttentionCodeVersion,
            static_cast<int64_t>(code.isa),
            code.scores.rows,
            code.scores.vectors,
            code.values.rows,
            code.values.vectors,
            code.has_edge ? 1 : 0,
            static_cast<int64_t>(code.bias),
            code.has_cap ? 1 : 0};
  }
};

int64_t dimension(const InputDescription& input, size_t axis_from_end) {
  if (!input.shape || input.shape->size() <= axis_from_end) return -1;
  return (*input.shape)[input.shape->size() - 1 - axis_from_end];
}

// The layout of Q, K or V, as far as it is known: −1 where it is not.
HeadLayout known_layout(const KernelData& data, size_t i, int64_t num_heads) {
  const InputDescription& input = data.input(i);
  const std::span<const int64_t> columns = attention_columns(data.attributes, i);
  HeadLayout layout{-1, dimension(input, 2), dimension(input, 1), dimension(input, 0), false};
  layout.packed = !columns.empty() || (input.shape && input.shape->size() == 3);
  if (is_sequence_first(data.attributes, i)) {
    std::swap(layout.heads, layout.sequence);
    layout.packed = true;
    return layout;
  }
  if (!layout.packed) return layout;
  if (!columns.empty()) layout.size = columns[1] - columns[0];
  if (num_heads > 0 && layout.size > 0) layout.size /= num_heads;
  layout.heads = num_heads;
  return layout;
}

// The numbers of rows that tiles have where so many are divided into strips, and these into tiles.
std::vector<int> tile_rows(const Tiling& strips, const Tile& tile) {
  std::set<int> counts;
  for (int rows : strips.rows_of_tiles()) {
    for (int count : Tiling(rows, tile).rows_of_tiles()) counts.insert(count);
  }
  return {counts.begin(), counts.end()};
}

// Of tiles of scores and of values, those of such rows.
std::vector<int> attention_entries(const std::vector<int>& scores, const std::vector<int>& values, bool are_few, bool are_many) {
  using Kind = AttentionEntry::Kind;
  std::vector<AttentionEntry> entries{{Kind::Bias, 0}, {Kind::Probabilities, 0}};
  for (int rows : values) entries.push_back({Kind::Values, rows});
  if (are_few) entries.push_back({Kind::ScoresOfFew, 0});
  if (are_many) {
    entries.push_back({Kind::Pack, 0});
    for (int rows : scores) entries.push_back({Kind::Scores, rows});
  }
  std::vector<int> numbers;
  std::ranges::transform(entries, std::back_inserter(numbers), &AttentionEntry::number);
  return numbers;
}

std::optional<AttentionPlan> plan_attention(const KernelData& data, Isa isa) {
  const InputDescription& mask = data.input(3);
  for (size_t i : {0u, 1u, 2u, 4u, 5u}) {
    const InputDescription& input = data.input(i);
    if (input.present ? input.dtype != DType::F32 : i < 3) return std::nullopt;
  }
  if ((mask.present && mask.dtype != DType::F32 && mask.dtype != DType::Bool) || data.num_outputs > 3)
    return std::nullopt;
  AttentionPlan plan;
  AttentionCode& code = plan.code;
  code.isa = isa;
  code.has_cap = data.attributes.get_float("softcap", 0) > 0;
  code.bias = !mask.present                ? AttentionBias::None
              : mask.dtype == DType::Bool ? AttentionBias::Truths
                                          : AttentionBias::Numbers;
  const int64_t q_heads = data.attributes.get_int("q_num_heads", 0),
                kv_heads = data.attributes.get_int("kv_num_heads", 0);
  const HeadLayout q = known_layout(data, 0, q_heads), k = known_layout(data, 1, kv_heads),
                   v = known_layout(data, 2, kv_heads);
  const int64_t past = data.input(4).present ? dimension(data.input(4), 1) : 0;
  const int64_t keys = k.sequence < 0 || past < 0 ? kBlockKeys : std::min(past + k.sequence, kBlockKeys);
  code.scores = product_tile(isa, std::max<int64_t>(keys, 1));
  code.values = product_tile(isa, v.size > 0 ? v.size : code.scores.vectors * describe(isa).lanes);
  code.has_edge = v.size <= 0 || v.size % code.panel_columns() != 0;

  if (q.heads > 0 && k.heads > 0 && q.sequence > 0) plan.rows = AttentionRows(q, k.heads, q.packed || is_sequence_first(data.attributes, 3));
  return plan;
}

int64_t round_up(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

class AttentionKernel : public PreparedKernel {
 public:
  explicit AttentionKernel(AttentionPlan plan) : plan_(std::move(plan)) {}

  // False where there is no code for it, and none can be made.
  bool prepare(KernelData& data, AttentionGenerator generate) {
    const AttentionCode& code = plan_.code;
    CodeEntries::Wanted wanted{.first = attention_entries(rows_of_many(code.scores), rows_of_many(code.values), false, true),
                               .all = attention_entries(rows_up_to(code.scores), rows_up_to(code.values), true, true)};
    if (plan_.rows) wanted = CodeEntries::Wanted::exactly(used_entries(*plan_.rows));
    return entries_.prepare(data, 0, {plan_.numbers()}, std::move(wanted), CodeEntries::made_by(generate, code));
  }

  std::unique_ptr<State> make_state() const override { return std::make_unique<LastRows>(); }
  void complete() const override { entries_.complete(); }

  void run(KernelContext& context, State* state) const override {
    const Attention a = read_attention(context);
    Tensor& y = context.allocate_output(0, DType::F32, a.y.shape());
    if (y.size() == 0) return;
    const AttentionRows rows(a.q, a.k.heads, a.y.packed);
    if (std::exchange(static_cast<LastRows&>(*state).count, rows.count) != rows.count) entries_.require(used_entries(rows));
    const Run run{.a = a,
                  .q = context.input(0).data<float>().data(),
                  .k = a.keys.data<float>().data(),
                  .v = a.values.data<float>().data(),
                  .y = y.data<float>().data(),
                  .rows = rows,
                  .strips = rows.strips()};
    const int64_t strips_of_unit = std::min(kStripsOfUnit, run.strips.count),
                  units = (run.strips.count + strips_of_unit - 1) / strips_of_unit;
    const int64_t cost = std::min(strips_of_unit * kRowsOfStrip, rows.count) * a.k.sequence * (a.k.size + a.v.size);
    constexpr int64_t kWork = 1 << 19;  // multiply-adds
    parallel_for(a.q.batch * rows.heads * units, grain_of(kWork, cost), [&](int64_t begin, int64_t end) {
      Memory memory(*this, a, strips_of_unit);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % units * strips_of_unit, last = std::min(first + strips_of_unit, run.strips.count);
        const int64_t b = i / units / rows.heads, h = i / units % rows.heads;
        UnitOfWork(*this, run, memory, b, h).run(first, last);
      }
    });
  }

 private:
  // Of a head, in the last run.
  struct LastRows : State {
    int64_t count = 0;
  };

  struct Run {
    const Attention& a;
    const float *q, *k, *v;
    float* y;
    AttentionRows rows;
    Tiling strips;
  };

  int64_t lanes() const { return describe(plan_.code.isa).lanes; }
  int64_t padded_rows() const { return round_up(kRowsOfStrip, lanes()); }  // of a strip
  int64_t block_keys() const { return round_up(kBlockKeys, plan_.code.panel_keys()); }
  // Of a strip's scores: as panels are stored whole, and rows are written up to the next whole vector from any key on.
  int64_t score_stride() const { return block_keys() + lanes(); }

  std::vector<int> used_entries(const AttentionRows& rows) const {
    const Tiling strips = rows.strips();
    return attention_entries(tile_rows(strips, plan_.code.scores), tile_rows(strips, plan_.code.values), rows.are_few(), !rows.are_few());
  }
  EntryPoint entry(AttentionEntry::Kind kind, int rows = 0) const { return entries_[AttentionEntry{kind, rows}.number()]; }

  // What a thread writes to.
  struct Memory {
    Scratch<float> scores, panels, rest_of_keys;
    Scratch<Bias::Range> seen;  // of the rows of a unit: the keys
    std::array<int64_t, 5> seen_by{-1};  // what `seen` depends on: heads may share a mask
    // By row, for each strip and for one, up to a whole vector. Maxima have a vector for each row.
    Scratch<float> largest, sums;
    Scratch<float> maxima, bases, decays, factors;
    Memory(const AttentionKernel& kernel, const Attention& a, int64_t strips)
        : scores(static_cast<size_t>(kRowsOfStrip * kernel.score_stride())),
          panels(static_cast<size_t>(kernel.block_keys() * round_up(a.k.size, kernel.lanes()))),
          rest_of_keys(static_cast<size_t>(kernel.lanes() * a.k.size), 0.0f),
          seen(static_cast<size_t>(strips * kRowsOfStrip)),
          largest(static_cast<size_t>(strips * kernel.padded_rows())),
          sums(largest.size()),
          maxima(static_cast<size_t>(kernel.padded_rows() * kernel.lanes()), 0.0f),
          bases(static_cast<size_t>(kernel.padded_rows())),
          decays(bases.size()),
          factors(bases.size()) {}
  };

  // Some strips of a head.
  class UnitOfWork {
    using Kind = AttentionEntry::Kind;

   public:
    UnitOfWork(const AttentionKernel& kernel, const Run& run, Memory& memory, int64_t b, int64_t h)
        : kernel_(kernel), run_(run), a_(run.a), memory_(memory), b_(b) {
      const int64_t group = a_.q.heads / a_.k.heads;
      first_head_ = run.rows.is_merged ? h * group : h;
      const int64_t key_head = run.rows.is_merged ? h : h / group;
      q_ = rows_of(a_.q.head(run.q, b, first_head_));
      y_ = rows_of(a_.y.head(run.y, b, first_head_));
      k_ = a_.k.head(run.k, b, key_head);
      v_ = a_.v.head(run.v, b, key_head);
    }

    void run(int64_t first, int64_t last) {
      first_row_ = run_.strips.first_row(first);
      const int64_t count = run_.strips.first_row(last) - first_row_;
      std::ranges::fill(memory_.largest, -std::numeric_limits<float>::infinity());
      std::ranges::fill(memory_.sums, 0.0f);
      find_seen(count);
      const Bias::Range all = seen_by(first_row_, count);
      const int64_t size = kernel_.block_keys();
      for (int64_t strip = first; strip < last; ++strip) {
        const auto [begin, end] = seen_by(run_.strips.first_row(strip), run_.strips.rows_of(strip));
        if (begin == end) clear(run_.strips.first_row(strip), run_.strips.rows_of(strip));
      }
      for (int64_t block = all.first / size * size; block < all.last; block += size) {
        const int64_t end = std::min(block + size, all.last);
        if (!run_.rows.are_few()) pack(block, end - block);
        for (int64_t strip = first; strip < last; ++strip) {
          kept_ = (strip - first) * kernel_.padded_rows();
          run_strip(run_.strips.first_row(strip), run_.strips.rows_of(strip), block, end);
        }
      }
    }

   private:
    template <class T>
    MatrixView<T> rows_of(MatrixView<T> head) const {
      if (run_.rows.is_merged) head.row_stride = head.columns;
      return head;
    }
    int64_t position(int64_t row) const { return row % a_.q.sequence; }
    // Of the mask, the first element for a row.
    int64_t mask_row(int64_t row) const { return a_.bias.mask_row(b_, first_head_ + row / a_.q.sequence, position(row)); }

    // Few rows read keys and values once: nothing is won by reading them before. A mask hides by itself, too, as it is added.
    void find_seen(int64_t count) {
      const Tensor& mask = a_.bias.mask();
      const bool has_mask = mask.defined() && a_.k.sequence > kFewKeys, has_numbers = has_mask && mask.dtype() == DType::F32 && !run_.rows.are_few();
      auto of_unit = [&](auto rows) { return decltype(rows){rows.data + first_row_ * rows.row_stride, count, rows.columns, rows.row_stride}; };
      const bool scores_are_small = has_numbers && has_small_scores(of_unit(q_), k_, v_, a_.scale);
      const int64_t last_row = first_row_ + count - 1;
      const std::array<int64_t, 5> seen_by{b_, first_row_, has_mask ? mask_row(first_row_) : 0, has_mask ? mask_row(last_row) : 0, scores_are_small};
      if (std::exchange(memory_.seen_by, seen_by) == seen_by) return;
      for (int64_t row = first_row_; row <= last_row; ++row) {
        Bias::Range range = a_.bias.visible(b_, position(row));
        if (has_mask) range = seen_through(mask, mask_row(row), range, scores_are_small);
        memory_.seen.data()[row - first_row_] = range;
      }
    }
    const Bias::Range& seen(int64_t row) const { return memory_.seen.data()[row - first_row_]; }

    // All keys between the first and the last that one of the rows sees.
    Bias::Range seen_by(int64_t row, int64_t count) const {
      Bias::Range all{a_.k.sequence, 0};
      for (int64_t i = row; i < row + count; ++i) {
        const Bias::Range& range = seen(i);
        if (range.first == range.last) continue;
        all = {std::min(all.first, range.first), std::max(all.last, range.last)};
      }
      return all.first < all.last ? all : Bias::Range{0, 0};
    }

    void clear(int64_t row, int64_t count) const {
      for (int64_t i = row; i < row + count; ++i) std::fill_n(y_.data + i * y_.row_stride, y_.columns, 0.0f);
    }

    int64_t panel_size() const { return kernel_.plan_.code.panel_keys() * round_up(k_.columns, kernel_.lanes()); }

    void pack(int64_t block, int64_t count) {
      using P = PackKeys;
      const int64_t lanes = kernel_.lanes(), width = kernel_.plan_.code.panel_keys();
      std::array<int64_t, P::kArguments> arguments{};
      arguments[P::kVectors] = k_.columns / lanes;
      arguments[P::kRest] = k_.columns % lanes;
      for (int64_t key = 0; key < count; key += lanes) {
        const float* from = k_.data + (block + key) * k_.row_stride;
        int64_t stride = k_.row_stride;
        if (key + lanes > count) {  // what lies behind them makes scores that nobody reads
          for (int64_t i = 0; i < count - key; ++i) std::copy_n(from + i * stride, k_.columns, memory_.rest_of_keys.data() + i * k_.columns);
          from = memory_.rest_of_keys.data();
          stride = k_.columns;
        }
        arguments[P::kKeys] = address_of(from);
        arguments[P::kKeyStride] = stride;
        arguments[P::kPanel] = address_of(memory_.panels.data() + key / width * panel_size() + key % width);
        kernel_.entry(Kind::Pack)(arguments.data());
      }
    }

    // Rows of a strip, and the keys of a block.
    void run_strip(int64_t row, int64_t rows, int64_t block, int64_t block_end) {
      const Bias::Range all = seen_by(row, rows);
      const int64_t begin = std::max(all.first, block), end = std::min(all.last, block_end);
      if (begin >= end) return;
      if (run_.rows.are_few()) {
        score_few(row, rows, block, begin, end);
      } else {
        score(row, rows, block, begin, end);
      }
      add_bias(row, rows, block, begin, end);
      exponentiate(rows, begin - block, end - begin, all.last <= block_end);
      sum(row, rows, block, begin, end, all.first >= block);
    }

    float* scores_at(int64_t i, int64_t key) { return memory_.scores.data() + i * kernel_.score_stride() + key; }

    void score(int64_t row, int64_t rows, int64_t block, int64_t begin, int64_t end) {
      using P = ScoresOfPanels;
      const int64_t width = kernel_.plan_.code.panel_keys(), first = (begin - block) / width;
      std::array<int64_t, P::kArguments> arguments{};
      arguments[P::kQueryStride] = q_.row_stride;
      arguments[P::kPanels] = address_of(memory_.panels.data() + first * panel_size());
      arguments[P::kPanelSize] = panel_size();
      arguments[P::kCount] = (end - block + width - 1) / width - first;
      arguments[P::kDepth] = k_.columns;
      arguments[P::kScale] = address_of(&a_.scale);
      arguments[P::kScoreStride] = kernel_.score_stride();
      const Tiling tiles(rows, kernel_.plan_.code.scores);
      for (int64_t i = 0; i < tiles.count; ++i) {
        arguments[P::kQueries] = address_of(q_.data + (row + tiles.first_row(i)) * q_.row_stride);
        arguments[P::kScores] = address_of(scores_at(tiles.first_row(i), first * width));
        kernel_.entry(Kind::Scores, tiles.rows_of(i))(arguments.data());
      }
    }

    void score_few(int64_t row, int64_t rows, int64_t block, int64_t begin, int64_t end) {
      using P = ScoresOfKeys;
      const int64_t lanes = kernel_.lanes();
      std::array<int64_t, P::kArguments> arguments{};
      arguments[P::kRows] = rows;
      arguments[P::kQueries] = address_of(q_.data + row * q_.row_stride);
      arguments[P::kQueryStride] = q_.row_stride;
      arguments[P::kKeys] = address_of(k_.data + begin * k_.row_stride);
      arguments[P::kKeyStride] = k_.row_stride;
      arguments[P::kGroups] = (end - begin) / lanes;
      arguments[P::kRest] = (end - begin) % lanes;
      arguments[P::kVectors] = k_.columns / lanes;
      arguments[P::kDepthRest] = k_.columns % lanes;
      arguments[P::kScale] = address_of(&a_.scale);
      arguments[P::kScores] = address_of(scores_at(0, begin - block));
      arguments[P::kScoreStride] = kernel_.score_stride();
      kernel_.entry(Kind::ScoresOfFew)(arguments.data());
    }

    // Of rows at once that see the same keys and whose bias lies at equal distances. What they do not see becomes −∞.
    void add_bias(int64_t row, int64_t rows, int64_t block, int64_t begin, int64_t end) {
      using P = BiasOfScores;
      constexpr float kHidden = -std::numeric_limits<float>::infinity();
      const int64_t lanes = kernel_.lanes(), padded_end = begin + round_up(end - begin, lanes);
      const Tensor& mask = a_.bias.mask();
      std::array<int64_t, P::kArguments> arguments{};
      arguments[P::kScoreStride] = kernel_.score_stride();
      arguments[P::kCap] = address_of(&a_.softcap);
      if (mask.defined()) arguments[P::kBiasStride] = a_.bias.mask_row_stride();
      for (int64_t i = 0, count = 0; i < rows; i += count) {
        const Bias::Range& range = seen(row + i);
        const int64_t left = a_.q.sequence - position(row + i);  // of this head
        for (count = 1; count < std::min(rows - i, left) && seen(row + i + count) == range;) ++count;
        const int64_t first = std::clamp(range.first, begin, end), last = std::clamp(range.last, first, end);
        arguments[P::kRows] = count;
        arguments[P::kScores] = address_of(scores_at(i, first - block));
        arguments[P::kVectors] = (last - first) / lanes;
        arguments[P::kAll] = (last - first + lanes - 1) / lanes;
        arguments[P::kElements] = last - first;
        if (mask.defined()) {
          const auto bytes = static_cast<int64_t>(element_bytes(mask.dtype()));
          arguments[P::kBias] = address_of(mask.raw()) + (mask_row(row + i) + first) * bytes;
        }
        arguments[P::kMaxima] = address_of(memory_.maxima.data() + i * lanes);
        kernel_.entry(Kind::Bias)(arguments.data());
        // Up to a whole vector of all keys, the code does that.
        for (int64_t k = i; k < i + count && (first > begin || last < end); ++k) {
          std::fill(scores_at(k, begin - block), scores_at(k, first - block), kHidden);
          std::fill(scores_at(k, last - block), scores_at(k, padded_end - block), kHidden);
        }
      }
    }

    void exponentiate(int64_t rows, int64_t first, int64_t count, bool is_last) {
      using P = ProbabilitiesOfScores;
      const int64_t lanes = kernel_.lanes();
      std::array<int64_t, P::kArguments> arguments{};
      arguments[P::kRows] = rows;
      arguments[P::kGroups] = (rows + lanes - 1) / lanes;
      arguments[P::kScores] = address_of(scores_at(0, first));
      arguments[P::kScoreStride] = kernel_.score_stride();
      arguments[P::kVectors] = (count + lanes - 1) / lanes;
      arguments[P::kMaxima] = address_of(memory_.maxima.data());
      arguments[P::kLargest] = address_of(memory_.largest.data() + kept_);
      arguments[P::kSums] = address_of(memory_.sums.data() + kept_);
      arguments[P::kBases] = address_of(memory_.bases.data());
      arguments[P::kDecays] = address_of(memory_.decays.data());
      arguments[P::kFactors] = address_of(memory_.factors.data());
      arguments[P::kIsLast] = is_last;
      kernel_.entry(Kind::Probabilities)(arguments.data());
    }

    void sum(int64_t row, int64_t rows, int64_t block, int64_t begin, int64_t end, bool is_first) {
      using P = ValuesOfProbabilities;
      const int64_t width = kernel_.plan_.code.panel_columns();
      std::array<int64_t, P::kArguments> arguments{};
      arguments[P::kProbabilityStride] = kernel_.score_stride();
      arguments[P::kValues] = address_of(v_.data + begin * v_.row_stride);
      arguments[P::kValueStride] = v_.row_stride;
      arguments[P::kKeys] = end - begin;
      arguments[P::kYStride] = y_.row_stride;
      arguments[P::kPanels] = v_.columns / width;
      arguments[P::kRest] = v_.columns % width;
      arguments[P::kIsFirst] = is_first;
      const Tiling tiles(rows, kernel_.plan_.code.values);
      for (int64_t i = 0; i < tiles.count; ++i) {
        const int64_t at = tiles.first_row(i);
        arguments[P::kProbabilities] = address_of(scores_at(at, begin - block));
        arguments[P::kY] = address_of(y_.data + (row + at) * y_.row_stride);
        arguments[P::kDecays] = address_of(memory_.decays.data() + at);
        arguments[P::kFactors] = address_of(memory_.factors.data() + at);
        kernel_.entry(Kind::Values, tiles.rows_of(i))(arguments.data());
      }
    }

    const AttentionKernel& kernel_;
    const Run& run_;
    const Attention& a_;
    Memory& memory_;
    int64_t b_, first_head_ = 0, first_row_ = 0;
    int64_t kept_ = 0;  // where the numbers of the strip's rows are, in what is kept for each strip
    MatrixView<const float> q_, k_, v_;
    MatrixView<float> y_;
  };

  AttentionPlan plan_;
  CodeEntries entries_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_attention(KernelData& data, AttentionGenerator generate) {
  const std::optional<Isa> isa = data.packed.empty() ? best_isa() : isa_of(data.packed.front().layout);
  if (!isa) return nullptr;
  std::optional<AttentionPlan> plan = plan_attention(data, *isa);
  if (!plan) return nullptr;
  auto kernel = std::make_unique<AttentionKernel>(std::move(*plan));
  return kernel->prepare(data, generate) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated
