// A protobuf message that is read field by field from memory that nobody has checked: protozero, with every wire type
// verified before a value is read and every defect thrown as Error(InvalidModel).
//
//     for (Message node(bytes); node.next();) {
//       switch (node.field()) {
//         case wire::NodeProto::name: name = node.bytes(); break;
//         default: node.skip();
//       }
//     }
//
// Nothing is copied: bytes() is a view on the memory of the message.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <utility>

#include "anfora/error.h"

namespace anfora::onnx {

class Message {
 public:
  explicit Message(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}

  // Moves to the next field; false at the end. The value of the present field must have been read or skipped.
  bool next() {
    try {
      return reader_.next();
    } catch (const protozero::exception& e) {
      corrupt(e.what());
    }
  }
  uint32_t field() const { return reader_.tag(); }
  void skip() {
    try {
      reader_.skip();
    } catch (const protozero::exception& e) {
      corrupt(e.what());
    }
  }

  std::string_view bytes() {
    require(protozero::pbf_wire_type::length_delimited);
    try {
      protozero::data_view view = reader_.get_view();
      return {view.data(), view.size()};
    } catch (const protozero::exception& e) {
      corrupt(e.what());
    }
  }
  int64_t integer() {
    require(protozero::pbf_wire_type::varint);
    try {
      return reader_.get_int64();
    } catch (const protozero::exception& e) {
      corrupt(e.what());
    }
  }
  float f32() {
    require(protozero::pbf_wire_type::fixed32);
    try {
      return reader_.get_float();
    } catch (const protozero::exception& e) {
      corrupt(e.what());
    }
  }

  // Whether the present field is a run of bytes: a message, a string, or packed numbers.
  bool is_packed() const { return reader_.wire_type() == protozero::pbf_wire_type::length_delimited; }

  // The present field is one occurrence of a repeated number: a packed run of them or a single one. Calls
  // take(value) for each.
  template <class Take>
  void each_integer(Take&& take) {
    if (reader_.wire_type() == protozero::pbf_wire_type::varint) return take(integer());
    std::string_view run = bytes();
    const char* at = run.data();
    const char* end = at + run.size();
    try {
      while (at != end) take(static_cast<int64_t>(protozero::decode_varint(&at, end)));
    } catch (const protozero::exception& e) {
      corrupt(e.what());
    }
  }
  // Such an occurrence of floats (4 bytes) or doubles (8), as the little-endian bytes that it consists of.
  std::string_view fixed_run(size_t element_bytes);

  [[noreturn]] static void corrupt(const char* what);

 private:
  void require(protozero::pbf_wire_type type) const {
    if (reader_.wire_type() != type) wrong_wire_type();
  }
  [[noreturn]] void wrong_wire_type() const;
  protozero::pbf_reader reader_;
};

// A StringStringEntryProto: key and value.
std::pair<std::string_view, std::string_view> read_entry(std::string_view bytes);

}  // namespace anfora::onnx
