#include "frontend/onnx/import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <protozero/varint.hpp>

#include "anfora/error.h"
#include "onnx_writer.h"
#include "ops/registry.h"

namespace anfora {
namespace {

class Import : public testing::Test {
 protected:
  std::unique_ptr<ir::Context> context = ops::make_context();
  std::unique_ptr<ir::Module> read(const std::string& bytes) {
    return onnx::import_onnx(*context, std::as_bytes(std::span(bytes)), nullptr);
  }
  std::string error_of(const std::string& bytes) {
    try {
      read(bytes);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
};

TEST_F(Import, SingleNode) {
  ModelWriter m;
  m.value(wire::GraphProto::input, *context, "x", {2, 3});
  m.value(wire::GraphProto::output, *context, "y", {2, 3});
  m.node({"Relu", {"x"}, {"y"}, {}, {}, "r"});
  auto module = read(m.bytes());
  ir::Apply* relu = module->main()->result()->as_apply();
  ASSERT_TRUE(relu);
  EXPECT_TRUE(relu->is("Relu"));
  EXPECT_EQ(relu->name(), "y");
  EXPECT_EQ(relu->location()->name, "r");
  EXPECT_EQ(to_string(*relu->location()), "r (model: node 0)");
  EXPECT_EQ(relu->input(0), module->main()->parameter(0));
  EXPECT_EQ(ir::to_string(relu->input(0)->type()), "f32[2, 3]");
  EXPECT_EQ(module->output_names(), std::vector<std::string>{"y"});
}

// More than protobuf's own 2 GiB in one file, which is sparse: nobody reads the weights.
TEST_F(Import, FileOfThreeGigabytes) {
  constexpr uint64_t kElements = uint64_t{3} << 30;
  ModelWriter m;
  m.node({"Identity", {"w"}, {"y"}});
  m.value(wire::GraphProto::output, "y", nullptr);
  std::string tensor, model;
  protozero::pbf_writer weights(tensor);
  weights.add_packed_int64(wire::TensorProto::dims, &kElements, &kElements + 1);
  weights.add_int32(wire::TensorProto::data_type, static_cast<int32_t>(DType::U8));
  weights.add_string(wire::TensorProto::name, "w");
  auto begin = [](uint32_t field, uint64_t length) {
    std::string header;
    protozero::add_varint_to_buffer(&header,
                                    field << 3 | static_cast<uint32_t>(protozero::pbf_wire_type::length_delimited));
    protozero::add_varint_to_buffer(&header, length);
    return header;
  };
  // What is large comes last in each message.
  tensor += begin(wire::TensorProto::raw_data, kElements);
  m.graph += begin(wire::GraphProto::initializer, tensor.size() + kElements) + tensor;
  std::swap(model, m.graph);
  std::string bytes = m.bytes() + begin(wire::ModelProto::graph, model.size() + kElements) + model;

  std::filesystem::path path = testing::TempDir() + "anfora_large_" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::resize_file(path, bytes.size() + kElements);
  auto module = onnx::import_onnx(*context, path);
  const Tensor* w = ir::constant_tensor(module->main()->result()->as_apply()->input(0));
  ASSERT_TRUE(w);
  EXPECT_EQ(w->bytes(), kElements);
  EXPECT_EQ(w->data<uint8_t>().back(), 0);

  std::filesystem::resize_file(path, uint64_t{1} << 32);
  EXPECT_THROW(onnx::import_onnx(*context, path), Error);
  std::filesystem::remove(path);
}

TEST_F(Import, UnsortedNodesAreSorted) {
  ModelWriter m;
  m.value(wire::GraphProto::input, *context, "x", {2});
  m.value(wire::GraphProto::output, *context, "z", {2});
  m.node({"Relu", {"y"}, {"z"}});
  m.node({"Abs", {"x"}, {"y"}});
  auto module = read(m.bytes());
  EXPECT_TRUE(module->main()->result()->as_apply()->is("Relu"));
  EXPECT_TRUE(module->main()->result()->as_apply()->input(0)->as_apply()->is("Abs"));
}

TEST_F(Import, CycleNamesItsNodes) {
  ModelWriter m;
  m.value(wire::GraphProto::input, *context, "x", {2});
  m.value(wire::GraphProto::output, *context, "b", {2});
  m.node({"Add", {"x", "b"}, {"a"}, {}, {}, "first"});
  m.node({"Abs", {"a"}, {"b"}, {}, {}, "second"});
  EXPECT_NE(error_of(m.bytes()).find("in a cycle: Add 'first' -> Abs 'second' -> Add 'first'"), std::string::npos)
      << error_of(m.bytes());
}

TEST_F(Import, InitializerThatIsAnInput) {
  ModelWriter m;
  m.value(wire::GraphProto::input, *context, "x", {2});
  m.value(wire::GraphProto::input, *context, "w", {2});
  m.value(wire::GraphProto::output, *context, "y", {2});
  m.initializer("w", Tensor::vector<float>(std::vector<float>{1, 2}));
  m.node({"Add", {"x", "w"}, {"y"}});
  auto module = read(m.bytes());
  ASSERT_EQ(module->main()->parameters().size(), 2u);
  ir::Parameter* w = module->main()->parameter(1);
  ASSERT_TRUE(module->default_of(w));
  EXPECT_EQ(module->default_of(w)->tensor().data<float>()[1], 2.0f);

  m.ir_version = 3;
  module = read(m.bytes());
  EXPECT_EQ(module->main()->parameters().size(), 1u);
  EXPECT_TRUE(module->main()->result()->as_apply()->input(1)->is_value());
}

TEST_F(Import, UnknownOperatorKeepsItsNode) {
  ModelWriter m;
  m.value(wire::GraphProto::input, *context, "x", {2});
  m.value(wire::GraphProto::output, *context, "y", {2});
  m.node({"Strange", {"x", "", "x", ""}, {"", "y"}, {}, "com.example"});
  auto module = read(m.bytes());
  ir::Apply* item = module->main()->result()->as(ir::Primitive::TupleGetItem);
  ASSERT_TRUE(item);
  ir::Apply* node = item->input(0)->as_apply();
  EXPECT_TRUE(node->is("com.example::Strange"));
  EXPECT_FALSE(node->op().known);
  EXPECT_EQ(node->num_inputs(), 3u);
  EXPECT_FALSE(node->has_input(1));
  EXPECT_EQ(node->num_outputs(), 2u);
  EXPECT_EQ(ir::to_string(node->type()->element(1)), "f32[2]");
}

TEST_F(Import, Errors) {
  EXPECT_NE(error_of("").find("empty"), std::string::npos);
  EXPECT_NE(error_of("\xff\xff\xff").find("corrupt"), std::string::npos);
  ModelWriter m;
  m.value(wire::GraphProto::input, *context, "x", {2});
  m.value(wire::GraphProto::output, *context, "y", {2});
  m.node({"Relu", {"nowhere"}, {"y"}, {}, {}, "r"});
  EXPECT_EQ(error_of(m.bytes()), "model: node 0: Relu 'r': nothing computes the value 'nowhere'");
  std::string whole = m.bytes();
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "no error") << size;
  }
}

TEST(TensorProto, RoundTripsEveryType) {
  for (int number = 1; number < kDTypeCount; ++number) {
    DType dtype = static_cast<DType>(number);
    Tensor t = Tensor::allocate(dtype, std::vector<int64_t>{7});
    if (dtype == DType::String) {
      t.data<std::string>()[3] = "seven";
    } else {
      int bits = element_bits(dtype);
      for (size_t i = 0; i < t.bytes(); ++i) {
        uint8_t byte = static_cast<uint8_t>(i * 37 + 11);
        if (dtype == DType::Bool) byte &= 1;
        if (is_sub_byte(dtype)) byte &= static_cast<uint8_t>((1 << bits) - 1);
        if (is_sub_byte(dtype) && is_signed_integer(dtype)) {
          byte = static_cast<uint8_t>(static_cast<int8_t>(byte << (8 - bits)) >> (8 - bits));
        }
        static_cast<uint8_t*>(t.raw())[i] = byte;
      }
    }
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    onnx::write_tensor(writer, t, "t");
    std::string_view name;
    Tensor back = onnx::read_tensor(bytes, {}, &name);
    EXPECT_EQ(name, "t");
    EXPECT_TRUE(Tensor::identical(t, back)) << anfora::name(dtype);
  }
}

}  // namespace
}  // namespace anfora
