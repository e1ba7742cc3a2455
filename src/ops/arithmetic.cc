#include "ops/elementary.h"
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

bool is_index_dtype(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }

// Broadcasts the types; shape arithmetic, in i64 or i32, also computes the elements.
template <ElementFunction Function>
void infer_index_arithmetic(InferenceContext& ctx) {
  infer_broadcast(ctx);
  if (is_index_dtype(ctx.dtype(0))) combine_elements(ctx, Function);
}

Dim sum(const InferenceContext&, Dim a, Dim b) { return a + b; }
Dim difference(const InferenceContext&, Dim a, Dim b) { return a - b; }
Dim product(const InferenceContext&, Dim a, Dim b) { return a * b; }
// ONNX's Div truncates, which is floor_div where neither operand is negative.
Dim quotient(const InferenceContext& ctx, Dim a, Dim b) {
  if (auto exact = b.as_constant() == 0 ? std::nullopt : divide_exactly(a, b)) return *exact;
  return a.range().low >= 0 && b.range().low > 0 ? floor_div(a, b) : ctx.unknown();
}
Dim remainder(const InferenceContext& ctx, Dim a, Dim b) {
  const bool truncating = ctx.attribute_int("fmod") != 0 && a.range().low < 0;
  return b.range().low > 0 && !truncating ? mod(a, b) : ctx.unknown();
}

template <Dim (*Function)(Dim, Dim)>
void infer_extremum(InferenceContext& ctx) {
  infer_broadcast(ctx);
  if (!is_index_dtype(ctx.dtype(0))) return;
  if (ctx.num_inputs() == 1) return infer_same(ctx);
  if (ctx.num_inputs() == 2) {
    combine_elements(ctx, [](const InferenceContext&, Dim a, Dim b) { return Function(a, b); });
  }
}

Declaration binary(Declarations& declare, const char* name, int since, const char* doc, std::vector<DType> dtypes) {
  return declare.op(name, since)
      .doc(doc)
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", std::move(dtypes))
      .infer(infer_broadcast)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Broadcast)
      .in_place({0, 1});
}

// One less than there are inputs.
double flops_of_accumulation(const InferenceContext& ctx) {
  return (static_cast<double>(ctx.num_inputs()) - 1) * element_estimate(ctx.output(0));
}
double mean_flops(const InferenceContext& ctx) { return flops_of_accumulation(ctx) + element_estimate(ctx.output(0)); }

Declaration variadic(Declarations& declare, const char* name, const char* output, const char* doc,
                     std::vector<DType> dtypes) {
  return declare.op(name, 13)
      .doc(doc)
      .variadic_input("data_0", "T")
      .output(output, "T")
      .type("T", std::move(dtypes))
      .infer(infer_broadcast)
      .flops(flops_of_accumulation)
      .fusion(FusionKind::Broadcast)
      .in_place({0, 1});
}

}  // namespace

void declare_arithmetic(Declarations& declare) {
  binary(declare, "Add", 14, "A + B. Integers wrap around.", kNumbers).infer(infer_index_arithmetic<sum>)
      .commutative().associative().range(range_of_sum).total().whole(Whole::OfWhole).odd().scales().keeps_nan().piecewise(PiecewiseOp::Add);
  binary(declare, "Sub", 14, "A − B. Integers wrap around.", kNumbers).infer(infer_index_arithmetic<difference>)
      .range(range_of_difference).total().whole(Whole::OfWhole).odd().scales().keeps_nan().piecewise(PiecewiseOp::Sub);
  binary(declare, "Mul", 14, "A · B. Integers wrap around.", kNumbers).infer(infer_index_arithmetic<product>)
      .commutative().associative().range(range_of_product).total().whole(Whole::OfWhole).keeps_nan().piecewise(PiecewiseOp::Mul);
  binary(declare, "Div", 14, "A / B; integers truncate towards zero, and a zero divisor is an error.", kNumbers)
      .infer(infer_index_arithmetic<quotient>)
      .fails(Fails::OnZero).range(range_of_quotient).keeps_nan().piecewise(PiecewiseOp::Div);
  binary(declare, "Mod", 28, "The remainder of A / B: with the sign of B, or with fmod=1 with the sign of A.", kNumbers)
      .attribute("fmod", 0)
      .infer(infer_index_arithmetic<remainder>)
      .fails(Fails::OnZero);
  declare.op("Pow", 15)
      .doc("X to the power Y, in X's type.")
      .input("X", "T")
      .input("Y", "T1")
      .output("Z", "T")
      .type("T", kFloats | std::vector{DType::I32, DType::I64})
      .type("T1", kNumbers)
      .infer(infer_broadcast)
      .flops(power_flops)
      .fusion(FusionKind::Broadcast)
      .in_place()
      .range(range_of_power);
  variadic(declare, "Max", "max", "The largest of the inputs' elements; NaN if any is NaN.", kNumbers)
      .infer(infer_extremum<ir::max>)
      .commutative().associative().range(range_of_maximum).whole(Whole::OfWhole).mirror("Min").scales().keeps_nan().piecewise(PiecewiseOp::Max);
  variadic(declare, "Min", "min", "The smallest of the inputs' elements; NaN if any is NaN.", kNumbers)
      .infer(infer_extremum<ir::min>)
      .commutative().associative().range(range_of_minimum).whole(Whole::OfWhole).mirror("Max").scales().keeps_nan().piecewise(PiecewiseOp::Min);
  variadic(declare, "Sum", "sum", "The sum of the inputs.", kFloats)
      .commutative().total().odd().scales();
  variadic(declare, "Mean", "mean", "The mean of the inputs.", kFloats).flops(mean_flops)
      .commutative().odd().scales();
  declare.op("BitShift", 28)
      .doc("X shifted by Y bits to the LEFT or RIGHT (arithmetic for signed types).")
      .input("X", "T")
      .input("Y", "T")
      .output("Z", "T")
      .type("T", kIntegers)
      .required_attribute("direction", AttributeKind::String)
      .infer(infer_broadcast)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Broadcast)
      .in_place({0, 1});
  binary(declare, "BitwiseAnd", 18, "A and B, bit by bit.", kIntegers)
      .commutative().associative();
  binary(declare, "BitwiseOr", 18, "A or B, bit by bit.", kIntegers)
      .commutative().associative();
  binary(declare, "BitwiseXor", 18, "A exclusive-or B, bit by bit.", kIntegers)
      .commutative().associative();
  declare.op("BitwiseNot", 18)
      .doc("X with every bit inverted.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kIntegers)
      .infer(infer_same_type)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Elementwise)
      .in_place();
}

}  // namespace anfora::ops
