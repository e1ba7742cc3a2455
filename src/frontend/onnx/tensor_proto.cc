#include "frontend/onnx/tensor_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "frontend/onnx/message.h"
#include "frontend/onnx/wire.h"
#include "support/element_types.h"

namespace anfora::onnx {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMayBeUnaligned = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
constexpr bool kMayBeUnaligned = false;
#else
constexpr bool kMayBeUnaligned = true;
#endif
#else
constexpr bool kMayBeUnaligned = true;
#endif

using Chunks = boost::container::small_vector<std::string_view, 2>;

// The fields of a TensorProto, data still in their file form.
struct TensorFields {
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  std::string_view name;
  std::optional<std::string_view> raw;
  Chunks floats, doubles;          // fixed-width runs
  Chunks int32s, int64s, uint64s;  // packed runs of varints
  std::vector<int64_t> single_int32s, single_int64s, single_uint64s;
  std::vector<std::string_view> strings;
  std::vector<std::pair<std::string_view, std::string_view>> external;
  bool is_external = false;
};

// Integers may come packed, singly, or as a mixture; runs are kept as they are, since most tensors are one run.
void collect(Message& message, std::vector<int64_t>& singles, Chunks& runs) {
  if (message.is_packed()) {
    runs.push_back(message.bytes());
  } else {
    singles.push_back(message.integer());
  }
}

TensorFields read_fields(std::string_view bytes) {
  using Field = wire::TensorProto;
  TensorFields f;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::dims: m.each_integer([&](int64_t d) { f.dims.push_back(d); }); break;
      case Field::data_type: f.data_type = m.integer(); break;
      case Field::name: f.name = m.bytes(); break;
      case Field::raw_data: f.raw = m.bytes(); break;
      case Field::float_data: f.floats.push_back(m.fixed_run(4)); break;
      case Field::double_data: f.doubles.push_back(m.fixed_run(8)); break;
      case Field::int32_data: collect(m, f.single_int32s, f.int32s); break;
      case Field::int64_data: collect(m, f.single_int64s, f.int64s); break;
      case Field::uint64_data: collect(m, f.single_uint64s, f.uint64s); break;
      case Field::string_data: f.strings.push_back(m.bytes()); break;
      case Field::external_data: f.external.push_back(read_entry(m.bytes())); break;
      case Field::data_location:
        f.is_external = m.integer() == static_cast<int64_t>(Field::DataLocation::EXTERNAL);
        break;
      case Field::segment: throw Error(ErrorCode::Unsupported, "the tensor is split into segments");
      default: m.skip();
    }
  }
  return f;
}

[[noreturn]] void wrong_amount(const TensorFields& f, std::string_view found) {
  throw Error(ErrorCode::InvalidModel,
              fmt::format("the tensor of shape {} and type {} has {} of data",
                          to_string(std::span<const int64_t>(f.dims)), name(static_cast<DType>(f.data_type)), found));
}

// Sub-byte elements, lowest bits first. Signed integers are sign-extended into their byte.
template <class NextByte>
void unpack(DType dtype, std::span<uint8_t> to, NextByte&& next_byte) {
  int bits = element_bits(dtype);
  int sign_shift = is_signed_integer(dtype) ? 8 - bits : 0;
  unsigned buffer = 0;
  int available = 0;
  for (uint8_t& element : to) {
    if (available < bits) {
      buffer |= static_cast<unsigned>(next_byte()) << available;
      available += 8;
    }
    uint8_t low = static_cast<uint8_t>(buffer & ((1u << bits) - 1));
    element = sign_shift ? static_cast<uint8_t>(static_cast<int8_t>(low << sign_shift) >> sign_shift) : low;
    buffer >>= bits;
    available -= bits;
  }
}

size_t packed_size(DType dtype, size_t count) {
  return is_sub_byte(dtype) ? (count * element_bits(dtype) + 7) / 8 : count * element_bytes(dtype);
}

// A tensor from the bytes of its file form, which `owner` keeps alive.
Tensor from_packed(DType dtype, std::span<const int64_t> dims, std::string_view bytes,
                   const std::shared_ptr<void>& owner) {
  if (is_sub_byte(dtype)) {
    Tensor t = Tensor::allocate(dtype, dims);
    const char* at = bytes.data();
    unpack(dtype, {static_cast<uint8_t*>(t.raw()), static_cast<size_t>(t.size())},
           [&] { return static_cast<uint8_t>(*at++); });
    return t;
  }
  // Complex numbers are pairs of the scalars that need the alignment.
  size_t alignment = is_complex(dtype) ? element_bytes(dtype) / 2 : element_bytes(dtype);
  bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0;
  bool large = bytes.size() > kLargestCopied;
  // A bool that is neither 0 nor 1 is undefined behaviour; there are exporters that write 255.
  bool odd = dtype == DType::Bool && std::ranges::any_of(bytes, [](char c) { return static_cast<uint8_t>(c) > 1; });
  if (owner && !odd && (aligned || (large && kMayBeUnaligned))) {
    return Tensor::view(dtype, dims, const_cast<char*>(bytes.data()), owner);
  }
  Tensor t = Tensor::allocate(dtype, dims);
  if (odd) {
    std::ranges::transform(bytes, static_cast<uint8_t*>(t.raw()), [](char c) { return c != 0; });
  } else if (!bytes.empty()) {
    std::memcpy(t.raw(), bytes.data(), bytes.size());
  }
  return t;
}

