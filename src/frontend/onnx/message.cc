#include "frontend/onnx/message.h"

#include <fmt/format.h>

#include "frontend/onnx/wire.h"

namespace anfora::onnx {

void Message::corrupt(const char* what) {
  throw Error(ErrorCode::InvalidModel, fmt::format("the protobuf is corrupt: {}", what))
      .with_hint("the file is damaged, truncated, or no ONNX file");
}

void Message::wrong_wire_type() const {
  throw Error(ErrorCode::InvalidModel, fmt::format("the protobuf is corrupt: field {} has wire type {}", reader_.tag(),
                                                   static_cast<int>(reader_.wire_type())))
      .with_hint("the file is damaged, truncated, or no ONNX file");
}

std::string_view Message::fixed_run(size_t element_bytes) {
  using protozero::pbf_wire_type;
  pbf_wire_type single = element_bytes == 4 ? pbf_wire_type::fixed32 : pbf_wire_type::fixed64;
  if (reader_.wire_type() == single) {
    const char* at = reader_.data().data();
    skip();
    return {at, element_bytes};
  }
  std::string_view run = bytes();
  if (run.size() % element_bytes != 0) corrupt("a packed field is not a whole number of elements");
  return run;
}

std::pair<std::string_view, std::string_view> read_entry(std::string_view bytes) {
  std::pair<std::string_view, std::string_view> entry;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case wire::StringStringEntryProto::key: entry.first = m.bytes(); break;
      case wire::StringStringEntryProto::value: entry.second = m.bytes(); break;
      default: m.skip();
    }
  }
  return entry;
}

}  // namespace anfora::onnx
