#include "codegen/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "codegen/epilogue.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;

constexpr int kUnroll = 1;

// Steps over k that are one iteration of the machine code, for so many multiply-adds of vectors in each. An iteration takes five instructions besides, which cost nothing as
// long as a thread has the core to itself, but an eighth of the time where another one takes its part of what a core can decode and issue. More make no difference, but take
// longer to compile. It divides kStepsOfFetch.
int steps_of_iteration(int64_t multiply_adds) {
  constexpr int64_t kMost = 4, kOfIteration = 48;
  return static_cast<int>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(kOfIteration / multiply_adds, 1, kMost))));
}

// The same of a line of so many: where three leave none, no more. What is left behind the iterations is code of its own.
int steps_of_iteration_of_line(int64_t multiply_adds, int64_t steps) {
  const int at_once = steps_of_iteration(multiply_adds);
  return at_once == 4 && steps % 4 != 0 && steps % 3 == 0 ? 3 : at_once;
}

class ProductBuilder {
 public:
  ProductBuilder(const ProductCode& code, int rows, std::string name)
      : code_(code), isa_(describe(code.isa)), rows_(rows), b_(std::move(name)) {
    isa_.lanes = code.lanes();
    static const Parameter kParameters[kProductArguments] = {{"a", Element::Pointer},
                                                                 {"b", Element::Pointer},
                                                                 {"y", Element::Pointer},
                                                                 {"y_stride", Element::Index},
                                                                 {"groups", Element::Index},
                                                                 {"rest", Element::Index},
                                                                 {"columns", Element::Index},
                                                                 {"addend0", Element::Pointer},
                                                                 {"addend0_stride", Element::Index},
                                                                 {"addend1", Element::Pointer},
                                                                 {"addend1_stride", Element::Index},
                                                                 {"sums", Element::Pointer},
                                                                 {"steps", Element::Index},
                                                                 {"is_first", Element::Index},
                                                                 {"is_last", Element::Index},
                                                                 {"column_terms", Element::Pointer},
                                                                 {"column_zeros", Element::Pointer},
                                                                 {"row_terms", Element::Pointer},
                                                                 {"scale", Element::Pointer},
                                                                 {"quantization", Element::Pointer},
                                                                 {"a_stride", Element::Index},
                                                                 {"panel_stride", Element::Index},
                                                                 {"lines", Element::Index},
                                                                 {"line_stride", Element::Index},
                                                                 {"line_steps", Element::Index},
                                                                 {"ahead", Element::Pointer},
                                                                 {"lines_of_fetch", Element::Index},
                                                                 {"subtrahend", Element::Pointer},
                                                                 {"difference", Element::Pointer}};
    const int count = code.forms_weights                             ? kProductArguments
                      : code.fetches_ahead                           ? kFetchArguments
                      : code.has_windows                             ? kWindowArguments
                      : code.takes_sizes() || code.has_few_bits() ? kSizeArguments
                                                                     : kFloatArguments;
    for (int i = 0; i < count; ++i)
      parameters_.push_back(b_.parameter(kParameters[i].name, kParameters[i].element));
  }

  Function build() {
    const int at_once = code_.panels_at_once(rows_);
    b_.loop(0, parameters_[kGroups], [&](Value group) { panels(multiply(group, at_once), at_once); });
    if (at_once > 1) {
      const Value first = multiply(parameters_[kGroups], at_once);
      b_.loop(0, parameters_[kRest], [&](Value panel) { panels(b_.add(first, panel), 1); });
    }
    return b_.finish();
  }

  Function build_dequantization() {
    const PanelOfFewBits panel{.words = parameters_[kB], .scales = parameters_[kScale], .zeros = parameters_[kColumnZeros]};
    b_.loop(0, parameters_[kSteps], [&](Value word) {
      const Value to = b_.offset(parameters_[kY], multiply(word, code_.steps_of_word() * code_.panel_columns()));
      for_each_step(word, {&panel, 1}, b_.integer(0), {}, {}, [&](Value step, std::span<const Value> weights, std::span<const Value>) {
        b_.store(b_.offset(to, multiply(step, code_.panel_columns())), b_.integer(0), weights[0]);
        return std::vector<Value>();
      });
    });
    return b_.finish();
  }

 private:
  // Pointers to the weights of a panel, the scales and the zero points.
  struct PanelOfFewBits {
    Value words, scales, zeros;
  };

  Type row_type(Element element) const { return {element, 1, code_.tile.vectors, isa_.lanes}; }