uint64_t parse_number(std::string_view key, std::string_view text) {
  uint64_t value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the {} '{}' of external data is not a number", key, text));
  }
  return value;
}

Tensor read_external(const TensorFields& f, DType dtype, size_t needed, const TensorSource& source) {
  if (!source.external) throw Error(ErrorCode::InvalidModel, "external data is not allowed here");
  if (dtype == DType::String) throw Error(ErrorCode::InvalidModel, "strings cannot be external data");
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (auto [key, value] : f.external) {
    if (key == "location") location = value;
    if (key == "offset") offset = parse_number(key, value);
    if (key == "length") length = parse_number(key, value);
  }
  if (length && *length != needed) {
    wrong_amount(f, fmt::format("{} bytes instead of {}", *length, needed));
  }
  ExternalData::Bytes found = source.external->read(location, offset, needed);
  return from_packed(dtype, f.dims, found.bytes, found.owner);
}

// Elements stored as varints, one an element or one a byte of packed elements.
Tensor read_varints(const TensorFields& f, DType dtype, size_t count, const Chunks& runs,
                    const std::vector<int64_t>& singles) {
  bool is_bit_packed = is_sub_byte(dtype) && element_bits(dtype) != 6;
  size_t needed = is_bit_packed ? packed_size(dtype, count) : count;
  size_t most = singles.size();
  for (std::string_view run : runs) most += run.size();
  if (most < needed) wrong_amount(f, fmt::format("at most {} values instead of {}", most, needed));

  std::vector<int64_t> values(singles);
  values.reserve(needed);
  for (std::string_view run : runs) {
    const char* at = run.data();
    const char* end = at + run.size();
    try {
      while (at != end) values.push_back(static_cast<int64_t>(protozero::decode_varint(&at, end)));
    } catch (const protozero::exception& e) {
      Message::corrupt(e.what());
    }
  }
  if (values.size() != needed) wrong_amount(f, fmt::format("{} values instead of {}", values.size(), needed));

  Tensor t = Tensor::allocate(dtype, f.dims);
  if (is_bit_packed) {
    auto at = values.begin();
    unpack(dtype, {static_cast<uint8_t*>(t.raw()), count}, [&] { return static_cast<uint8_t>(*at++); });
  } else if (dtype == DType::Bool) {
    std::ranges::transform(values, t.data<bool>().begin(), [](int64_t v) { return v != 0; });
  } else if (element_bits(dtype) == 6) {
    std::ranges::transform(values, static_cast<uint8_t*>(t.raw()),
                           [](int64_t v) { return static_cast<uint8_t>(v & 0x3f); });
  } else {
    switch (element_bytes(dtype)) {
      case 1: std::ranges::copy(values, static_cast<uint8_t*>(t.raw())); break;
      case 2: std::ranges::copy(values, static_cast<uint16_t*>(t.raw())); break;
      case 4: std::ranges::copy(values, static_cast<uint32_t*>(t.raw())); break;
      default: std::ranges::copy(values, static_cast<int64_t*>(t.raw())); break;
    }
  }
  return t;
}

Tensor read_fixed(const TensorFields& f, DType dtype, size_t needed, const Chunks& runs, const TensorSource& source) {
  size_t found = 0;
  for (std::string_view run : runs) found += run.size();
  if (found != needed) wrong_amount(f, fmt::format("{} bytes instead of {}", found, needed));
  if (runs.size() == 1) return from_packed(dtype, f.dims, runs[0], source.owner);
  Tensor t = Tensor::allocate(dtype, f.dims);
  char* to = static_cast<char*>(t.raw());
  for (std::string_view run : runs) to = std::ranges::copy(run, to).out;
  return t;
}

