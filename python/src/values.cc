#include "values.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "anfora/error.h"
#include "runtime/profiler.h"

namespace anfora::bindings {
namespace {

struct NativeType {
  DType dtype;
  nb::dlpack::dtype native;
};
constexpr uint8_t kInt = static_cast<uint8_t>(nb::dlpack::dtype_code::Int),
                  kUnsigned = static_cast<uint8_t>(nb::dlpack::dtype_code::UInt),
                  kFloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Float),
                  kBfloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat),
                  kComplex = static_cast<uint8_t>(nb::dlpack::dtype_code::Complex),
                  kBool = static_cast<uint8_t>(nb::dlpack::dtype_code::Bool);
constexpr uint8_t kFloat8E4M3FN = static_cast<uint8_t>(nb::dlpack::dtype_code::Float8_E4M3FN),
                  kFloat8E4M3FNUZ = static_cast<uint8_t>(nb::dlpack::dtype_code::Float8_E4M3FNUZ),
                  kFloat8E5M2 = static_cast<uint8_t>(nb::dlpack::dtype_code::Float8_E5M2),
                  kFloat8E5M2FNUZ = static_cast<uint8_t>(nb::dlpack::dtype_code::Float8_E5M2FNUZ),
                  kFloat8E8M0FNU = static_cast<uint8_t>(nb::dlpack::dtype_code::Float8_E8M0FNU);
// Element types of DLPack. Those of numpy come first; the others come from PyTorch and JAX.
constexpr NativeType kNative[] = {
    {DType::F32, {kFloat, 32, 1}},
    {DType::F64, {kFloat, 64, 1}},
    {DType::F16, {kFloat, 16, 1}},
    {DType::I64, {kInt, 64, 1}},
    {DType::I32, {kInt, 32, 1}},
    {DType::I16, {kInt, 16, 1}},
    {DType::I8, {kInt, 8, 1}},
    {DType::U64, {kUnsigned, 64, 1}},
    {DType::U32, {kUnsigned, 32, 1}},
    {DType::U16, {kUnsigned, 16, 1}},
    {DType::U8, {kUnsigned, 8, 1}},
    {DType::Bool, {kBool, 8, 1}},
    {DType::C64, {kComplex, 64, 1}},
    {DType::C128, {kComplex, 128, 1}},
    {DType::BF16, {kBfloat, 16, 1}},
    {DType::F8E4M3FN, {kFloat8E4M3FN, 8, 1}},
    {DType::F8E4M3FNUZ, {kFloat8E4M3FNUZ, 8, 1}},
    {DType::F8E5M2, {kFloat8E5M2, 8, 1}},
    {DType::F8E5M2FNUZ, {kFloat8E5M2FNUZ, 8, 1}},
    {DType::F8E8M0, {kFloat8E8M0FNU, 8, 1}},
};
constexpr std::span kOfNumpy = std::span(kNative).first(14);
static_assert(kOfNumpy.back().dtype == DType::C128);

std::optional<nb::dlpack::dtype> native_of(DType dtype) {
  auto found = std::ranges::find(kOfNumpy, dtype, &NativeType::dtype);
  if (found == kOfNumpy.end()) return std::nullopt;
  return found->native;
}

using Array = nb::ndarray<nb::ro, nb::device::cpu>;

// Keeps an array of Python's alive; the last handle may be dropped by any thread.
std::shared_ptr<void> owner_of(Array array) {
  return {new Array(std::move(array)), [](void* held) {
            nb::gil_scoped_acquire gil;
            delete static_cast<Array*>(held);
          }};
}

bool is_dense(const Array& array) {
  int64_t stride = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != stride) return array.size() == 0;
    stride *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

Shape shape_of(const Array& array) {
  Shape shape;
  for (size_t i = 0; i < array.ndim(); ++i) shape.push_back(static_cast<int64_t>(array.shape(i)));
  return shape;
}

// Elements in any order of memory, of `bytes` each, one after another.
void copy_dense(const Array& array, size_t bytes, std::byte* to) {
  const auto* from = static_cast<const std::byte*>(array.data());
  std::vector<size_t> at(array.ndim());
  for (size_t n = array.size(); n > 0; --n, to += bytes) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += static_cast<int64_t>(at[i]) * array.stride(i);
    std::copy_n(from + offset * static_cast<int64_t>(bytes), bytes, to);
    for (size_t i = at.size(); i-- > 0 && ++at[i] == array.shape(i);) at[i] = 0;
  }
}

Tensor to_tensor(Array array, const char* name) {
  const nb::dlpack::dtype native = array.dtype();
  auto found = std::ranges::find_if(kNative, [&](const NativeType& type) { return type.native == native; });
  if (found == std::end(kNative)) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("input '{}' has an element type that no model has", name));
  }
  const Shape shape = shape_of(array);
  if (is_dense(array)) {
    void* data = const_cast<void*>(array.data());
    return Tensor::view(found->dtype, shape, data, owner_of(std::move(array)));
  }
  Tensor tensor = Tensor::allocate(found->dtype, shape);
  copy_dense(array, element_bytes(found->dtype), static_cast<std::byte*>(tensor.raw()));
  return tensor;
}

// An array that owns the tensor's memory.
nb::object to_array(Tensor tensor, nb::dlpack::dtype native) {
  boost::container::small_vector<size_t, 6> shape(tensor.shape().begin(), tensor.shape().end());
  void* data = tensor.raw();
  nb::capsule owner(new Tensor(std::move(tensor)), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  return nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, native).cast();
}

const Tensor& tensor_of(const Value& value) { return value.datum.tensor(); }

