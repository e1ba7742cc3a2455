#include "frontend/onnx/attribute_proto.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "frontend/onnx/message.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"

namespace anfora::onnx {
namespace {

using AttributeKind = wire::AttributeProto::AttributeType;

void append_floats(std::string_view run, std::vector<float>& to) {
  size_t old = to.size();
  to.resize(old + run.size() / sizeof(float));
  if (!run.empty()) std::memcpy(to.data() + old, run.data(), run.size());
}

}  // namespace

std::string_view read_attribute_name(std::string_view bytes) {
  std::string_view name;
  for (Message m(bytes); m.next();) {
    if (m.field() == wire::AttributeProto::name) {
      name = m.bytes();
    } else {
      m.skip();
    }
  }
  return name;
}

FileAttribute read_attribute(ir::Context& context, std::string_view bytes, const TensorSource& source) {
  using Field = wire::AttributeProto;
  FileAttribute a;
  a.bytes = bytes;
  AttributeKind declared = AttributeKind::UNDEFINED, found = AttributeKind::UNDEFINED;
  int64_t i = 0;
  float f = 0;
  std::string_view s, tensor, sparse, type;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  std::vector<std::string_view> tensors;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::name: a.name = m.bytes(); break;
      case Field::ref_attr_name: a.reference = m.bytes(); break;
      case Field::type: declared = static_cast<AttributeKind>(m.integer()); break;
      case Field::f: f = m.f32(), found = AttributeKind::FLOAT; break;
      case Field::i: i = m.integer(), found = AttributeKind::INT; break;
      case Field::s: s = m.bytes(), found = AttributeKind::STRING; break;
      case Field::t: tensor = m.bytes(), found = AttributeKind::TENSOR; break;
      case Field::g: a.graph = m.bytes(), found = AttributeKind::GRAPH; break;
      case Field::sparse_tensor: sparse = m.bytes(), found = AttributeKind::SPARSE_TENSOR; break;
      case Field::tp: type = m.bytes(), found = AttributeKind::TYPE_PROTO; break;
      case Field::floats: append_floats(m.fixed_run(sizeof(float)), floats), found = AttributeKind::FLOATS; break;
      case Field::ints: m.each_integer([&](int64_t v) { ints.push_back(v); }), found = AttributeKind::INTS; break;
      case Field::strings: strings.emplace_back(m.bytes()), found = AttributeKind::STRINGS; break;
      case Field::tensors: tensors.push_back(m.bytes()), found = AttributeKind::TENSORS; break;
      case Field::graphs: m.skip(), found = AttributeKind::GRAPHS; break;
      case Field::sparse_tensors: m.skip(), found = AttributeKind::SPARSE_TENSORS; break;
      case Field::type_protos: m.skip(), found = AttributeKind::TYPE_PROTOS; break;
      default: m.skip();
    }
  }
  if (!a.reference.empty()) return a;
  // Files before IR version 2 do not say the type.
  AttributeKind kind = declared == AttributeKind::UNDEFINED ? found : declared;
  switch (kind) {
    case AttributeKind::FLOAT: a.value = f; break;
    case AttributeKind::INT: a.value = i; break;
    case AttributeKind::STRING: a.value = std::string(s); break;
    case AttributeKind::TENSOR: a.value = read_tensor(tensor, source); break;
    case AttributeKind::SPARSE_TENSOR: a.value = read_sparse_tensor(sparse, source); break;
    case AttributeKind::TYPE_PROTO: a.value = ir::to_string(read_type(context, type)); break;
    case AttributeKind::FLOATS: a.value = std::move(floats); break;
    case AttributeKind::INTS: a.value = std::move(ints); break;
    case AttributeKind::STRINGS: a.value = std::move(strings); break;
    case AttributeKind::TENSORS: {
      std::vector<Tensor> read;
      for (std::string_view t : tensors) read.push_back(read_tensor(t, source));
      a.value = std::move(read);
      break;
    }
    case AttributeKind::GRAPH: a.has_graph = true; break;
    case AttributeKind::GRAPHS:
    case AttributeKind::SPARSE_TENSORS:
    case AttributeKind::TYPE_PROTOS: break;
    default:
      throw Error(ErrorCode::InvalidModel,
                  fmt::format("attribute '{}' has the unknown kind {}", a.name, static_cast<int>(kind)));
  }
  return a;
}

}  // namespace anfora::onnx