  // body(step of the word, its row of each panel in f32, carried) gives the values to carry on. The scales are those of a block.
  using StepBody = std::function<std::vector<Value>(Value step, std::span<const Value> weights, std::span<const Value> carried)>;
  std::vector<Value> for_each_step(Value word, std::span<const PanelOfFewBits> panels, Value block, std::span<const Type> types,
                                   std::span<const Value> initial, const StepBody& body) {
    const bool is_word = code_.steps_of_word() > 1;
    std::vector<Value> scales, zeros, words;
    for (const PanelOfFewBits& panel : panels) {
      const Value at = multiply(block, code_.panel_columns());
      scales.push_back(b_.load(row_type(Element::F32), b_.offset(panel.scales, at), b_.integer(0)));
      if (code_.has_zeros) zeros.push_back(b_.load(row_type(Element::I32), b_.offset(panel.zeros, at, 1), b_.integer(0), kNone, InMemory::SignedByte));
      words.push_back(b_.load(row_type(Element::I32), b_.offset(panel.words, multiply(word, code_.panel_columns()), is_word ? 4 : 1), b_.integer(0),
                              kNone, is_word ? InMemory::Word : InMemory::SignedByte));
    }
    auto dequantized = [&](Value q, size_t i) {
      return b_.multiply(b_.to_float(code_.has_zeros ? b_.subtract(q, zeros[i]) : q), scales[i]);
    };
    if (!is_word) {
      std::vector<Value> weights;
      for (size_t i = 0; i < panels.size(); ++i) weights.push_back(dequantized(words[i], i));
      return body(b_.integer(0), weights, initial);
    }
    // What comes next is in the highest bits.
    constexpr int kWordBits = 32;
    const int bits = kWordBits / static_cast<int>(code_.steps_of_word());
    std::vector<Type> all_types(panels.size(), row_type(Element::I32));
    std::vector<Value> all_initial = words;
    all_types.insert(all_types.end(), types.begin(), types.end());
    all_initial.insert(all_initial.end(), initial.begin(), initial.end());
    std::vector<Value> results = b_.loop(
        0, b_.integer(code_.steps_of_word()), static_cast<int>(code_.steps_of_word()), all_types, all_initial, [&](Value step, std::span<const Value> carried) {
          std::vector<Value> next, weights;
          for (size_t i = 0; i < panels.size(); ++i) {
            weights.push_back(dequantized(b_.binary(Op::ShiftRight, carried[i], b_.bits(kWordBits - bits)), i));
            next.push_back(b_.binary(Op::ShiftLeft, carried[i], b_.bits(bits)));
          }
          const std::vector<Value> own = body(step, weights, carried.subspan(panels.size()));
          next.insert(next.end(), own.begin(), own.end());
          return next;
        });
    results.erase(results.begin(), results.begin() + std::ssize(panels));
    return results;
  }

  Element element() const { return code_.is_integer() ? Element::I32 : Element::F32; }
  Value multiply_add(Value a, Value b, Value c) {
    switch (code_.factors) {
      case Factors::Floats: break;
      case Factors::Bytes: return b_.dot(Op::DotBytes, a, b, c);
      case Factors::Halves: return b_.dot(Op::DotHalves, a, b, c);
    }
    return codegen::multiply_add(b_, isa_, a, b, c);
  }
  Value multiply(Value index, int64_t by) { return by == 1 ? index : b_.multiply(index, b_.integer(by)); }

  // `count` panels from number `panel` on, side by side.
  void panels(Value panel, int count) {
    const Type tile{element(), rows_, code_.tile.vectors, isa_.lanes};
    std::vector<Value> numbers, initial;
    for (int i = 0; i < count; ++i) {
      numbers.push_back(i == 0 ? panel : b_.add(panel, b_.integer(i)));
      initial.push_back(begin(tile, numbers.back()));
      fetch_result(tile, numbers.back());
    }
    const std::vector<Type> tiles(static_cast<size_t>(count), tile);
    const std::vector<Value> sums = code_.has_few_bits() ? sums_of_few_bits(numbers, tiles, initial) : sums_of(numbers, tiles, initial);
    if (count > 1 && is_costly(code_.epilogue.activation) && !code_.is_integer()) return end_together(sums, numbers);
    for (size_t i = 0; i < sums.size(); ++i) end(sums[i], numbers[i]);
  }

