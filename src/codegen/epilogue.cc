#include "codegen/epilogue.h"

#include <array>
#include <cstddef>

#include "codegen/expression.h"

namespace anfora::codegen {

Value multiply_add(Builder& builder, const IsaDescription& isa, Value a, Value b, Value c) {
  return VectorMath(builder, isa).fma(a, b, c);
}

Value finish_tile(Builder& builder, const IsaDescription& isa, const kernels::generated::Epilogue& epilogue, Value tile,
                  std::span<const AddendAt, 2> addends, Value mask) {
  using kernels::generated::Addend;
  if (epilogue.scale != 1) tile = builder.multiply(tile, builder.constant(epilogue.scale));
  for (size_t i = 0; i < epilogue.addends.size(); ++i) {
    if (epilogue.addends[i] == Addend::None) continue;
    Type type = builder.type(tile);
    if (epilogue.addends[i] == Addend::Row) type.rows = 1;
    tile = builder.add(tile, builder.load(type, addends[i].pointer, addends[i].row_stride, mask));
  }
  return activate(builder, isa, epilogue, tile);
}

void finish_panel(Builder& builder, const IsaDescription& isa, int vectors, Value left, const std::function<void(Value mask)>& finish) {
  auto at_edge = [&] { finish(builder.columns(vectors, isa.lanes, left)); };
  if (isa.has_masks) return at_edge();
  builder.choose(builder.less(left, builder.integer(int64_t{vectors} * isa.lanes)), at_edge, [&] { finish(kNone); });
}

void store_finished(Builder& builder, const kernels::generated::Epilogue& epilogue, Value sums, Value pointer, Value row_stride, Value mask,
                    const std::function<Value(Value row, Value tile)>& finish) {
  Type type = builder.type(sums);
  if (type.rows == 1 || !is_costly(epilogue.activation))
    return builder.store(pointer, row_stride, finish(builder.integer(0), sums), mask);
  builder.store(pointer, row_stride, sums, mask);
  const Value rows = builder.integer(type.rows);
  type.rows = 1;
  builder.loop(0, rows, [&](Value row) {
    const Value at = builder.offset(pointer, builder.multiply(row, row_stride));
    builder.store(at, row_stride, finish(row, builder.load(type, at, row_stride, mask)), mask);
  });
}

namespace {

using kernels::generated::Quantization;

InMemory as_bytes(DType dtype) { return dtype == DType::I8 ? InMemory::SignedByte : InMemory::UnsignedByte; }

// A Quantization in memory.
class Quantizer {
 public:
  Quantizer(Builder& builder, Value pointer) : builder_(builder), pointer_(pointer) {}

  Value number(size_t offset, Element element = Element::F32) const {
    return builder_.load({element}, builder_.offset(pointer_, builder_.integer(static_cast<int64_t>(offset)), 1), builder_.integer(0));
  }
  // Integers between the limits at that offset.
  Value rounded(Value tile, size_t limits) const {
    tile = builder_.maximum(tile, number(limits + offsetof(Quantization::Limits, lowest)));
    tile = builder_.minimum(tile, number(limits + offsetof(Quantization::Limits, highest)));
    return builder_.to_nearest(tile);
  }

 private:
  Builder& builder_;
  Value pointer_;
};

}  // namespace

Value divide_by_scale(Builder& builder, Value tile, Value quantization) {
  return builder.divide(tile, Quantizer(builder, quantization).number(offsetof(Quantization, scale)));
}

Value add_residual(Builder& builder, Value tile, DType dtype, Value residual, Value row_stride, Value mask, Value quantization) {
  using Sum = Quantization::Sum;
  constexpr size_t kSum = offsetof(Quantization, sum);
  const Quantizer quantizer(builder, quantization);
  tile = builder.to_float(quantizer.rounded(tile, kSum + offsetof(Sum, of_y)));
  Type type = builder.type(tile);
  type.element = Element::I32;
  const Value bytes = builder.load(type, residual, row_stride, mask, as_bytes(dtype));
  const Value added = builder.to_float(builder.subtract(bytes, quantizer.number(kSum + offsetof(Sum, zero_point), Element::I32)));
  return builder.add(builder.multiply(tile, quantizer.number(kSum + offsetof(Sum, y_factor))),
                     builder.multiply(added, quantizer.number(kSum + offsetof(Sum, factor))));
}

void store_as(Builder& builder, DType dtype, Value pointer, Value index, Value row_stride, Value tile, Value mask, Value quantization) {
  if (dtype == DType::F32) return builder.store(builder.offset(pointer, index), row_stride, tile, mask);
  const Quantizer quantizer(builder, quantization);
  tile = builder.add(quantizer.rounded(tile, offsetof(Quantization, limits)), quantizer.number(offsetof(Quantization, zero_point), Element::I32));
  builder.store(builder.offset(pointer, index, 1), row_stride, tile, mask, as_bytes(dtype));
}

Value activate(Builder& builder, const IsaDescription& isa, const kernels::generated::Epilogue& epilogue, Value x) {
  const Terms terms = parse_statements(1, std::array{activation_statement(epilogue)});
  VectorMath math(builder, isa);
  std::vector<Value> values;
  for (const Term& term : terms.all) {
    if (term.kind == Term::Kind::Input) {
      values.push_back(x);
    } else if (term.kind == Term::Kind::Number) {
      values.push_back(builder.constant(term.number()));
    } else {
      std::vector<Value> operands;
      for (int operand : term.operands) operands.push_back(values[static_cast<size_t>(operand)]);
      values.push_back(term.function->emit(builder, math, operands));
    }
  }
  return values[static_cast<size_t>(terms.values.back())];
}

}  // namespace anfora::codegen
