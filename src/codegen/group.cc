// A group's statements become passes over a row, while it is in the cache. A pass computes sums and extrema along the row; what depends on
// them comes in a later pass. Softmax takes three:
//
//     %1 = row_max_number(%0)                 pass 0: reads the row
//     %2 = exp_of_negative(%0 - %1)           pass 1: writes %2 to a buffer, and sums it
//     %3 = %2 * (1 / row_sum(%2))             pass 2: reads the buffer, writes the result
//
// What a later pass needs again is computed again, from the row in the cache, unless that is costly: then the first pass that computes it
// keeps it in a buffer. Numbers of a row (sums, operands that do not change along it, and what is made of those alone) are computed once,
// between the passes.
//
// A pass is a loop over whole vectors, and one over what is left, with masks. Sums are kept lane by lane, and the lanes are added in the end: in
// an order that depends on the row's length alone.
#include "codegen/group.h"

#include <algorithm>
#include <limits>
#include <map>

#include "codegen/expression.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;
using Kind = Term::Kind;

class GroupBuilder {
 public:
  explicit GroupBuilder(const GroupCode& code)
      : code_(code),
        isa_(kernels::generated::describe(code.isa)),
        terms_(parse_statements(code.inputs.size(), code.statements)),
        b_("group"),
        math_(b_, isa_) {
    static constexpr Parameter kParameters[kGroupArguments] = {
        {"rows", Element::Index},       {"elements", Element::Index},  {"vectors", Element::Index},
        {"all", Element::Index},        {"blocks", Element::Index},    {"in_blocks", Element::Index},
        {"row_size", Element::Pointer}, {"buffers", Element::Pointer}, {"buffer_stride", Element::Index}};
    for (const Parameter& parameter : kParameters)
      parameters_.push_back(b_.parameter(parameter.name, parameter.element));
    auto add_operand = [&](const std::string& name) {
      const Value first = b_.parameter(name, Element::Pointer);
      operands_.push_back({first, b_.parameter(name + "_stride", Element::Index)});
    };
    for (size_t i = 0; i < code.inputs.size(); ++i) add_operand("x" + std::to_string(i));
    for (size_t i = 0; i < code.outputs.size(); ++i) add_operand("y" + std::to_string(i));
  }

  GroupFunction build() {
    classify();
    plan_passes();
    b_.loop(0, parameters_[kRows], [&](Value row) { build_row(row); });
    return {b_.finish(), num_buffers_};
  }

 private:
  struct Operand {
    Value first, stride;
  };
  // What a term is, before any code is made.
  struct Facts {
    bool varies = false;    // along a row
    int pass = 0;           // the first that may compute it
    int buffer = -1;        // that it is kept in
    int computed_in = -1;   // the first pass that computes it, which writes the buffer
    int prepared_for = -1;  // the same of the numbers that it reads
  };

  const Term& term(int t) const { return terms_.all[static_cast<size_t>(t)]; }
  Facts& facts(int t) { return facts_[static_cast<size_t>(t)]; }
  int value(int number) const { return terms_.values[static_cast<size_t>(number)]; }

  // Operands come before users.
  void classify() {
    facts_.resize(terms_.all.size());
    for (size_t t = 0; t < terms_.all.size(); ++t) {
      const Term& term = terms_.all[t];
      Facts& f = facts_[t];
      if (term.kind == Kind::Input) f.varies = code_.inputs[static_cast<size_t>(term.input)].varies;
      for (int operand : term.operands) {
        f.varies = f.varies || facts(operand).varies;
        f.pass = std::max(f.pass, facts(operand).pass);
      }
      if (!term.is_reduction()) continue;
      if (f.varies) ++f.pass;  // else it is known at once
      f.varies = false;
    }
  }

  void plan_passes() {
    auto add_pass = [&](int number) {
      if (std::ssize(passes_) <= number) passes_.resize(static_cast<size_t>(number) + 1);
    };
    std::vector<bool> is_needed(terms_.all.size());
    for (const GroupCode::Output& output : code_.outputs) is_needed[static_cast<size_t>(value(output.value))] = true;
    for (int t = static_cast<int>(terms_.all.size()) - 1; t >= 0; --t) {
      if (!is_needed[static_cast<size_t>(t)]) continue;
      for (int operand : term(t).operands) is_needed[static_cast<size_t>(operand)] = true;
      if (!is_pass_reduction(t)) continue;
      add_pass(facts(t).pass - 1);
      passes_[static_cast<size_t>(facts(t).pass) - 1].reductions.push_back(t);
    }
    int last = static_cast<int>(passes_.size()) - 1;
    for (const GroupCode::Output& output : code_.outputs) {
      if (!output.is_of_row) last = std::max(last, facts(value(output.value)).pass);
    }
    add_pass(last);
    for (size_t p = 0; p < passes_.size(); ++p) {
      std::ranges::sort(passes_[p].reductions);
      for (int t : passes_[p].reductions) add_varying(static_cast<int>(p), term(t).operands[0]);
    }
    for (size_t i = 0; i < code_.outputs.size(); ++i) {
      if (code_.outputs[i].is_of_row) continue;
      passes_.back().outputs.push_back(i);
      add_varying(static_cast<int>(passes_.size()) - 1, value(code_.outputs[i].value));
    }
  }
  bool is_pass_reduction(int t) { return term(t).is_reduction() && facts(term(t).operands[0]).varies; }

