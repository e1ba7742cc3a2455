#include "codegen/attention.h"

#include <fmt/format.h>

#include <initializer_list>
#include <limits>

#include "codegen/vector_math.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;

class AttentionBuilder {
 public:
  AttentionBuilder(const AttentionCode& code, const AttentionEntry& entry)
      : code_(code), isa_(describe(code.isa)), rows_(entry.rows), b_(name_of(entry)), math_(b_, isa_) {}

  Function build(AttentionEntry::Kind kind) {
    switch (kind) {
      case AttentionEntry::Kind::Pack: pack(); break;
      case AttentionEntry::Kind::ScoresOfFew: scores_of_few(); break;
      case AttentionEntry::Kind::Bias: bias(); break;
      case AttentionEntry::Kind::Probabilities: probabilities(); break;
      case AttentionEntry::Kind::Scores: scores(); break;
      case AttentionEntry::Kind::Values: values(); break;
    }
    return b_.finish();
  }

 private:
  static constexpr float kMasked = -std::numeric_limits<float>::infinity();

  static std::string name_of(const AttentionEntry& entry) {
    static constexpr const char* kNames[] = {"pack", "scores_of_few", "bias", "probabilities", "scores", "values"};
    const char* name = kNames[static_cast<size_t>(entry.kind)];
    return entry.rows == 0 ? name : fmt::format("{}_{}", name, entry.rows);
  }

  void parameters(std::initializer_list<Parameter> list) {
    for (const Parameter& parameter : list) parameters_.push_back(b_.parameter(parameter.name, parameter.element));
  }
  Value argument(int number) const { return parameters_[static_cast<size_t>(number)]; }
  Value times(Value index, int64_t by) { return b_.multiply(index, b_.integer(by)); }
  Value is_positive(Value index) { return b_.less(b_.integer(0), index); }
  Value number_at(Value pointer) { return b_.load({Element::F32}, pointer, b_.integer(0)); }
  Type vector() const { return {Element::F32, 1, 1, isa_.lanes}; }
  Type square() const { return {Element::F32, isa_.lanes, 1, isa_.lanes}; }

  void pack() {
    using P = PackKeys;
    parameters({{"keys", Element::Pointer},
                {"key_stride", Element::Index},
                {"panel", Element::Pointer},
                {"vectors", Element::Index},
                {"rest", Element::Index}});
    const Value panel_stride = b_.integer(code_.panel_keys());
    auto pack_columns = [&](Value at, Value mask) {
      const Value keys = b_.load(square(), b_.offset(argument(P::kKeys), at), argument(P::kKeyStride), mask);
      b_.store(b_.offset(argument(P::kPanel), b_.multiply(at, panel_stride)), panel_stride, b_.transpose(keys));
    };
    b_.loop(0, argument(P::kVectors), [&](Value i) { pack_columns(times(i, isa_.lanes), kNone); });
    const Value rest = argument(P::kRest);
    b_.choose(is_positive(rest),
              [&] { pack_columns(times(argument(P::kVectors), isa_.lanes), b_.columns(1, isa_.lanes, rest)); }, [] {});
  }

  void scores() {
    using P = ScoresOfPanels;
    parameters({{"queries", Element::Pointer},
                {"query_stride", Element::Index},
                {"panels", Element::Pointer},
                {"panel_size", Element::Index},
                {"count", Element::Index},
                {"depth", Element::Index},
                {"scale", Element::Pointer},
                {"scores", Element::Pointer},
                {"score_stride", Element::Index}});
    const int64_t width = code_.panel_keys();
    const Type tile{Element::F32, rows_, code_.scores.vectors, isa_.lanes};
    b_.loop(0, argument(P::kCount), [&](Value panel) {
      const Value keys = b_.offset(argument(P::kPanels), b_.multiply(panel, argument(P::kPanelSize)));
      const Value zero = b_.constant(0);
      const std::vector<Value> sums = b_.loop(
          0, argument(P::kDepth), 1, std::array{tile}, std::array{zero}, [&](Value k, std::span<const Value> carried) {
            const Value column = column_of(b_.offset(argument(P::kQueries), k), argument(P::kQueryStride));
            const Value row = b_.load({Element::F32, 1, code_.scores.vectors, isa_.lanes},
                                      b_.offset(keys, times(k, width)), no_rows());
            return std::vector{math_.fma(column, row, carried[0])};
          });
      b_.store(b_.offset(argument(P::kScores), times(panel, width)), argument(P::kScoreStride),
               b_.multiply(sums[0], number_at(argument(P::kScale))));
    });
  }
  Value column_of(Value pointer, Value stride) { return b_.load({Element::F32, rows_}, pointer, stride); }

