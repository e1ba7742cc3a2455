#include "codegen/strassen.h"

#include <array>
#include <vector>

#include "codegen/epilogue.h"
#include "codegen/product.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;

class StrassenBuilder {
 public:
  StrassenBuilder(const StrassenCode& code, std::string name, std::span<const Parameter> parameters)
      : code_(code), isa_(describe(code.isa)), b_(std::move(name)) {
    for (const Parameter& parameter : parameters) parameters_.push_back(b_.parameter(parameter.name, parameter.element));
  }

  Function magnitudes() {
    b_.loop(0, parameters_[kMagnitudeRows], [&](Value row) {
      const Value from = row_of(kMagnitudesOf, row, parameters_[kMagnitudeStride]);
      const std::vector<Type> types{{Element::I32, 1, 1, isa_.lanes}};
      const std::vector<Value> largest = b_.loop(0, parameters_[kMagnitudeVectors], 1, types, std::array{b_.bits(0)}, [&](Value vector, std::span<const Value> carried) {
        const Value column = b_.multiply(vector, b_.integer(isa_.lanes)), mask = columns_from(parameters_[kMagnitudeColumns], column);
        const Value x = b_.multiply(load(b_.offset(from, column), mask), load(b_.offset(parameters_[kMagnitudeSteps], column)));
        constexpr int32_t kWithoutSign = 0x7fffffff;
        return std::vector{b_.maximum(carried[0], b_.binary(Op::And, b_.as_bits(x), b_.bits(kWithoutSign)))};
      });
      b_.store(b_.offset(parameters_[kMagnitudes], b_.multiply(row, b_.integer(isa_.lanes))), b_.integer(0), largest[0]);
    });
    return b_.finish();
  }

  Function operands() {
    b_.loop(0, parameters_[kRowCount], [&](Value row) {
      const Value upper = row_of(kUpper, row, parameters_[kRowStride]), lower = row_of(kLower, row, parameters_[kRowStride]);
      const Value to = row_of(kOperands, row, parameters_[kOperandStride]);
      const Value of_upper = factor(kUpperFactors, row), of_lower = factor(kLowerFactors, row);
      const Value half = b_.multiply(parameters_[kHalfVectors], b_.integer(isa_.lanes));
      b_.loop(0, parameters_[kHalfVectors], [&](Value vector) {
        const Value column = b_.multiply(vector, b_.integer(isa_.lanes)), other = b_.add(half, column);
        const Value mask = columns_from(parameters_[kSecondColumns], column);
        const Value steps = load(b_.offset(parameters_[kStepFactors], column)), other_steps = load(b_.offset(parameters_[kStepFactors], other));
        auto balanced = [&](Value x, Value by, Value by_row) { return b_.multiply(b_.multiply(x, by), by_row); };
        const Value a11 = balanced(load(b_.offset(upper, column)), steps, of_upper), a12 = balanced(load(b_.offset(upper, other), mask), other_steps, of_upper),
                    a21 = balanced(load(b_.offset(lower, column)), steps, of_lower), a22 = balanced(load(b_.offset(lower, other), mask), other_steps, of_lower);
        const Value s1 = b_.add(a21, a22), s2 = b_.subtract(s1, a11), s3 = b_.subtract(a21, a11), s4 = b_.subtract(a12, s2);
        Value place = b_.offset(to, column);
        for (const Value operand : {a11, a12, s4, a22, s1, s2, s3}) {
          b_.store(place, b_.integer(0), operand);
          place = b_.offset(place, parameters_[kOperandDistance]);
        }
      });
    });
    return b_.finish();
  }

  Function finish() {
    auto finish_rows = [&](Value mask) {
      b_.loop(0, parameters_[kLowerRows], [&](Value row) { finish_row(row, mask, true); });
      b_.loop(0, parameters_[kRowsMore], [&](Value more) { finish_row(b_.add(parameters_[kLowerRows], more), mask, false); });
    };
    finish_panel(b_, isa_, code_.tile.vectors, parameters_[kRightColumns], finish_rows);
    return b_.finish();
  }

 private:
  Type panel_row() const { return {Element::F32, 1, code_.tile.vectors, isa_.lanes}; }

  // `mask`: of the right panel.
  void finish_row(Value row, Value mask, bool has_lower) {
    const Value offset = b_.multiply(row, b_.integer(code_.panel_columns()));
    std::array<Value, kStrassenProducts> p;
    for (int i = 0; i < kStrassenProducts; ++i) p[static_cast<size_t>(i)] = b_.load(panel_row(), b_.offset(parameters_[static_cast<size_t>(kFirstSums + i)], offset), b_.integer(0));
    const auto& [p1, p2, p3, p4, p5, p6, p7] = p;
    const Value common = b_.add(p1, p6);
    finish_quarter(b_.add(p1, p2), row, false, false, kNone);
    finish_quarter(b_.add(b_.add(common, p5), p3), row, false, true, mask);
    if (!has_lower) return;
    const Value of_lower = b_.add(common, p7);
    finish_quarter(b_.add(of_lower, p4), row, true, false, kNone);
    finish_quarter(b_.add(of_lower, p5), row, true, true, mask);
  }