  std::vector<Value> sums_of(std::span<const Value> numbers, std::span<const Type> tiles, std::span<const Value> initial) {
    const int64_t width = code_.panel_columns();
    std::vector<Value> first;
    for (Value number : numbers) first.push_back(b_.offset(parameters_[kB], panel_offset(number), weight_bytes()));
    const bool takes_steps = (code_.has_blocks() || code_.takes_sizes()) && code_.line_steps == 0;
    const Value steps = takes_steps ? parameters_[kSteps] : b_.integer(code_.line_steps > 0 ? code_.line_steps : code_.depth);
    const Value ahead = code_.fetches_ahead ? parameters_[kAhead] : kNone;
    if (!code_.has_windows) return sums_of_line(parameters_[kA], first, steps, ahead, tiles, initial);
    return b_.loop(0, parameters_[kLines], kUnroll, tiles, initial, [&](Value line, std::span<const Value> carried) {
      const Value weights = multiply(b_.multiply(line, parameters_[kLineSteps]), width);
      std::vector<Value> of_line;
      for (Value panel : first) of_line.push_back(b_.offset(panel, weights, weight_bytes()));
      const Value of_ahead = code_.fetches_ahead ? after_fetches(ahead, b_.multiply(line, count_fetches(steps))) : ahead;
      return sums_of_line(b_.offset(parameters_[kA], b_.multiply(line, parameters_[kLineStride])), of_line, steps, of_ahead, tiles, carried);
    });
  }

  // Over `steps` elements of each row of A that lie side by side. `first`: the panels.
  std::vector<Value> sums_of_line(Value a, std::span<const Value> first, Value steps, Value ahead, std::span<const Type> tiles, std::span<const Value> initial) {
    const int64_t multiply_adds = std::ssize(tiles) * rows_ * code_.tile.vectors;
    const int at_once = code_.line_steps > 0 ? steps_of_iteration_of_line(multiply_adds, code_.line_steps) : steps_of_iteration(multiply_adds);
    if (!code_.fetches_ahead) return sums_of_steps(a, first, kNone, steps, at_once, tiles, initial);
    const Value fetches = count_fetches(steps);
    const std::vector<Value> so_far = b_.loop(0, fetches, kUnroll, tiles, initial, [&](Value i, std::span<const Value> carried) {
      const Value from = after_fetches(ahead, i);
      b_.loop(0, parameters_[kLinesOfFetch], [&](Value line) { b_.prefetch({Element::F32}, b_.offset(from, multiply(line, kCacheLineBytes), 1), b_.integer(0), Fetch::Later); });
      return sums_of_steps(a, first, multiply(i, kStepsOfFetch), b_.integer(kStepsOfFetch), at_once, tiles, carried);
    });
    const Value done = multiply(fetches, kStepsOfFetch);
    return sums_of_steps(a, first, done, b_.subtract(steps, done), 1, tiles, so_far);
  }

  Value count_fetches(Value steps) { return b_.divide(steps, b_.integer(kStepsOfFetch)); }

  Value after_fetches(Value ahead, Value count) {
    return b_.offset(ahead, multiply(b_.multiply(count, parameters_[kLinesOfFetch]), kCacheLineBytes), 1);
  }

  // The steps from number `begin` on; kNone: from the first. `at_once`: in an iteration.
  std::vector<Value> sums_of_steps(Value a, std::span<const Value> first, Value begin, Value steps, int at_once, std::span<const Type> tiles, std::span<const Value> initial) {
    const int64_t width = code_.panel_columns();
    const Value a_stride = code_.takes_sizes() && !code_.has_fixed_stride ? parameters_[kAStride] : b_.integer(code_.a_stride);
    return b_.loop(0, steps, at_once, tiles, initial, [&](Value i, std::span<const Value> carried) {
      const Value k = begin == kNone ? i : b_.add(begin, i);
      const Value column = code_.has_packed_rows ? b_.load({element(), rows_}, b_.offset(a, multiply(k, rows_)), b_.integer(1)) : b_.load({element(), rows_}, b_.offset(a, k), a_stride);
      std::vector<Value> next;
      for (size_t p = 0; p < first.size(); ++p) {
        Value row = b_.load(row_type(element()), b_.offset(first[p], multiply(k, width), weight_bytes()), b_.integer(0), kNone, weights_in_memory());
        if (code_.forms_weights) {
          const Value at = multiply(k, width);
          row = b_.subtract(row, b_.load(row_type(element()), b_.offset(parameters_[kSubtrahend], at), b_.integer(0)));
          b_.store(b_.offset(parameters_[kDifference], at), b_.integer(0), row);
        }
        next.push_back(multiply_add(column, row, carried[p]));
      }
      return next;
    });
  }