  // The products of a query with `lanes` keys are summed in as many vectors, whose lanes are added at the end.
  void scores_of_few() {
    using P = ScoresOfKeys;
    parameters({{"rows", Element::Index},
                {"queries", Element::Pointer},
                {"query_stride", Element::Index},
                {"keys", Element::Pointer},
                {"key_stride", Element::Index},
                {"groups", Element::Index},
                {"rest", Element::Index},
                {"vectors", Element::Index},
                {"depth_rest", Element::Index},
                {"scale", Element::Pointer},
                {"scores", Element::Pointer},
                {"score_stride", Element::Index}});
    auto for_each_row = [&](const Type& tile, Value first_key) {
      const Value keys = b_.offset(argument(P::kKeys), b_.multiply(first_key, argument(P::kKeyStride)));
      b_.loop(0, argument(P::kRows), [&](Value row) {
        const Value query = b_.offset(argument(P::kQueries), b_.multiply(row, argument(P::kQueryStride)));
        const Value sums = b_.of_lanes(Op::SumOfLanes, products(tile, query, keys));
        const Value to = b_.offset(argument(P::kScores), b_.multiply(row, argument(P::kScoreStride)));
        b_.store(b_.offset(to, first_key), b_.integer(0), b_.multiply(sums, number_at(argument(P::kScale))));
      });
    };
    b_.loop(0, argument(P::kGroups), [&](Value group) { for_each_row(square(), times(group, isa_.lanes)); });
    const Value grouped = times(argument(P::kGroups), isa_.lanes);
    b_.loop(0, argument(P::kRest), [&](Value key) { for_each_row(vector(), b_.add(grouped, key)); });
  }

  // Of a query with a row of `tile` for each key, vector by vector.
  Value products(const Type& tile, Value query, Value keys) {
    using P = ScoresOfKeys;
    auto add_products = [&](Value at, Value sums, Value mask) {
      const Value q = b_.load(vector(), b_.offset(query, at), b_.integer(0), mask);
      return math_.fma(b_.load(tile, b_.offset(keys, at), argument(P::kKeyStride), mask), q, sums);
    };
    const Value zero = b_.constant(0);
    const Value sums = b_.loop(0, argument(P::kVectors), 1, std::array{tile}, std::array{zero},
                               [&](Value i, std::span<const Value> carried) {
                                 return std::vector{add_products(times(i, isa_.lanes), carried[0], kNone)};
                               })[0];
    const Value rest = argument(P::kDepthRest);
    return b_.choose(
        is_positive(rest), tile,
        [&] { return add_products(times(argument(P::kVectors), isa_.lanes), sums, b_.columns(1, isa_.lanes, rest)); },
        [&] { return sums; });
  }