  // What a pass computes for a term. Where it is costly and another pass computes it already, that keeps it.
  void add_varying(int pass, int t) {
    Facts& f = facts(t);
    std::vector<bool>& computes = passes_[static_cast<size_t>(pass)].computes;
    computes.resize(terms_.all.size());
    if (!f.varies || computes[static_cast<size_t>(t)]) return;
    if (f.computed_in >= 0 && term(t).kind == Kind::Apply && term(t).function->is_costly) {
      if (f.buffer < 0) f.buffer = num_buffers_++;
      return;
    }
    if (f.computed_in < 0) f.computed_in = pass;
    computes[static_cast<size_t>(t)] = true;
    for (int operand : term(t).operands) add_varying(pass, operand);
  }

  Type vector() const { return {Element::F32, 1, 1, isa_.lanes}; }

  void build_row(Value row) {
    row_values_.clear();
    rows_.clear();
    for (size_t i = 0; i < operands_.size(); ++i) {
      rows_.push_back(operands_[i].first);
      rows_.back() = place_in_row(i, b_.multiply(row, operands_[i].stride));
    }
    for (size_t p = 0; p < passes_.size(); ++p) build_pass(static_cast<int>(p));
    std::vector<Store> numbers;
    for (size_t i = 0; i < code_.outputs.size(); ++i) {
      if (code_.outputs[i].is_of_row)
        numbers.push_back({i, rows_[code_.inputs.size() + i], stored(i, number_of_row(value(code_.outputs[i].value)))});
    }
    store(numbers);
  }

  struct Pass {
    std::vector<int> reductions;
    std::vector<size_t> outputs;
    std::vector<bool> computes;  // by term
  };

  void build_pass(int number) {
    const Pass& pass = passes_[static_cast<size_t>(number)];
    if (pass.reductions.empty() && pass.outputs.empty()) return;
    for (int t : pass.reductions) prepare_numbers(number, term(t).operands[0]);
    for (size_t i : pass.outputs) prepare_numbers(number, value(code_.outputs[i].value));
    // As many sums in a loop as leave registers for what is summed; the results in the last.
    const auto most = static_cast<size_t>(isa_.registers / 2);
    const std::span<const int> all = pass.reductions;
    size_t from = 0;
    for (; all.size() - from > most; from += most) build_loops(number, all.subspan(from, most), {});
    build_loops(number, all.subspan(from), pass.outputs);
  }

  void build_loops(int number, std::span<const int> reductions, std::span<const size_t> outputs) {
    // Whole vectors, as blocks where there is little else than sums; then the others, with a mask.
    const size_t count = reductions.size();
    const bool has_blocks =
        count > 0 && count * kGroupBlock <= static_cast<size_t>(isa_.registers / 2) && !is_costly(number);
    const Value begin = parameters_[has_blocks ? kInBlocks : kVectors];
    const size_t at_once = has_blocks ? kGroupBlock : 1;
    std::vector<Value> sums;
    for (size_t i = 0; i < count * at_once; ++i) sums.push_back(b_.constant(neutral(term(reductions[i % count]).kind)));
    const std::vector<Type> types(sums.size(), vector());
    auto vector_at = [&](Value i) { return b_.multiply(i, b_.integer(isa_.lanes)); };
    sums = b_.loop(
        0, parameters_[has_blocks ? kBlocks : kVectors], 1, types, sums, [&](Value i, std::span<const Value> carried) {
          std::vector<Value> next;
          const Value first = has_blocks ? b_.multiply(i, b_.integer(kGroupBlock)) : i;
          for (size_t k = 0; k < at_once; ++k) {
            const Value at = vector_at(k == 0 ? first : b_.add(first, b_.integer(static_cast<int64_t>(k))));
            std::ranges::copy(step(number, reductions, outputs, at, kNone, carried.subspan(k * count, count)),
                              std::back_inserter(next));
          }
          return next;
        });
    const Value left = b_.subtract(parameters_[kAll], begin);
    const std::vector<Value> rest =
        b_.loop(0, left, 1, std::span(types).first(count), std::span(sums).first(count),
                [&](Value i, std::span<const Value> carried) {
                  const Value at = vector_at(b_.add(begin, i));
                  return step(number, reductions, outputs, at,
                              b_.columns(1, isa_.lanes, b_.subtract(parameters_[kElements], at)), carried);
                });
    for (size_t i = 0; i < count; ++i) {
      const Kind kind = term(reductions[i]).kind;
      Value total = rest[i];
      for (size_t k = 1; k < at_once; ++k) total = combined(kind, total, sums[k * count + i]);
      row_values_[reductions[i]] = b_.of_lanes(kind == Kind::Sum        ? Op::SumOfLanes
                                               : kind == Kind::Smallest ? Op::SmallestOfLanes
                                                                        : Op::LargestOfLanes,
                                               total);
    }
  }