  std::vector<Value> sums_of_few_bits(std::span<const Value> numbers, std::span<const Type> tiles, std::span<const Value> initial) {
    const int64_t blocks = code_.scale_blocks(), scales = blocks * code_.panel_columns(), steps = code_.steps_of_word(),
                  words = code_.depth / steps, words_of_block = std::min(words, code_.scale_block / steps);
    std::vector<PanelOfFewBits> panels;
    for (Value number : numbers) {
      panels.push_back({.words = b_.offset(parameters_[kB], multiply(number, code_.weight_bytes(code_.depth)), 1),
                        .scales = b_.offset(parameters_[kScale], multiply(number, scales)),
                        .zeros = code_.has_zeros ? b_.offset(parameters_[kColumnZeros], multiply(number, scales), 1) : kNone});
    }
    return b_.loop(0, b_.integer(blocks), kUnroll, tiles, initial, [&](Value block, std::span<const Value> before) {
      const Value first = multiply(block, words_of_block);
      Value count = b_.integer(words_of_block);
      if (words % words_of_block != 0) count = b_.minimum(count, b_.subtract(b_.integer(words), first));
      return b_.loop(0, count, kUnroll, tiles, before, [&](Value i, std::span<const Value> carried) {
        const Value word = b_.add(first, i), a = b_.offset(parameters_[kA], multiply(word, steps));
        return for_each_step(word, panels, block, tiles, carried, [&](Value step, std::span<const Value> weights, std::span<const Value> so_far) {
          const Value column = b_.load({Element::F32, rows_}, b_.offset(a, step), b_.integer(code_.a_stride));
          std::vector<Value> next;
          for (size_t p = 0; p < weights.size(); ++p) next.push_back(multiply_add(column, weights[p], so_far[p]));
          return next;
        });
      });
    });
  }

  int64_t weight_bytes() const { return code_.is_integer() ? 4 : static_cast<int64_t>(element_bytes(code_.weights)); }
  InMemory weights_in_memory() const {
    if (!code_.has_half_weights()) return InMemory::Word;
    return code_.weights == DType::F16 ? InMemory::Half : InMemory::BFloat;
  }

  Value panel_offset(Value panel) {
    if (code_.takes_sizes()) return b_.multiply(panel, parameters_[kPanelStride]);
    return multiply(panel, code_.panel_columns() * code_.depth);
  }

  Value kept_sums(Value panel) {
    return b_.offset(parameters_[kSums], multiply(panel, int64_t{rows_} * code_.panel_columns()));
  }

  Value begin(const Type& tile, Value panel) {
    auto first = [&] { return code_.is_integer() ? row_of(kColumnTerms, Element::I32, multiply(panel, code_.panel_columns())) : b_.constant(0); };
    if (!code_.has_blocks()) return first();
    return b_.choose(
        b_.less(b_.integer(0), parameters_[kIsFirst]), tile, first,
        [&] { return b_.load(tile, kept_sums(panel), b_.integer(code_.panel_columns())); });
  }

  // Without blocks there is no other.
  void at_last_block(const std::function<void()>& then, const std::function<void()>& otherwise) {
    if (!code_.has_blocks()) return then();
    b_.choose(b_.less(b_.integer(0), parameters_[kIsLast]), then, otherwise);
  }

  // What the epilogue reads and writes, while the sums are computed: it comes from beyond the second-level cache as a rule.
  void fetch_result(const Type& tile, Value panel) {
    if (code_.is_integer()) return;
    auto fetch = [&] {
      const Value column = multiply(panel, code_.panel_columns());
      for (size_t i = 0; i < code_.epilogue.addends.size(); ++i) {
        if (code_.epilogue.addends[i] == Addend::Tile) b_.prefetch(tile, b_.offset(parameters_[kAddend0 + 2 * i], column), parameters_[kAddend0Stride + 2 * i], Fetch::Read);
      }
      b_.prefetch(tile, b_.offset(parameters_[kY], column), parameters_[kYStride], Fetch::Write);
    };
    at_last_block(fetch, [] {});
  }

  void end(Value sums, Value panel) {
    auto finish_here = [&] { finish(sums, multiply(panel, code_.panel_columns())); };
    at_last_block(finish_here, [&] { keep(sums, panel); });
  }

  // For the next block.
  void keep(Value sums, Value panel) { b_.store(kept_sums(panel), b_.integer(code_.panel_columns()), sums); }