  void bias() {
    using P = BiasOfScores;
    parameters({{"rows", Element::Index},
                {"scores", Element::Pointer},
                {"score_stride", Element::Index},
                {"vectors", Element::Index},
                {"all", Element::Index},
                {"elements", Element::Index},
                {"bias", Element::Pointer},
                {"bias_stride", Element::Index},
                {"cap", Element::Pointer},
                {"maxima", Element::Pointer}});
    b_.loop(0, argument(P::kRows), [&](Value row) {
      const Value scores = b_.offset(argument(P::kScores), b_.multiply(row, argument(P::kScoreStride)));
      const Value bias = b_.offset(argument(P::kBias), b_.multiply(row, argument(P::kBiasStride)), bias_bytes());
      auto step = [&](Value at, Value mask, Value largest) {
        const Value place = b_.offset(scores, at), given = b_.load(vector(), place, no_rows());
        Value x = add_bias(capped(given), b_.offset(bias, at, bias_bytes()), mask);
        if (mask != kNone) x = b_.select(mask, x, b_.constant(kMasked));
        if (x != given) b_.store(place, no_rows(), x);
        return std::vector{b_.binary(Op::Maximum, x, largest)};
      };
      const Value masked = b_.constant(kMasked);
      const std::vector<Value> whole = b_.loop(
          0, argument(P::kVectors), 1, std::array{vector()}, std::array{masked},
          [&](Value i, std::span<const Value> carried) { return step(times(i, isa_.lanes), kNone, carried[0]); });
      const Value left = b_.subtract(argument(P::kAll), argument(P::kVectors));
      const Value largest =
          b_.loop(0, left, 1, std::array{vector()}, whole, [&](Value i, std::span<const Value> carried) {
            const Value at = times(b_.add(argument(P::kVectors), i), isa_.lanes);
            return step(at, b_.columns(1, isa_.lanes, b_.subtract(argument(P::kElements), at)), carried[0]);
          })[0];
      b_.store(b_.offset(argument(P::kMaxima), times(row, isa_.lanes)), no_rows(), largest);
    });
  }

  Value no_rows() { return b_.integer(0); }
  int64_t bias_bytes() const { return code_.bias == AttentionBias::Truths ? 1 : int64_t{sizeof(float)}; }

  Value capped(Value x) {
    if (!code_.has_cap) return x;
    const Value cap = number_at(argument(BiasOfScores::kCap));
    return b_.multiply(math_.tanh(b_.divide(x, cap)), cap);
  }

  // What belongs to a row is computed for `lanes` rows at once.
  void probabilities() {
    using P = ProbabilitiesOfScores;
    parameters({{"rows", Element::Index},
                {"groups", Element::Index},
                {"scores", Element::Pointer},
                {"score_stride", Element::Index},
                {"vectors", Element::Index},
                {"maxima", Element::Pointer},
                {"largest", Element::Pointer},
                {"sums", Element::Pointer},
                {"bases", Element::Pointer},
                {"decays", Element::Pointer},
                {"factors", Element::Pointer},
                {"is_last", Element::Index}});
    auto place = [&](P::Argument argument_of, Value first) { return b_.offset(argument(argument_of), first); };
    auto group_of = [&](P::Argument argument_of, Value first) {
      return b_.load(vector(), place(argument_of, first), no_rows());
    };
    auto of_rows = [&](Op op, Value first) {
      return b_.of_lanes(op, b_.load(square(), place(P::kMaxima, times(first, isa_.lanes)), b_.integer(isa_.lanes)));
    };
    b_.loop(0, argument(P::kGroups), [&](Value group) {
      const Value first = times(group, isa_.lanes), m = group_of(P::kLargest, first);
      const Value largest = b_.binary(Op::Maximum, of_rows(Op::LargestOfLanes, first), m);
      const Value is_masked = b_.binary(Op::Equal, largest, b_.constant(kMasked));
      const Value base = b_.select(is_masked, b_.constant(0), largest);
      const Value decay = math_.exp_of_negative_normal(b_.subtract(m, base));
      b_.store(place(P::kLargest, first), no_rows(), largest);
      b_.store(place(P::kBases, first), no_rows(), base);
      b_.store(place(P::kDecays, first), no_rows(), decay);
    });
    b_.loop(0, argument(P::kRows), [&](Value row) {
      const Value scores = b_.offset(argument(P::kScores), b_.multiply(row, argument(P::kScoreStride)));
      const Value base = number_at(place(P::kBases, row)), zero = b_.constant(0);
      const Value sum = b_.loop(0, argument(P::kVectors), 1, std::array{vector()}, std::array{zero},
                                [&](Value i, std::span<const Value> carried) {
                                  const Value at = b_.offset(scores, times(i, isa_.lanes));
                                  const Value x = b_.subtract(b_.load(vector(), at, no_rows()), base);
                                  const Value p = math_.exp_of_negative_normal(x);
                                  b_.store(at, no_rows(), p);
                                  return std::vector{b_.add(carried[0], p)};
                                })[0];
      b_.store(place(P::kMaxima, times(row, isa_.lanes)), no_rows(), sum);
    });
    b_.loop(0, argument(P::kGroups), [&](Value group) {
      const Value first = times(group, isa_.lanes), zero = b_.constant(0), one = b_.constant(1);
      const Value sum =
          math_.fma(group_of(P::kSums, first), group_of(P::kDecays, first), of_rows(Op::SumOfLanes, first));
      const Value inverse = b_.select(b_.binary(Op::Equal, sum, zero), zero, b_.divide(one, sum));
      const Value factor = b_.select(is_positive(argument(P::kIsLast)), inverse, one);
      b_.store(place(P::kSums, first), no_rows(), sum);
      b_.store(place(P::kFactors, first), no_rows(), factor);
    });
  }

