#include "driver/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <set>

#include "anfora/error.h"
#include "frontend/onnx/value_proto.h"
#include "support/element_types.h"
#include "support/mapped_file.h"
#include "support/nearest.h"

namespace anfora::driver {

using namespace ir;

namespace {

double edge_value(std::mt19937_64& random) {
  // What kernels are most often wrong about, without the values that turn everything into NaN.
  static constexpr double kValues[] = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 1e-3, -1e-3, 10, -10, 1e-30, 88, -88};
  return kValues[random() % std::size(kValues)];
}

void fill(Tensor& tensor, const IntegerDomain& domain, bool edge, std::mt19937_64& random) {
  DType dtype = tensor.dtype();
  if (dtype == DType::String) {
    static constexpr const char* kWords[] = {"", "a", "anfora", "Vessel 7", "grafo"};
    for (std::string& s : tensor.data<std::string>()) s = kWords[random() % std::size(kWords)];
    return;
  }
  if (dtype == DType::Bool) {
    for (bool& b : tensor.data<bool>()) b = random() & 1;
    return;
  }
  if (is_complex(dtype)) {
    std::normal_distribution<double> normal;
    dispatch<Complexes>(dtype, [&]<class T>() {
      for (T& z : tensor.data<T>()) {
        double real = normal(random), imaginary = normal(random);
        z = T(static_cast<typename T::value_type>(real), static_cast<typename T::value_type>(imaginary));
      }
    });
    return;
  }
  if (is_float(dtype)) {
    std::normal_distribution<float> normal;
    using Any = Join<Join<Floats, Float8s>, TypeList<Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>;
    dispatch<Any>(dtype, [&]<class T>() {
      for (T& x : tensor.data<T>()) {
        double value = edge ? edge_value(random) : normal(random);
        if (!domain.choices.empty()) value = static_cast<double>(domain.choices[random() % domain.choices.size()]);
        if constexpr (std::is_same_v<T, double>) {
          x = value;
        } else {
          x = static_cast<T>(static_cast<float>(value));
        }
      }
    });
    return;
  }
  dispatch<Join<Integers, SubByteIntegers>>(dtype, [&]<class T>() {
    std::uniform_int_distribution<int64_t> uniform(domain.low, domain.high);
    for (T& x : tensor.data<T>()) {
      x = static_cast<T>(domain.choices.empty() ? uniform(random) : domain.choices[random() % domain.choices.size()]);
    }
  });
}

Datum random_datum(const Type* type, const RandomInputs& options, const IntegerDomain& domain, bool edge,
                   std::mt19937_64& random) {
  switch (type->kind()) {
    case TypeKind::Tensor: {
      Shape shape;
      for (Dim d : type->has_rank() ? type->dims() : std::span<const Dim>()) {
        auto size = evaluate(d, [&](std::string_view name) -> std::optional<int64_t> {
          auto given = options.dims.find(name);
          return given == options.dims.end() ? kDefaultDim : given->second;
        });
        shape.push_back(size.value_or(kDefaultDim));
      }
      DType dtype = type->dtype() == DType::Undefined ? DType::F32 : type->dtype();
      Tensor tensor = Tensor::allocate(dtype, shape);
      fill(tensor, domain, edge, random);
      return tensor;
    }
    case TypeKind::Sequence: {
      std::vector<Datum> items;
      for (int64_t i = 0; i < kDefaultDim; ++i)
        items.push_back(random_datum(type->element(), options, domain, edge, random));
      return Datum::sequence(std::move(items));
    }
    case TypeKind::Optional: return random_datum(type->element(), options, domain, edge, random);
    default:
      throw Error(ErrorCode::Unsupported, fmt::format("no random value of type {} can be made", to_string(type)));
  }
}

// Raw bytes stand for the narrow type that the model wants.
Tensor as_wanted(Tensor tensor, const Parameter& parameter) {
  const Type* type = parameter.type();
  if (!type || !type->is_tensor()) return tensor;
  DType want = type->dtype(), got = tensor.dtype();
  bool raw = (got == DType::U16 && want == DType::BF16) ||
             (got == DType::U8 && element_bytes(want) == 1 && want != DType::Bool && want != DType::I8) ||
             (got == DType::I8 && is_sub_byte(want));
  if (!raw) return tensor;
  return Tensor::view(want, tensor.shape(), tensor.raw(), tensor.owner());
}

const Parameter* find_parameter(const Graph& main, std::string_view name) {
  auto at = std::ranges::find(main.parameters(), name, [](const Parameter* p) { return p->name(); });
  return at == main.parameters().end() ? nullptr : *at;
}

}  // namespace

