#include "frontend/onnx/value_proto.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "frontend/onnx/message.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"
#include "support/element_types.h"

namespace anfora::onnx {
namespace {

// The kinds of value, by the numbers that SequenceProto and OptionalProto share.
using ValueKind = wire::SequenceProto::DataType;

Datum read_kind(std::string_view bytes, ValueKind kind, const TensorSource& source, int depth);

// The kind that a field of values belongs to; their numbers lie in the order of the kinds.
constexpr ValueKind kind_of_field(uint32_t field, uint32_t first) { return static_cast<ValueKind>(field - first + 1); }

Datum read_sequence(std::string_view bytes, const TensorSource& source, int depth) {
  using Field = wire::SequenceProto;
  std::vector<Datum> items;
  for (Message m(bytes); m.next();) {
    if (m.field() >= Field::tensor_values && m.field() <= Field::optional_values) {
      items.push_back(read_kind(m.bytes(), kind_of_field(m.field(), Field::tensor_values), source, depth));
    } else {
      m.skip();
    }
  }
  return Datum::sequence(std::move(items));
}

// A present optional is its element.
Datum read_optional(std::string_view bytes, const TensorSource& source, int depth) {
  using Field = wire::OptionalProto;
  Datum value;
  for (Message m(bytes); m.next();) {
    if (m.field() >= Field::tensor_value && m.field() <= Field::optional_value) {
      value = read_kind(m.bytes(), kind_of_field(m.field(), Field::tensor_value), source, depth);
    } else {
      m.skip();
    }
  }
  return value;
}

Datum read_map(std::string_view bytes, const TensorSource& source, int depth) {
  using Field = wire::MapProto;
  std::vector<int64_t> numbers;
  std::vector<std::string> strings;
  Datum values = Datum::sequence({});
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::keys: m.each_integer([&](int64_t key) { numbers.push_back(key); }); break;
      case Field::string_keys: strings.emplace_back(m.bytes()); break;
      case Field::values: values = read_sequence(m.bytes(), source, depth); break;
      default: m.skip();
    }
  }
  const std::vector<Datum>& items = values.items();
  Tensor keys = strings.empty() ? Tensor::vector<int64_t>(numbers) : Tensor::vector<std::string>(strings);
  if (items.size() != static_cast<size_t>(keys.size())) {
    throw Error(ErrorCode::InvalidModel, fmt::format("a map has {} keys and {} values", keys.size(), items.size()));
  }
  DType dtype = items.empty() ? DType::F32 : items[0].tensor().dtype();
  Tensor packed = Tensor::allocate(dtype, keys.shape());
  for (size_t i = 0; i < items.size(); ++i) {
    const Tensor& item = items[i].tensor();
    if (item.dtype() != dtype || item.size() != 1)
      throw Error(ErrorCode::InvalidModel, "a map's values are no scalars of one type");
    dispatch_by_size(dtype, [&]<class T>() { packed.data<T>()[i] = item.data<T>()[0]; });
  }
  return Datum::map(std::move(keys), std::move(packed));
}

Datum read_kind(std::string_view bytes, ValueKind kind, const TensorSource& source, int depth) {
  if (depth > kDeepestType) {
    throw Error(ErrorCode::InvalidModel, fmt::format("a value is nested more than {} deep", kDeepestType));
  }
  switch (kind) {
    case ValueKind::TENSOR: return read_tensor(bytes, source);
    case ValueKind::SPARSE_TENSOR: return read_sparse_tensor(bytes, source);
    case ValueKind::SEQUENCE: return read_sequence(bytes, source, depth + 1);
    case ValueKind::MAP: return read_map(bytes, source, depth + 1);
    case ValueKind::OPTIONAL: return read_optional(bytes, source, depth + 1);
    default: return Datum();
  }
}

}  // namespace

Datum read_value(std::string_view bytes, const ir::Type* type, const TensorSource& source) {
  ValueKind kind = ValueKind::TENSOR;
  if (type && type->kind() == ir::TypeKind::Sequence) kind = ValueKind::SEQUENCE;
  if (type && type->kind() == ir::TypeKind::Optional) kind = ValueKind::OPTIONAL;
  if (type && type->kind() == ir::TypeKind::Map) kind = ValueKind::MAP;
  return read_kind(bytes, kind, source, 0);
}

}  // namespace anfora::onnx