  // A bias of −∞ hides a score, whatever that is.
  Value add_bias(Value x, Value bias, Value mask) {
    const Value masked = b_.constant(kMasked);
    switch (code_.bias) {
      case AttentionBias::None: return x;
      case AttentionBias::Numbers: {
        const Value added = b_.load(vector(), bias, no_rows(), mask);
        return b_.select(b_.binary(Op::Equal, added, masked), masked, b_.add(x, added));
      }
      case AttentionBias::Truths:
        return b_.select(b_.load({Element::Mask, 1, 1, isa_.lanes}, bias, no_rows(), mask), x, masked);
    }
    return x;
  }

  void values() {
    using P = ValuesOfProbabilities;
    parameters({{"probabilities", Element::Pointer},
                {"probability_stride", Element::Index},
                {"values", Element::Pointer},
                {"value_stride", Element::Index},
                {"keys", Element::Index},
                {"y", Element::Pointer},
                {"y_stride", Element::Index},
                {"panels", Element::Index},
                {"rest", Element::Index},
                {"decays", Element::Pointer},
                {"factors", Element::Pointer},
                {"is_first", Element::Index}});
    const int64_t width = code_.panel_columns();
    b_.loop(0, argument(P::kPanels), [&](Value panel) { sum_values(times(panel, width), kNone); });
    if (!code_.has_edge) return;
    const Value rest = argument(P::kRest);
    b_.choose(
        is_positive(rest),
        [&] { sum_values(times(argument(P::kPanels), width), b_.columns(code_.values.vectors, isa_.lanes, rest)); },
        [] {});
  }

  // One panel of the columns of V and Y, from a column on.
  void sum_values(Value column, Value mask) {
    using P = ValuesOfProbabilities;
    const Type tile{Element::F32, rows_, code_.values.vectors, isa_.lanes};
    const Value y = b_.offset(argument(P::kY), column), v = b_.offset(argument(P::kValues), column);
    const Value one_by_one = b_.integer(1);
    const Value begin = b_.choose(
        is_positive(argument(P::kIsFirst)), tile, [&] { return b_.constant(0); },
        [&] {
          const Value before = b_.load(tile, y, argument(P::kYStride), mask);
          return b_.multiply(before, column_of(argument(P::kDecays), one_by_one));
        });
    const std::vector<Value> sums = b_.loop(
        0, argument(P::kKeys), 1, std::array{tile}, std::array{begin}, [&](Value k, std::span<const Value> carried) {
          const Value p = column_of(b_.offset(argument(P::kProbabilities), k), argument(P::kProbabilityStride));
          const Value row = b_.load({Element::F32, 1, code_.values.vectors, isa_.lanes},
                                    b_.offset(v, b_.multiply(k, argument(P::kValueStride))), b_.integer(0), mask);
          return std::vector{math_.fma(p, row, carried[0])};
        });
    b_.store(y, argument(P::kYStride), b_.multiply(sums[0], column_of(argument(P::kFactors), one_by_one)), mask);
  }

  const AttentionCode& code_;
  const IsaDescription& isa_;
  int rows_;
  Builder b_;
  VectorMath math_;
  std::vector<Value> parameters_;
};

}  // namespace

Function attention_function(const AttentionCode& code, const AttentionEntry& entry) {
  return AttentionBuilder(code, entry).build(entry.kind);
}

}  // namespace anfora::codegen