std::set<std::string, std::less<>> symbolic_dims(const Module& module) {
  std::set<std::string, std::less<>> names;
  for (const Parameter* p : module.main()->parameters()) {
    if (!p->type() || !p->type()->is_tensor() || !p->type()->has_rank()) continue;
    for (Dim d : p->type()->dims()) {
      evaluate(d, [&](std::string_view name) -> std::optional<int64_t> {
        names.emplace(name);
        return kDefaultDim;
      });
    }
  }
  return names;
}

void require_dims(const Module& module, const SizeByName& dims) {
  const auto known = symbolic_dims(module);
  for (const auto& [name, size] : dims) {
    if (known.contains(name)) continue;
    throw Error(ErrorCode::InvalidArgument, fmt::format("no input has a dimension '{}'", name))
        .with_hint(known.empty() ? "all of them are known" : fmt::format("there are {}", fmt::join(known, ", ")));
  }
}

Parameter& input_named(const Module& module, std::string_view name) {
  std::vector<std::string> names;
  for (Parameter* p : module.main()->parameters()) {
    if (p->name() == name) return *p;
    names.emplace_back(p->name());
  }
  throw unknown_name("input", name, names);
}

std::vector<Datum> random_inputs(const Module& module, const RandomInputs& options, bool edge) {
  std::mt19937_64 random(options.seed);
  std::vector<Datum> inputs;
  for (Parameter* p : module.main()->parameters()) {
    auto domain = options.domains.find(p->index());
    inputs.push_back(module.default_of(p)
                         ? Datum()
                         : random_datum(p->type(), options,
                                        domain == options.domains.end() ? IntegerDomain{} : domain->second, edge,
                                        random));
  }
  return inputs;
}

Datum read_pb(const std::filesystem::path& path, const Type* type) {
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  try {
    return onnx::read_value(file->text(), type, {.owner = file});
  } catch (Error& error) {
    error.at_location(path.string());
    throw;
  }
}

namespace {

// Whether an argument is NAME=FILE, and not a file with such a name.
bool is_named(const std::string& argument) {
  return argument.find('=') != std::string::npos && !std::filesystem::exists(argument);
}

}  // namespace

std::filesystem::path path_of_input(const std::string& argument) {
  return is_named(argument) ? argument.substr(argument.find('=') + 1) : argument;
}

std::vector<Datum> in_order(const Module& module, const runtime::NamedData& named) {
  std::vector<Datum> data;
  for (const Parameter* p : module.main()->parameters()) {
    auto given = std::ranges::find(named, p->name(), [](const auto& entry) { return std::string_view(entry.first); });
    data.push_back(given == named.end() ? Datum() : given->second);
  }
  return data;
}

runtime::NamedData read_inputs(const Module& module, const std::vector<std::string>& files) {
  const Graph& main = *module.main();
  runtime::NamedData inputs;
  size_t next = 0;
  for (const std::string& argument : files) {
    const bool named = is_named(argument);
    const std::filesystem::path path = path_of_input(argument);
    if (path.extension() == ".npz" && !named) {
      for (auto& [name, tensor] : read_npz(path)) {
        const Parameter* parameter = find_parameter(main, name);
        inputs.emplace_back(name, parameter ? as_wanted(std::move(tensor), *parameter) : std::move(tensor));
      }
      continue;
    }
    if (!named && next >= main.parameters().size()) {
      throw Error(ErrorCode::InvalidArgument, fmt::format("{}: the model has only {} inputs", argument, next));
    }
    std::string name(named ? std::string_view(argument).substr(0, argument.find('=')) : main.parameter(next++)->name());
    const Parameter* parameter = find_parameter(main, name);
    if (path.extension() == ".pb") {
      inputs.emplace_back(name, read_pb(path, parameter ? parameter->type() : nullptr));
    } else {
      Tensor tensor = read_npy(path);
      inputs.emplace_back(name, parameter ? as_wanted(std::move(tensor), *parameter) : std::move(tensor));
    }
  }
  for (const auto& [name, datum] : inputs) input_named(module, name);
  return inputs;
}

}  // namespace anfora::driver