Tensor read_typed(const TensorFields& f, DType dtype, size_t count, const TensorSource& source) {
  switch (dtype) {
    case DType::F32:
    case DType::C64: return read_fixed(f, dtype, count * element_bytes(dtype), f.floats, source);
    case DType::F64:
    case DType::C128: return read_fixed(f, dtype, count * element_bytes(dtype), f.doubles, source);
    case DType::I64: return read_varints(f, dtype, count, f.int64s, f.single_int64s);
    case DType::U32:
    case DType::U64: return read_varints(f, dtype, count, f.uint64s, f.single_uint64s);
    case DType::String: {
      if (f.strings.size() != count) wrong_amount(f, fmt::format("{} strings", f.strings.size()));
      Tensor t = Tensor::allocate(dtype, f.dims);
      std::ranges::copy(f.strings, t.data<std::string>().begin());
      return t;
    }
    default: return read_varints(f, dtype, count, f.int32s, f.single_int32s);
  }
}

Tensor read_data(const TensorFields& f, const TensorSource& source) {
  if (f.data_type <= 0 || f.data_type >= kDTypeCount) {
    throw Error(f.data_type > 0 ? ErrorCode::Unsupported : ErrorCode::InvalidModel,
                fmt::format("the tensor has the unknown element type {}", f.data_type));
  }
  DType dtype = static_cast<DType>(f.data_type);
  size_t count = 0;
  try {
    count = static_cast<size_t>(element_count(f.dims));
  } catch (const Error& e) {
    throw Error(ErrorCode::InvalidModel, e.message());
  }
  size_t needed = 0;  // with a margin for the rounding of sub-byte types
  if (__builtin_mul_overflow(count, std::max<size_t>(element_bytes(dtype), 1), &needed) || needed > SIZE_MAX / 16) {
    wrong_amount(f, "more bytes than memory can hold");
  }
  needed = packed_size(dtype, count);
  if (f.is_external) return read_external(f, dtype, needed, source);
  if (f.raw && dtype == DType::String) throw Error(ErrorCode::InvalidModel, "strings cannot be raw data");
  // An empty raw_data beside a typed field is what some writers leave behind.
  if (f.raw && (!f.raw->empty() || needed == 0)) {
    if (f.raw->size() != needed) wrong_amount(f, fmt::format("{} bytes instead of {}", f.raw->size(), needed));
    return from_packed(dtype, f.dims, *f.raw, source.owner);
  }
  return read_typed(f, dtype, count, source);
}

}  // namespace

void ExpansionBudget::take(size_t bytes) {
  if (bytes > left_) {
    throw Error(ErrorCode::ResourceExhausted,
                fmt::format("expanding this needs {} bytes, out of proportion to the size of the file", bytes));
  }
  left_ -= bytes;
}

Tensor read_tensor(std::string_view bytes, const TensorSource& source, std::string_view* name) {
  TensorFields f = read_fields(bytes);
  if (name) *name = f.name;
  try {
    return read_data(f, source);
  } catch (Error& e) {
    if (!f.name.empty()) e.at_node(fmt::format("tensor '{}'", f.name));
    throw;
  }
}

std::string_view read_tensor_name(std::string_view bytes) {
  std::string_view name;
  for (Message m(bytes); m.next();) {
    if (m.field() == wire::TensorProto::name) {
      name = m.bytes();
    } else {
      m.skip();
    }
  }
  return name;
}

std::string_view read_sparse_tensor_name(std::string_view bytes) {
  std::string_view name;
  for (Message m(bytes); m.next();) {
    if (m.field() == wire::SparseTensorProto::values) {
      name = read_tensor_name(m.bytes());
    } else {
      m.skip();
    }
  }
  return name;
}

Tensor read_sparse_tensor(std::string_view bytes, const TensorSource& source, std::string_view* name) {
  using Field = wire::SparseTensorProto;
  std::vector<int64_t> dims;
  Tensor values, indices;
  std::string_view values_name;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::values: values = read_tensor(m.bytes(), source, &values_name); break;
      case Field::indices: indices = read_tensor(m.bytes(), source); break;
      case Field::dims: m.each_integer([&](int64_t d) { dims.push_back(d); }); break;
      default: m.skip();
    }
  }
  if (name) *name = values_name;
  auto fail = [&](std::string what) {
    Error error(ErrorCode::InvalidModel, fmt::format("sparse tensor: {}", what));
    if (!values_name.empty()) error.at_node(fmt::format("tensor '{}'", values_name));
    throw error;
  };
  if (!values.defined()) fail("it has no values");
  if (values.rank() != 1) fail("its values are not a vector");
  int64_t stored = values.size(), rank = static_cast<int64_t>(dims.size());
  // The format leaves out the indices of a tensor without values.
  if (!indices.defined() && stored > 0) fail("it has no indices");
  if (indices.defined() && indices.dtype() != DType::I64) fail("its indices are not of type i64");
  int64_t count = 0;
  try {
    count = element_count(dims);
  } catch (const Error& e) {
    fail(e.message());
  }
  // Two forms: positions in the flattened tensor, or a row of coordinates a value.
  bool linear = !indices.defined() || indices.rank() == 1;
  bool fits =
      !indices.defined() ||
      (linear ? indices.dim(0) == stored : indices.rank() == 2 && indices.dim(0) == stored && indices.dim(1) == rank);
  if (!fits) fail("its indices do not fit its values and dimensions");

  size_t dense_bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(count), element_bytes(values.dtype()), &dense_bytes))
    dense_bytes = SIZE_MAX;
  if (source.budget) source.budget->take(dense_bytes);
  Tensor dense = Tensor::zeros(values.dtype(), dims);
  auto at = stored ? indices.data<int64_t>() : std::span<const int64_t>();
  dispatch_by_size(values.dtype(), [&]<class T>() {
    const T* from = static_cast<const T*>(values.raw());
    T* to = static_cast<T*>(dense.raw());
    for (int64_t i = 0; i < stored; ++i) {
      int64_t position = linear ? at[i] : 0;
      for (int64_t axis = 0; !linear && axis < rank; ++axis) {
        int64_t coordinate = at[i * rank + axis];
        if (coordinate < 0 || coordinate >= dims[axis]) fail(fmt::format("index {} is out of range", coordinate));
        position = position * dims[axis] + coordinate;
      }
      if (position < 0 || position >= count) fail(fmt::format("index {} is out of range", position));
      to[position] = from[i];
    }
  });
  return dense;
}