std::string kind_of(const Value& value) {
  switch (value.datum.kind()) {
    case Datum::Kind::None: return "none";
    case Datum::Kind::Tensor: return "tensor";
    case Datum::Kind::Sequence: return "sequence";
    case Datum::Kind::Tuple: return "tuple";
    case Datum::Kind::Map: return "map";
    case Datum::Kind::Function: return "function";
  }
  return "";
}

// Strings are bytes to a model; what is no UTF-8 comes through unharmed.
nb::list strings_of(const Tensor& tensor) {
  nb::list list;
  for (const std::string& text : tensor.data<std::string>()) {
    list.append(nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape")));
  }
  return list;
}

Value strings_from(nb::sequence list, std::vector<int64_t> shape) {
  Tensor tensor = Tensor::allocate(DType::String, shape);
  std::span<std::string> texts = tensor.data<std::string>();
  size_t i = 0;
  for (nb::handle item : list) {
    if (i == texts.size()) break;
    nb::object bytes = PyBytes_Check(item.ptr())
                           ? nb::borrow(item)
                           : nb::steal(PyUnicode_AsEncodedString(item.ptr(), "utf-8", "surrogateescape"));
    if (!bytes.is_valid()) throw nb::python_error();
    texts[i++].assign(PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr())));
  }
  if (i != texts.size()) throw Error(ErrorCode::InvalidArgument, "there are fewer strings than the shape says");
  return {tensor};
}

// Elements whose type numpy lacks, as unsigned integers of as many bytes.
Value raw_from(Array bits, const std::string& dtype) {
  const std::optional<DType> known = dtype_from_name(dtype);
  if (!known || element_bytes(*known) * 8 != bits.dtype().bits) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("no element type '{}' of {} bits", dtype, bits.dtype().bits));
  }
  const Tensor plain = to_tensor(std::move(bits), "");
  return {Tensor::view(*known, plain.shape(), const_cast<void*>(plain.raw()), plain.owner())};
}
nb::object raw_of(const Value& value) {
  const Tensor& tensor = tensor_of(value);
  const auto bits = static_cast<uint8_t>(8 * element_bytes(tensor.dtype()));
  return to_array(tensor, {kUnsigned, bits, 1});
}

}  // namespace

Datum to_datum(nb::handle object, const char* name) {
  if (object.is_none()) return {};
  if (nb::isinstance<Value>(object)) return nb::cast<const Value&>(object).datum;
  Array array;
  if (!nb::try_cast(object, array, false)) {
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("input '{}' is a {}, not an array", name, nb::type_name(object.type()).c_str()))
        .with_hint("numpy.asarray makes one");
  }
  return to_tensor(std::move(array), name);
}

void require_writable(nb::handle array, const char* name) {
  nb::ndarray<nb::device::cpu> writable;
  Array any;
  if (nb::isinstance<Value>(array) || nb::try_cast(array, writable, false) || !nb::try_cast(array, any, false)) return;
  throw Error(ErrorCode::InvalidArgument,
              fmt::format("input '{}' is donated, and is an array that cannot be written to", name))
      .with_hint("give a copy: numpy.array(x)");
}

bool is_array_on(nb::handle array, const Tensor& tensor) {
  Array memory;
  return nb::isinstance(array, nb::module_::import_("numpy").attr("ndarray")) && nb::try_cast(array, memory, false) &&
         memory.data() == tensor.raw();
}

nb::object to_python(Datum datum) {
  if (datum.is_none()) return nb::none();
  if (datum.is_tensor()) {
    if (auto native = native_of(datum.tensor().dtype())) return to_array(std::move(datum.tensor()), *native);
  }
  return nb::cast(Value{std::move(datum)});
}

void bind_values(nb::module_& module) {
  nb::class_<Value>(module, "Value", "What has no array of its own: strings, narrow floats, sequences, maps.")
      .def_prop_ro("kind", kind_of)
      .def_prop_ro("dtype", [](const Value& v) { return std::string(name(tensor_of(v).dtype())); })
      .def_prop_ro("shape",
                   [](const Value& v) {
                     const Shape& shape = tensor_of(v).shape();
                     return std::vector<int64_t>(shape.begin(), shape.end());
                   })
      .def("__repr__", [](const Value& v) { return fmt::format("<anfora value {}>", runtime::describe(v.datum)); })
      .def("strings", [](const Value& v) { return strings_of(tensor_of(v)); })
      .def("bits", raw_of, "The elements as unsigned integers of as many bytes.")
      .def("items",
           [](const Value& v) {
             nb::list items;
             for (const Datum& item : v.datum.items()) items.append(to_python(item));
             return items;
           })
      .def("keys", [](const Value& v) { return to_python(v.datum.as_map().keys); })
      .def("values", [](const Value& v) { return to_python(v.datum.as_map().values); })
      .def_static("from_strings", strings_from, nb::arg("strings"), nb::arg("shape"))
      .def_static("from_bits", raw_from, nb::arg("bits"), nb::arg("dtype"))
      .def_static(
          "from_items",
          [](nb::sequence items) {
            std::vector<Datum> data;
            for (nb::handle item : items) data.push_back(to_datum(item, "item"));
            return Value{Datum::sequence(std::move(data))};
          },
          nb::arg("items"))
      .def_static(
          "from_map",
          [](nb::handle keys, nb::handle values) {
            return Value{Datum::map(to_datum(keys, "keys").tensor(), to_datum(values, "values").tensor())};
          },
          nb::arg("keys"), nb::arg("values"));
}

}  // namespace anfora::bindings
