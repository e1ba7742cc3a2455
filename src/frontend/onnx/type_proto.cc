#include "frontend/onnx/type_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <limits>

#include "anfora/error.h"
#include "frontend/onnx/message.h"
#include "frontend/onnx/wire.h"

namespace anfora::onnx {
namespace {

using Dims = boost::container::small_vector<ir::Dim, 6>;

DType checked_dtype(int64_t number) {
  if (number < 0 || number >= kDTypeCount) {
    throw Error(ErrorCode::Unsupported, fmt::format("unknown element type {}", number));
  }
  return static_cast<DType>(number);
}

bool equal_in_any_case(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, {},
                            [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
}

// Whether an exporter wrote the name only because it knew nothing of the dimension. Such a name says of no two dimensions that
// they are equal. PaddlePaddle calls all of them `?`; `-1`, `*` and the like have no letter either.
bool says_nothing(std::string_view name) {
  static constexpr std::string_view kWords[] = {"none",    "null", "nil", "nan",     "unk",
                                                "unknown", "any",  "dyn", "dynamic", "undefined"};
  bool has_letter = std::ranges::any_of(name, [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
  });
  return !has_letter || std::ranges::any_of(kWords, [&](auto word) { return equal_in_any_case(name, word); });
}

ir::Dim read_dimension(ir::Context& context, std::string_view bytes) {
  using Field = wire::TensorShapeProto::Dimension;
  ir::Dim dim = context.dims().unknown();
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::dim_value: {
        int64_t value = m.integer();
        dim = value < 0 ? context.dims().unknown() : context.dims().constant(value);
        break;
      }
      case Field::dim_param: {
        std::string_view name = m.bytes();
        dim = says_nothing(name) ? context.dims().unknown() : context.dims().symbol(name);
        break;
      }
      default: m.skip();
    }
  }
  return dim;
}

// TypeProto.Tensor; TypeProto.SparseTensor has the same fields.
const ir::Type* read_tensor_type(ir::Context& context, std::string_view bytes) {
  using Field = wire::TypeProto::Tensor;
  DType dtype = DType::Undefined;
  bool ranked = false;
  Dims dims;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::elem_type: dtype = checked_dtype(m.integer()); break;
      case Field::shape:
        ranked = true;
        dims.clear();
        for (Message shape(m.bytes()); shape.next();) {
          if (shape.field() == wire::TensorShapeProto::dim) {
            dims.push_back(read_dimension(context, shape.bytes()));
          } else {
            shape.skip();
          }
        }
        break;
      default: m.skip();
    }
  }
  return ranked ? context.tensor_type(dtype, std::span<const ir::Dim>(dims.data(), dims.size()))
                : context.unranked_type(dtype);
}

// A tensor type as the element of a sequence, whose tensors may differ in what the model gives one name.
const ir::Type* without_symbols(ir::Context& context, const ir::Type* type) {
  if (!type->is_tensor() || !type->has_rank()) return type;
  Dims dims;
  for (ir::Dim dim : type->dims()) dims.push_back(dim.is_constant() ? dim : context.dims().unknown());
  return context.tensor_type(type->dtype(), std::span<const ir::Dim>(dims.data(), dims.size()));
}

const ir::Type* read_nested(ir::Context& context, std::string_view bytes, int depth) {
  if (depth > kDeepestType) {
    throw Error(ErrorCode::InvalidModel, fmt::format("a type is nested more than {} deep", kDeepestType));
  }
  const ir::Type* any = context.unranked_type(DType::Undefined);
  // Sequence and Optional have the element as their only field, of one number.
  auto element_of = [&](std::string_view nested) {
    const ir::Type* element = any;
    for (Message m(nested); m.next();) {
      if (m.field() == wire::TypeProto::Sequence::elem_type) {
        element = read_nested(context, m.bytes(), depth + 1);
      } else {
        m.skip();
      }
    }
    return element;
  };
  auto map_of = [&](std::string_view nested) {
    DType key = DType::I64;
    const ir::Type* value = any;
    for (Message m(nested); m.next();) {
      switch (m.field()) {
        case wire::TypeProto::Map::key_type: key = checked_dtype(m.integer()); break;
        case wire::TypeProto::Map::value_type: value = read_nested(context, m.bytes(), depth + 1); break;
        default: m.skip();
      }
    }
    return context.map_type(context.tensor_type(key, std::span<const int64_t>()), value);
  };

  const ir::Type* type = any;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case wire::TypeProto::tensor_type:
      case wire::TypeProto::sparse_tensor_type: type = read_tensor_type(context, m.bytes()); break;
      case wire::TypeProto::sequence_type:
        type = context.sequence_type(without_symbols(context, element_of(m.bytes())));
        break;
      case wire::TypeProto::optional_type: type = context.optional_type(element_of(m.bytes())); break;
      case wire::TypeProto::map_type: type = map_of(m.bytes()); break;
      default: m.skip();
    }
  }
  return type;
}