size_t packed_bytes(const Tensor& tensor) { return packed_size(tensor.dtype(), static_cast<size_t>(tensor.size())); }

bool is_packed_in_memory(const Tensor& tensor) {
  return !is_sub_byte(tensor.dtype()) && tensor.dtype() != DType::String;
}

std::string pack_elements(const Tensor& tensor) {
  const char* memory = static_cast<const char*>(tensor.raw());
  if (is_packed_in_memory(tensor)) return std::string(memory, tensor.bytes());
  std::string packed(packed_bytes(tensor), '\0');
  int bits = element_bits(tensor.dtype());
  unsigned mask = (1u << bits) - 1;
  for (size_t i = 0; i < static_cast<size_t>(tensor.size()); ++i) {
    unsigned element = static_cast<uint8_t>(memory[i]) & mask;
    size_t bit = i * static_cast<size_t>(bits), shift = bit % 8;
    packed[bit / 8] |= static_cast<char>(element << shift);
    if (shift + static_cast<size_t>(bits) > 8) packed[bit / 8 + 1] |= static_cast<char>(element >> (8 - shift));
  }
  return packed;
}

namespace {

// Larger tensors are written as they lie in memory, for readers that map the file.
constexpr size_t kLargestAsVarints = 1024;

// Shapes and axes are small numbers, which take a byte each as varints and eight as they are. False: not written so, since it
// would not save anything.
bool write_varints(protozero::pbf_writer& writer, const Tensor& tensor) {
  using Field = wire::TensorProto;
  if (tensor.bytes() > kLargestAsVarints) return false;
  auto write = [&]<class T>(std::span<const T> elements, auto add) {
    size_t bytes = 0;
    for (T element : elements)
      bytes += static_cast<size_t>(protozero::length_of_varint(static_cast<uint64_t>(element)));
    if (bytes >= tensor.bytes()) return false;
    add(elements.begin(), elements.end());
    return true;
  };
  switch (tensor.dtype()) {
    case DType::I64:
      return write(tensor.data<int64_t>(), [&](auto... run) { writer.add_packed_int64(Field::int64_data, run...); });
    case DType::U64:
      return write(tensor.data<uint64_t>(), [&](auto... run) { writer.add_packed_uint64(Field::uint64_data, run...); });
    case DType::U32:
      return write(tensor.data<uint32_t>(), [&](auto... run) { writer.add_packed_uint64(Field::uint64_data, run...); });
    case DType::I32:
      return write(tensor.data<int32_t>(), [&](auto... run) { writer.add_packed_int32(Field::int32_data, run...); });
    default: return false;
  }
}

}  // namespace

void write_tensor(protozero::pbf_writer& writer, const Tensor& tensor, std::string_view name) {
  using Field = wire::TensorProto;
  writer.add_packed_int64(Field::dims, tensor.shape().begin(), tensor.shape().end());
  writer.add_int32(Field::data_type, static_cast<int32_t>(tensor.dtype()));
  if (!name.empty()) writer.add_string(Field::name, name.data(), name.size());
  if (tensor.size() == 0 || write_varints(writer, tensor)) return;
  if (tensor.dtype() == DType::String) {
    for (const std::string& s : tensor.data<std::string>()) writer.add_bytes(Field::string_data, s);
  } else if (is_packed_in_memory(tensor)) {
    writer.add_bytes(Field::raw_data, static_cast<const char*>(tensor.raw()), tensor.bytes());
  } else {
    writer.add_bytes(Field::raw_data, pack_elements(tensor));
  }
}

}  // namespace anfora::onnx