  // The first is no NaN, where NaN counts for nothing.
  Value combined(Kind kind, Value a, Value b) {
    switch (kind) {
      case Kind::Sum: return b_.add(a, b);
      case Kind::LargestNumber: return b_.maximum(b, a);
      case Kind::Largest: return math_.larger(a, b);
      default: return math_.smaller(a, b);
    }
  }

  // Whether a pass computes something that takes longer than its sums.
  bool is_costly(int pass) const {
    const std::vector<bool>& computes = passes_[static_cast<size_t>(pass)].computes;
    for (size_t t = 0; t < computes.size(); ++t) {
      if (computes[t] && terms_.all[t].kind == Kind::Apply && terms_.all[t].function->is_costly) return true;
    }
    return false;
  }

  static float neutral(Kind kind) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return kind == Kind::Sum ? 0 : kind == Kind::Smallest ? kInfinity : -kInfinity;
  }

  // One vector of a pass, from element `at` of the row on.
  std::vector<Value> step(int pass, std::span<const int> reductions, std::span<const size_t> outputs, Value at,
                          Value mask, std::span<const Value> carried) {
    Vectors vectors{.pass = pass, .at = at, .mask = mask, .known = {}};
    std::vector<Value> next;
    for (size_t i = 0; i < reductions.size(); ++i) {
      const Kind kind = term(reductions[i]).kind;
      Value x = tile(vectors, term(reductions[i]).operands[0]);
      if (mask != kNone) x = b_.select(mask, x, b_.constant(neutral(kind)));
      next.push_back(combined(kind, carried[i], x));
    }
    std::vector<Store> results;
    for (size_t i : outputs) {
      const Value result = stored(i, tile(vectors, value(code_.outputs[i].value)));
      results.push_back({i, place_in_row(code_.inputs.size() + i, at), result});
    }
    store(results, mask);
    return next;
  }

  // What is computed of one vector of a row.
  struct Vectors {
    int pass;
    Value at, mask;
    std::map<int, Value> known;
  };

  Value number(int t) {
    switch (term(t).element) {
      case Element::I32: return b_.bits(static_cast<int32_t>(term(t).bits));
      case Element::I64: return b_.long_bits(term(t).bits);
      default: return b_.constant(term(t).number());
    }
  }

  // As a vector.
  Value tile(Vectors& vectors, int t) {
    const Value x = element(vectors, t);
    if (b_.type(x).lanes > 1) return x;
    // A number, repeated.
    const Value all = b_.columns(1, isa_.lanes, b_.integer(isa_.lanes));
    return b_.type(x).element == Element::Mask ? b_.binary(Op::And, all, x) : b_.select(all, x, x);
  }

  Value element(Vectors& vectors, int t) {
    if (term(t).kind == Kind::Number) return number(t);
    const Facts& f = facts(t);
    if (!f.varies) return row_values_.at(t);
    if (auto known = vectors.known.find(t); known != vectors.known.end()) return known->second;
    Value made = kNone;
    if (term(t).kind == Kind::Input) {
      const auto input = static_cast<size_t>(term(t).input);
      made = load(input, isa_.lanes, place_in_row(input, vectors.at), vectors.mask);
    } else if (f.buffer >= 0 && f.computed_in < vectors.pass) {
      made = b_.load(vector(), place_in_buffer(f.buffer, vectors.at), b_.integer(0), vectors.mask);
    } else {
      std::vector<Value> operands;
      for (int operand : term(t).operands) operands.push_back(element(vectors, operand));
      made = term(t).function->emit(b_, math_, operands);
      if (f.buffer >= 0) b_.store(place_in_buffer(f.buffer, vectors.at), b_.integer(0), made, vectors.mask);
    }
    return vectors.known[t] = made;
  }

  DType dtype(size_t operand) const {
    const size_t count = code_.inputs.size();
    return operand < count ? code_.inputs[operand].dtype : code_.outputs[operand - count].dtype;
  }
  Value place_in_row(size_t operand, Value at) {
    return b_.offset(rows_[operand], at, static_cast<int64_t>(element_bytes(dtype(operand))));
  }
  static InMemory in_memory(DType dtype) { return dtype == DType::I8 ? InMemory::SignedByte : InMemory::UnsignedByte; }

  // Bytes as f32.
  Value load(size_t input, int lanes, Value from, Value mask = kNone) {
    const DType type = dtype(input);
    const Value no_rows = b_.integer(0);
    if (type == DType::F32) return b_.load({Element::F32, 1, 1, lanes}, from, no_rows, mask);
    if (type == DType::Bool) return b_.load({Element::Mask, 1, 1, lanes}, from, no_rows, mask);
    if (type == DType::I32) return b_.load({Element::I32, 1, 1, lanes}, from, no_rows, mask);
    if (type == DType::I64) return b_.load({Element::I64, 1, 1, lanes}, from, no_rows, mask);
    return b_.to_float(b_.load({Element::I32, 1, 1, lanes}, from, no_rows, mask, in_memory(type)));
  }
  // What is stored of a result, and how.
  Value stored(size_t output, Value x) {
    const DType type = code_.outputs[output].dtype;
    return type == DType::I8 || type == DType::U8 ? b_.to_nearest(x) : x;
  }
  struct Store {
    size_t output;
    Value to, x;
  };
  // In a row: the memory of one may be what another reads (lower_to_llvm.cc).
  void store(std::span<const Store> stores, Value mask = kNone) {
    const Value no_rows = b_.integer(0);
    for (const Store& store : stores) {
      const DType type = code_.outputs[store.output].dtype;
      const bool has_bytes = type == DType::I8 || type == DType::U8;
      b_.store(store.to, no_rows, store.x, mask, has_bytes ? in_memory(type) : InMemory::Word);
    }
  }
  Value place_in_buffer(int buffer, Value at) {
    const Value row = b_.multiply(parameters_[kBufferStride], b_.integer(buffer));
    return b_.offset(b_.offset(parameters_[kBuffers], row), at);
  }

  // Computes the numbers of the row that a pass reads for a term that varies.
  void prepare_numbers(int pass, int t) {
    if (!facts(t).varies) {
      number_of_row(t);
      return;
    }
    Facts& f = facts(t);
    if (f.prepared_for == pass || (f.buffer >= 0 && f.computed_in < pass)) return;
    f.prepared_for = pass;
    for (int operand : term(t).operands) prepare_numbers(pass, operand);
  }

  // A term that does not change along the row, single.
  Value number_of_row(int t) {
    if (term(t).kind == Kind::Number) return number(t);
    if (auto known = row_values_.find(t); known != row_values_.end()) return known->second;
    const Type single{Element::F32};
    Value made = kNone;
    switch (term(t).kind) {
      case Kind::RowSize: made = b_.load(single, parameters_[kRowSize], b_.integer(0)); break;
      case Kind::Input: {
        const auto input = static_cast<size_t>(term(t).input);
        made = load(input, 1, rows_[input]);
        break;
      }
      case Kind::Sum: {  // of what does not vary
        const Value size = b_.load(single, parameters_[kRowSize], b_.integer(0));
        made = b_.multiply(number_of_row(term(t).operands[0]), size);
        break;
      }
      case Kind::Largest:
      case Kind::LargestNumber:
      case Kind::Smallest: made = number_of_row(term(t).operands[0]); break;
      default: {
        std::vector<Value> operands;
        for (int operand : term(t).operands) operands.push_back(number_of_row(operand));
        made = term(t).function->emit(b_, math_, operands);
      }
    }
    return row_values_[t] = made;
  }

  const GroupCode& code_;
  const IsaDescription& isa_;
  Terms terms_;
  Builder b_;
  VectorMath math_;
  std::vector<Value> parameters_;
  std::vector<Operand> operands_;  // inputs, outputs
  std::vector<Facts> facts_;       // by term
  std::vector<Pass> passes_;
  int num_buffers_ = 0;
  std::vector<Value> rows_;          // by operand: where the row begins
  std::map<int, Value> row_values_;  // numbers of the row, by term
};

}  // namespace

GroupFunction group_function(const GroupCode& code) { return GroupBuilder(code).build(); }

}  // namespace anfora::codegen