void write_tensor_type(protozero::pbf_writer& writer, const ir::Type* type) {
  using Field = wire::TypeProto::Tensor;
  writer.add_int32(Field::elem_type, static_cast<int32_t>(type->dtype()));
  if (!type->has_rank()) return;
  // Serialized apart: a nested writer drops a message that stays empty, but a scalar's shape and an unknown dimension
  // are empty messages that say something.
  std::string shape;
  protozero::pbf_writer dims(shape);
  for (ir::Dim dim : type->dims()) {
    using Dimension = wire::TensorShapeProto::Dimension;
    std::string entry;
    protozero::pbf_writer value(entry);
    if (dim.is_constant()) {
      value.add_int64(Dimension::dim_value, dim.constant());
    } else if (!dim.is_unknown()) {
      value.add_string(Dimension::dim_param, dim.is_symbol() ? std::string(dim.symbol_name()) : ir::to_string(dim));
    }
    dims.add_message(wire::TensorShapeProto::dim, entry);
  }
  writer.add_message(Field::shape, shape);
}

}  // namespace

const ir::Type* without_names(ir::Context& context, const ir::Type* type, const DimNames& names) {
  if (names.empty() || !type || !type->is_tensor() || !type->has_rank()) return type;
  Dims dims;
  for (ir::Dim dim : type->dims()) {
    dims.push_back(dim.is_symbol() && names.contains(dim.symbol_name()) ? context.dims().unknown() : dim);
  }
  return context.tensor_type(type->dtype(), std::span<const ir::Dim>(dims.data(), dims.size()));
}

const ir::Type* read_type(ir::Context& context, std::string_view bytes) { return read_nested(context, bytes, 0); }

static ValueInfo read_value_info(ir::Context* context, std::string_view bytes) {
  ValueInfo info;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case wire::ValueInfoProto::name: info.name = m.bytes(); break;
      case wire::ValueInfoProto::type:
        if (context) {
          info.type = read_type(*context, m.bytes());
        } else {
          m.skip();
        }
        break;
      case wire::ValueInfoProto::doc_string: info.doc = m.bytes(); break;
      case wire::ValueInfoProto::metadata_props: info.properties.push_back(m.bytes()); break;
      default: m.skip();
    }
  }
  return info;
}
ValueInfo read_value_info(ir::Context& context, std::string_view bytes) { return read_value_info(&context, bytes); }
ValueInfo read_value_info(std::string_view bytes) { return read_value_info(nullptr, bytes); }

void write_type(protozero::pbf_writer& writer, const ir::Type* type) {
  switch (type->kind()) {
    case ir::TypeKind::Tensor: {
      protozero::pbf_writer tensor(writer, wire::TypeProto::tensor_type);
      write_tensor_type(tensor, type);
      return;
    }
    case ir::TypeKind::Sequence:
    case ir::TypeKind::Optional: {
      bool is_sequence = type->kind() == ir::TypeKind::Sequence;
      protozero::pbf_writer outer(writer,
                                  is_sequence ? wire::TypeProto::sequence_type : wire::TypeProto::optional_type);
      protozero::pbf_writer element(outer, wire::TypeProto::Sequence::elem_type);
      write_type(element, type->element());
      return;
    }
    case ir::TypeKind::Map: {
      protozero::pbf_writer map(writer, wire::TypeProto::map_type);
      map.add_int32(wire::TypeProto::Map::key_type, static_cast<int32_t>(type->element(0)->dtype()));
      protozero::pbf_writer value(map, wire::TypeProto::Map::value_type);
      write_type(value, type->element(1));
      return;
    }
    default: throw Error(ErrorCode::Unsupported, fmt::format("ONNX has no type {}", ir::to_string(type)));
  }
}

void write_value_info(protozero::pbf_writer& writer, std::string_view name, const ir::Type* type,
                      const ir::Annotation* annotation) {
  using Field = wire::ValueInfoProto;
  writer.add_string(Field::name, name.data(), name.size());
  if (type) {
    protozero::pbf_writer nested(writer, Field::type);
    write_type(nested, type);
  }
  write_annotation(writer, Field::doc_string, Field::metadata_props, annotation);
}

ir::Annotation read_annotation(std::string_view doc, std::span<const std::string_view> properties) {
  ir::Annotation annotation{.name = {}, .doc = std::string(doc), .properties = {}};
  for (std::string_view property : properties) annotation.properties.emplace_back(read_entry(property));
  return annotation;
}

void write_annotation(protozero::pbf_writer& writer, uint32_t doc_field, uint32_t properties_field,
                      const ir::Annotation* annotation) {
  if (!annotation) return;
  if (!annotation->doc.empty()) writer.add_string(doc_field, annotation->doc);
  for (const auto& [key, value] : annotation->properties) write_entry(writer, properties_field, key, value);
}

void write_entry(protozero::pbf_writer& writer, uint32_t field, std::string_view key, std::string_view value) {
  protozero::pbf_writer entry(writer, field);
  entry.add_string(wire::StringStringEntryProto::key, key.data(), key.size());
  entry.add_string(wire::StringStringEntryProto::value, value.data(), value.size());
}

}  // namespace anfora::onnx