  void finish_quarter(Value sum, Value row, bool is_lower, bool is_right, Value mask) {
    const Value of_columns = b_.load(panel_row(), parameters_[is_right ? kRightFactors : kLeftFactors], b_.integer(0));
    const Value y = b_.multiply(b_.multiply(sum, factor(is_lower ? kLowerRowFactors : kUpperRowFactors, row)), of_columns);
    const Value of_result = is_lower ? b_.add(row, parameters_[kToLower]) : row;
    auto place = [&](int argument, Addend kind) {
      const Value of_panel = is_right ? b_.offset(parameters_[static_cast<size_t>(argument)], parameters_[kToRight]) : parameters_[static_cast<size_t>(argument)];
      return kind == Addend::Row ? of_panel : b_.offset(of_panel, b_.multiply(of_result, parameters_[static_cast<size_t>(argument) + 1]));
    };
    std::array<AddendAt, 2> addends{};
    for (size_t i = 0; i < addends.size(); ++i) {
      if (code_.epilogue.addends[i] != Addend::None) addends[i] = {place(kFinishedAddend0 + 2 * static_cast<int>(i), code_.epilogue.addends[i]), b_.integer(0)};
    }
    b_.store(place(kFinished, Addend::Tile), b_.integer(0), finish_tile(b_, isa_, code_.epilogue, y, addends, mask), mask);
  }

  Value row_of(int argument, Value row, Value stride) { return b_.offset(parameters_[static_cast<size_t>(argument)], b_.multiply(row, stride)); }
  Value factor(int argument, Value row) { return b_.load({Element::F32}, b_.offset(parameters_[static_cast<size_t>(argument)], row), b_.integer(0)); }
  Value load(Value pointer, Value mask = kNone) { return b_.load({Element::F32, 1, 1, isa_.lanes}, pointer, b_.integer(0), mask); }
  Value columns_from(Value columns, Value column) { return b_.columns(1, isa_.lanes, b_.subtract(columns, column)); }

  const StrassenCode& code_;
  const IsaDescription& isa_;
  Builder b_;
  std::vector<Value> parameters_;
};

constexpr Element kPointer = Element::Pointer, kIndex = Element::Index;

}  // namespace

Function strassen_function(const StrassenCode& code, int entry) {
  const StrassenEntries entries{code.tile.rows};
  if (entry == entries.magnitudes()) {
    const Parameter parameters[kMagnitudeArguments] = {{"a", kPointer}, {"a_stride", kIndex}, {"rows", kIndex}, {"columns", kIndex}, {"vectors", kIndex}, {"steps", kPointer}, {"magnitudes", kPointer}};
    return StrassenBuilder(code, "strassen_magnitudes", parameters).magnitudes();
  }
  if (entry == entries.operands()) {
    const Parameter parameters[kStrassenOperandArguments] = {{"upper", kPointer},         {"lower", kPointer},         {"a_stride", kIndex}, {"rows", kIndex},
                                                             {"half_vectors", kIndex},    {"second_columns", kIndex},  {"steps", kPointer},  {"upper_factors", kPointer},
                                                             {"lower_factors", kPointer}, {"operands", kPointer},      {"stride", kIndex},   {"distance", kIndex}};
    return StrassenBuilder(code, "strassen_operands", parameters).operands();
  }
  if (entry == entries.finish()) {
    const Parameter parameters[kFinishArguments] = {{"p1", kPointer},          {"p2", kPointer},          {"p3", kPointer},       {"p4", kPointer},        {"p5", kPointer},
                                                    {"p6", kPointer},          {"p7", kPointer},          {"lower_rows", kIndex}, {"rows_more", kIndex},   {"upper_factors", kPointer},
                                                    {"lower_factors", kPointer}, {"left_factors", kPointer}, {"right_factors", kPointer}, {"y", kPointer},     {"y_stride", kIndex},
                                                    {"to_lower", kIndex},      {"to_right", kIndex},      {"right_columns", kIndex}, {"addend0", kPointer}, {"addend0_stride", kIndex},
                                                    {"addend1", kPointer},     {"addend1_stride", kIndex}};
    return StrassenBuilder(code, "strassen_finish", parameters).finish();
  }
  const bool forms_weights = entry > code.tile.rows;
  return product_function(code.product(forms_weights), forms_weights ? entry - code.tile.rows : entry);
}

}  // namespace anfora::codegen