  // Panel by panel, from memory: an epilogue of so much code is there once.
  void end_together(std::span<const Value> sums, std::span<const Value> numbers) {
    auto column_of = [&](Value number) { return multiply(number, code_.panel_columns()); };
    auto finish_here = [&] {
      for (size_t i = 0; i < sums.size(); ++i) {
        const Value column = column_of(numbers[i]);
        store(sums[i], column, code_.has_edge ? b_.columns(code_.tile.vectors, isa_.lanes, b_.subtract(parameters_[kColumns], column)) : kNone);
      }
      b_.loop(0, b_.integer(std::ssize(sums)), [&](Value i) {
        const Value column = column_of(b_.add(numbers[0], i));
        auto finish_stored = [&](Value mask) { finish(b_.load(b_.type(sums[0]), b_.offset(parameters_[kY], column), parameters_[kYStride], mask), column, mask); };
        if (!code_.has_edge) return finish_stored(kNone);
        finish_panel(b_, isa_, code_.tile.vectors, b_.subtract(parameters_[kColumns], column), finish_stored);
      });
    };
    at_last_block(finish_here, [&] {
      for (size_t i = 0; i < sums.size(); ++i) keep(sums[i], numbers[i]);
    });
  }

  // The epilogue, from a column on.
  void finish(Value sums, Value column) {
    if (!code_.has_edge) return finish(sums, column, kNone);
    finish_panel(b_, isa_, code_.tile.vectors, b_.subtract(parameters_[kColumns], column),
                 [&](Value mask) { finish(sums, column, mask); });
  }

  void finish(Value tile, Value column, Value mask) {
    if (code_.is_integer() && code_.has_column_zeros) tile = without_zeros_of_columns(tile, column);
    if (code_.is_integer() && code_.scale == Scale::None) return store(tile, column, mask);
    if (code_.is_integer()) tile = b_.multiply(b_.to_float(tile), scale(column, mask));
    std::array<AddendAt, 2> addends{};
    for (size_t i = 0; i < addends.size(); ++i) {
      if (code_.epilogue.addends[i] == Addend::None) continue;
      addends[i] = {b_.offset(parameters_[kAddend0 + 2 * i], column), parameters_[kAddend0Stride + 2 * i]};
    }
    if (code_.is_quantized() || !is_costly(code_.epilogue.activation)) return store(finish_tile(b_, isa_, code_.epilogue, tile, addends, mask), column, mask);
    store_finished(b_, code_.epilogue, tile, b_.offset(parameters_[kY], column), parameters_[kYStride], mask, [&](Value row, Value part) {
      std::array<AddendAt, 2> of_row = addends;
      for (size_t i = 0; i < of_row.size(); ++i) {
        if (code_.epilogue.addends[i] != Addend::None)
          of_row[i].pointer = b_.offset(of_row[i].pointer, b_.multiply(row, of_row[i].row_stride));
      }
      return finish_tile(b_, isa_, code_.epilogue, part, of_row, mask);
    });
  }

  void store(Value tile, Value column, Value mask) {
    if (!code_.is_quantized()) return b_.store(b_.offset(parameters_[kY], column), parameters_[kYStride], tile, mask);
    if (code_.divides) tile = divide_by_scale(b_, tile, parameters_[kQuantization]);
    if (code_.residual) {
      const Value residual = b_.offset(parameters_[kAddend1], column, 1);
      tile = add_residual(b_, tile, *code_.residual, residual, parameters_[kAddend1Stride], mask, parameters_[kQuantization]);
    }
    store_as(b_, code_.result, parameters_[kY], column, parameters_[kYStride], tile, mask, parameters_[kQuantization]);
  }

  // Of all columns of the panel, also where the result has no more.
  Value row_of(ProductArgument argument, Element element, Value column, Value mask = kNone) {
    return b_.load({element, 1, code_.tile.vectors, isa_.lanes}, b_.offset(parameters_[argument], column),
                   b_.integer(0), mask);
  }

  Value without_zeros_of_columns(Value tile, Value column) {
    const Value row_terms = b_.load({Element::I32, rows_}, parameters_[kRowTerms], b_.integer(1));
    return b_.subtract(tile, b_.multiply(row_of(kColumnZeros, Element::I32, column), row_terms));
  }

  Value scale(Value column, Value mask) {
    if (code_.scale == Scale::Columns) return row_of(kScale, Element::F32, column, mask);
    return b_.load({Element::F32}, parameters_[kScale], b_.integer(0));
  }

  const ProductCode& code_;
  IsaDescription isa_;
  int rows_;
  Builder b_;
  std::vector<Value> parameters_;
};

}  // namespace

Function product_function(const ProductCode& code, int rows) {
  return ProductBuilder(code, rows, fmt::format("{}_{}", code.forms_weights ? "product_of_difference" : "product", rows)).build();
}

Function dequantizing_function(const ProductCode& code) { return ProductBuilder(code, 1, "dequantized_panel").build_dequantization(); }

}  // namespace anfora::codegen
