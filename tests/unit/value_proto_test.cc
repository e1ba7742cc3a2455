#include "frontend/onnx/value_proto.h"

#include <gtest/gtest.h>

#include "anfora/error.h"
#include "onnx_writer.h"
#include "ops/registry.h"
#include "run_kernel.h"

namespace anfora {
namespace {

class ValueProto : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  const ir::Type* tensor = context->unranked_type(DType::F32);
  const ir::Type* sequence = context->sequence_type(tensor);

  static std::string tensor_bytes(float value) {
    std::string bytes;
    protozero::pbf_writer w(bytes);
    onnx::write_tensor(w, Tensor::scalar<float>(value));
    return bytes;
  }
  static std::string sequence_bytes(std::initializer_list<float> values) {
    std::string bytes;
    protozero::pbf_writer w(bytes);
    w.add_int32(wire::SequenceProto::elem_type, 1);
    for (float value : values) w.add_message(wire::SequenceProto::tensor_values, tensor_bytes(value));
    return bytes;
  }
  static float scalar(const Datum& datum) { return datum.tensor().data<float>()[0]; }
};

TEST_F(ValueProto, Tensor) {
  EXPECT_EQ(scalar(onnx::read_value(tensor_bytes(3), tensor, {})), 3);
  EXPECT_EQ(scalar(onnx::read_value(tensor_bytes(3), nullptr, {})), 3);
}

TEST_F(ValueProto, Sequence) {
  Datum read = onnx::read_value(sequence_bytes({1, 2}), sequence, {});
  ASSERT_EQ(read.items().size(), 2u);
  EXPECT_EQ(scalar(read.items()[1]), 2);
  EXPECT_TRUE(onnx::read_value("", sequence, {}).items().empty());
}

TEST_F(ValueProto, PresentOptionalIsItsElement) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_message(wire::OptionalProto::sequence_value, sequence_bytes({4}));
  Datum read = onnx::read_value(bytes, context->optional_type(sequence), {});
  EXPECT_EQ(scalar(read.items().at(0)), 4);
  EXPECT_TRUE(onnx::read_value("", context->optional_type(tensor), {}).is_none());
}

TEST_F(ValueProto, Map) {
  std::string bytes;
  protozero::pbf_writer w(bytes);
  w.add_string(wire::MapProto::string_keys, "a");
  w.add_string(wire::MapProto::string_keys, "b");
  w.add_message(wire::MapProto::values, sequence_bytes({1, 2}));
  const ir::Type* map = context->map_type(context->unranked_type(DType::String), tensor);
  Datum read = onnx::read_value(bytes, map, {});
  EXPECT_EQ(values_of<std::string>(read.as_map().keys), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(values_of<float>(read.as_map().values), (std::vector<float>{1, 2}));
  w.add_string(wire::MapProto::string_keys, "c");
  EXPECT_THROW(onnx::read_value(bytes, map, {}), Error);
}

TEST_F(ValueProto, NestingIsBounded) {
  std::string bytes = sequence_bytes({1});
  const ir::Type* type = sequence;
  for (int depth = 0; depth < 100; ++depth) {
    std::string outer;
    protozero::pbf_writer(outer).add_message(wire::SequenceProto::sequence_values, bytes);
    bytes = outer;
    type = context->sequence_type(type);
  }
  EXPECT_THROW(onnx::read_value(bytes, type, {}), Error);
}

}  // namespace
}  // namespace anfora
