// The field numbers of onnx.proto, the one table that reader and writer share.
//
// A message is a struct of the message's name, a field an enumerator of the field's name, as onnx.proto writes
// them. Messages that are listed are listed whole; those that the compiler passes over (training information, device
// configurations) are not here. tests/frontend/check_wire.py compares the table with the descriptor that ONNX ships.
#pragma once

#include <cstdint>
#include <string_view>

namespace anfora::onnx::wire {

struct ModelProto {
  enum Field : uint32_t {
    ir_version = 1,
    producer_name = 2,
    producer_version = 3,
    domain = 4,
    model_version = 5,
    doc_string = 6,
    graph = 7,
    opset_import = 8,
    metadata_props = 14,
    training_info = 20,
    functions = 25,
    configuration = 26,
  };
};

struct OperatorSetIdProto {
  enum Field : uint32_t { domain = 1, version = 2 };
};

struct StringStringEntryProto {
  enum Field : uint32_t { key = 1, value = 2 };
};

struct FunctionProto {
  enum Field : uint32_t {
    name = 1,
    input = 4,
    output = 5,
    attribute = 6,
    node = 7,
    doc_string = 8,
    opset_import = 9,
    domain = 10,
    attribute_proto = 11,
    value_info = 12,
    overload = 13,
    metadata_props = 14,
  };
};

struct GraphProto {
  enum Field : uint32_t {
    node = 1,
    name = 2,
    initializer = 5,
    doc_string = 10,
    input = 11,
    output = 12,
    value_info = 13,
    quantization_annotation = 14,
    sparse_initializer = 15,
    metadata_props = 16,
  };
};

struct TensorAnnotation {
  enum Field : uint32_t { tensor_name = 1, quant_parameter_tensor_names = 2 };
};

struct NodeProto {
  enum Field : uint32_t {
    input = 1,
    output = 2,
    name = 3,
    op_type = 4,
    attribute = 5,
    doc_string = 6,
    domain = 7,
    overload = 8,
    metadata_props = 9,
    device_configurations = 10,
  };
};

struct AttributeProto {
  enum Field : uint32_t {
    name = 1,
    f = 2,
    i = 3,
    s = 4,
    t = 5,
    g = 6,
    floats = 7,
    ints = 8,
    strings = 9,
    tensors = 10,
    graphs = 11,
    doc_string = 13,
    tp = 14,
    type_protos = 15,
    type = 20,
    ref_attr_name = 21,
    sparse_tensor = 22,
    sparse_tensors = 23,
  };
  enum class AttributeType : int32_t {
    UNDEFINED = 0,
    FLOAT = 1,
    INT = 2,
    STRING = 3,
    TENSOR = 4,
    GRAPH = 5,
    FLOATS = 6,
    INTS = 7,
    STRINGS = 8,
    TENSORS = 9,
    GRAPHS = 10,
    SPARSE_TENSOR = 11,
    SPARSE_TENSORS = 12,
    TYPE_PROTO = 13,
    TYPE_PROTOS = 14,
  };
};

struct ValueInfoProto {
  enum Field : uint32_t { name = 1, type = 2, doc_string = 3, metadata_props = 4 };
};

// TensorProto.DataType is anfora::DType, number for number.
struct TensorProto {
  enum Field : uint32_t {
    dims = 1,
    data_type = 2,
    segment = 3,
    float_data = 4,
    int32_data = 5,
    string_data = 6,
    int64_data = 7,
    name = 8,
    raw_data = 9,
    double_data = 10,
    uint64_data = 11,
    doc_string = 12,
    external_data = 13,
    data_location = 14,
    metadata_props = 16,
  };
  enum class DataLocation : int32_t { DEFAULT = 0, EXTERNAL = 1 };
};

struct SparseTensorProto {
  enum Field : uint32_t { values = 1, indices = 2, dims = 3 };
};

struct TensorShapeProto {
  enum Field : uint32_t { dim = 1 };
  struct Dimension {
    enum Field : uint32_t { dim_value = 1, dim_param = 2, denotation = 3 };
  };
};

struct TypeProto {
  enum Field : uint32_t {
    tensor_type = 1,
    sequence_type = 4,
    map_type = 5,
    denotation = 6,
    opaque_type = 7,
    sparse_tensor_type = 8,
    optional_type = 9,
  };
  struct Tensor {
    enum Field : uint32_t { elem_type = 1, shape = 2 };
  };
  struct Sequence {
    enum Field : uint32_t { elem_type = 1 };
  };
  struct Map {
    enum Field : uint32_t { key_type = 1, value_type = 2 };
  };
  struct Optional {
    enum Field : uint32_t { elem_type = 1 };
  };
  struct SparseTensor {
    enum Field : uint32_t { elem_type = 1, shape = 2 };
  };
  struct Opaque {
    enum Field : uint32_t { domain = 1, name = 2 };
  };
};

// From onnx-data.proto: values that are more than a tensor, as in the inputs of a test case.
struct SequenceProto {
  enum Field : uint32_t {
    name = 1,
    elem_type = 2,
    tensor_values = 3,
    sparse_tensor_values = 4,
    sequence_values = 5,
    map_values = 6,
    optional_values = 7,
  };
  enum class DataType : int32_t { UNDEFINED = 0, TENSOR = 1, SPARSE_TENSOR = 2, SEQUENCE = 3, MAP = 4, OPTIONAL = 5 };
};

struct MapProto {
  enum Field : uint32_t { name = 1, key_type = 2, keys = 3, string_keys = 4, values = 5 };
};

struct OptionalProto {
  enum Field : uint32_t {
    name = 1,
    elem_type = 2,
    tensor_value = 3,
    sparse_tensor_value = 4,
    sequence_value = 5,
    map_value = 6,
    optional_value = 7,
  };
  enum class DataType : int32_t { UNDEFINED = 0, TENSOR = 1, SPARSE_TENSOR = 2, SEQUENCE = 3, MAP = 4, OPTIONAL = 5 };
};

}  // namespace anfora::onnx::wire

namespace anfora::onnx {

// How large a file may be. A protobuf message has at most 2 GiB, and Google's library holds readers to it, ONNX Runtime
// and PyPI's onnx among them: nothing larger is written, the weights lie beside the model then. The encoding could hold
// more, and a writer of its own may have used that. Here, lengths of up to 32 bits are read.
inline constexpr uint64_t kLargestWritten = (uint64_t{2} << 30) - 1, kLargestRead = (uint64_t{4} << 30) - 1;

// How an application of an unknown operator holds what the IR has no attribute value for, so that export restores it:
//   - an attribute that is a graph, or a list of graphs, sparse tensors or types, is a string attribute of the
//     attribute's name with this suffix: the bytes of the whole AttributeProto;
inline constexpr std::string_view kVerbatimSuffix = "#proto";
//   - the names which these graphs take from the graphs around them are the strings of this attribute. The values are
//     the last operands, in the same order; the exported graph must know them by these names.
inline constexpr std::string_view kCaptures = "#captures";

}  // namespace anfora::onnx
