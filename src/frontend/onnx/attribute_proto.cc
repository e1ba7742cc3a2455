#include "frontend/onnx/attribute_proto.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "frontend/onnx/message.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"

namespace anfora::onnx {
namespace {

using Kind = wire::AttributeProto::AttributeType;

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
  Kind declared = Kind::UNDEFINED, found = Kind::UNDEFINED;
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
      case Field::type: declared = static_cast<Kind>(m.integer()); break;
      case Field::f: f = m.f32(), found = Kind::FLOAT; break;
      case Field::i: i = m.integer(), found = Kind::INT; break;
      case Field::s: s = m.bytes(), found = Kind::STRING; break;
      case Field::t: tensor = m.bytes(), found = Kind::TENSOR; break;
      case Field::g: a.graph = m.bytes(), found = Kind::GRAPH; break;
      case Field::sparse_tensor: sparse = m.bytes(), found = Kind::SPARSE_TENSOR; break;
      case Field::tp: type = m.bytes(), found = Kind::TYPE_PROTO; break;
      case Field::floats: append_floats(m.fixed_run(sizeof(float)), floats), found = Kind::FLOATS; break;
      case Field::ints: m.each_integer([&](int64_t v) { ints.push_back(v); }), found = Kind::INTS; break;
      case Field::strings: strings.emplace_back(m.bytes()), found = Kind::STRINGS; break;
      case Field::tensors: tensors.push_back(m.bytes()), found = Kind::TENSORS; break;
      case Field::graphs: m.skip(), found = Kind::GRAPHS; break;
      case Field::sparse_tensors: m.skip(), found = Kind::SPARSE_TENSORS; break;
      case Field::type_protos: m.skip(), found = Kind::TYPE_PROTOS; break;
      default: m.skip();
    }
  }
  if (!a.reference.empty()) return a;
  // Files before IR version 2 do not say the type.
  Kind kind = declared == Kind::UNDEFINED ? found : declared;
  switch (kind) {
    case Kind::FLOAT: a.value = f; break;
    case Kind::INT: a.value = i; break;
    case Kind::STRING: a.value = std::string(s); break;
    case Kind::TENSOR: a.value = read_tensor(tensor, source); break;
    case Kind::SPARSE_TENSOR: a.value = read_sparse_tensor(sparse, source); break;
    case Kind::TYPE_PROTO: a.value = ir::to_string(read_type(context, type)); break;
    case Kind::FLOATS: a.value = std::move(floats); break;
    case Kind::INTS: a.value = std::move(ints); break;
    case Kind::STRINGS: a.value = std::move(strings); break;
    case Kind::TENSORS: {
      std::vector<Tensor> read;
      for (std::string_view t : tensors) read.push_back(read_tensor(t, source));
      a.value = std::move(read);
      break;
    }
    case Kind::GRAPH: a.has_graph = true; break;
    case Kind::GRAPHS:
    case Kind::SPARSE_TENSORS:
    case Kind::TYPE_PROTOS: break;
    default:
      throw Error(ErrorCode::InvalidModel,
                  fmt::format("attribute '{}' has the unknown kind {}", a.name, static_cast<int>(kind)));
  }
  return a;
}

}  // namespace anfora::onnx
