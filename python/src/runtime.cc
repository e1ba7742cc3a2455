// anfora._runtime: values and executables as Python sees them, without the compiler.
#include "executable.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <span>

#include "anfora/error.h"
#include "anfora/version.h"
#include "kernels.h"
#include "runtime/artifact.h"
#include "values.h"

namespace anfora::bindings {
namespace {

std::vector<ValueInfo> describe_all(std::span<const runtime::ValueSpec> values) {
  std::vector<ValueInfo> infos;
  for (const runtime::ValueSpec& value : values) {
    ValueInfo info{
        .name = value.name, .type = value.type, .shape = nb::none(), .is_optional = value.otherwise.has_value()};
    if (value.is_tensor) info.dtype = value.dtype == DType::Undefined ? "any" : std::string(name(value.dtype));
    if (value.dims) {
      nb::list shape;
      for (size_t axis = 0; axis < value.dims->size(); ++axis) {
        const runtime::SizeExpression& size = (*value.dims)[axis];
        if (size.is_constant()) {
          shape.append(size.evaluate({}).value());
        } else if (!value.sizes[axis].empty()) {
          shape.append(value.sizes[axis]);
        } else {
          shape.append(nb::none());
        }
      }
      info.shape = std::move(shape);
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

// (operator, implementation, node, location, nanoseconds on time.monotonic_ns(), nanoseconds, inputs, outputs)
nb::tuple describe(const runtime::Profiler::KernelEvent& event) {
  auto nanoseconds = [](auto duration) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  };
  return nb::make_tuple(std::string(event.kernel->op), std::string(event.kernel->implementation), event.origin->node,
                        event.origin->location, nanoseconds(event.begin.time_since_epoch()),
                        nanoseconds(event.end - event.begin), event.inputs, event.outputs);
}

// Errors become exceptions of anfora._errors, which have message, node, location and hint as attributes.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    nb::object made = nb::module_::import_("anfora._errors")
                          .attr("make")(static_cast<int>(error.code()), error.message(), error.node(), error.location(),
                                        error.hint(), error.excerpt());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  }
}

}  // namespace

Executable Executable::load(const std::filesystem::path& path, int threads) {
  Working working;
  return Executable(runtime::load_program(path, threads));
}
void Executable::save(const std::filesystem::path& path) const {
  Working working;
  runtime::save_artifact(program_->executable(), path);
}
std::vector<ValueInfo> Executable::inputs() const { return describe_all(program_->executable().inputs()); }
std::vector<ValueInfo> Executable::outputs() const { return describe_all(program_->executable().outputs()); }

nb::list Executable::run(nb::sequence inputs, int threads, std::optional<uint64_t> seed,
                         const Cancellation* cancellation, std::optional<nb::list> events,
                         std::optional<nb::list> given) {
  std::span<const runtime::ValueSpec> specs = program_->executable().inputs();
  std::vector<Datum> data;
  data.reserve(specs.size());
  for (nb::handle input : inputs) {
    const runtime::ValueSpec* spec = data.size() < specs.size() ? &specs[data.size()] : nullptr;
    if (spec && spec->is_donated) require_writable(input, spec->name.c_str());
    data.push_back(to_datum(input, spec ? spec->name.c_str() : ""));
  }
  std::span<const runtime::ValueSpec> output_specs = program_->executable().outputs();
  std::vector<Datum> results(output_specs.size());
  auto is_given = [&](size_t i) { return given && i < given->size() && !(*given)[i].is_none(); };
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_given(i)) results[i] = to_datum((*given)[i], output_specs[i].name.c_str());
  }
  runtime::Profiler profiler;
  {
    Working working(cancellation);
    program_->run(data, results, {.threads = threads, .profiler = events ? &profiler : nullptr, .seed = seed});
  }
  for (const auto& event : profiler.kernels()) events->append(describe(event));
  nb::list outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const nb::object donated = is_given(i) ? nb::object((*given)[i]) : donated_array(i, results[i], inputs, data);
    outputs.append(donated.is_valid() ? donated : to_python(std::move(results[i])));
  }
  return outputs;
}

nb::dict Executable::memory() const {
  const runtime::MemoryReport report = program_->executable().memory();
  nb::dict result;
  result["arena"] = report.arena_bytes;
  result["arena_lower_bound"] = report.arena_lower_bound;
  result["callee_arenas"] = report.callee_arena_bytes;
  result["blocks"] = report.block_bytes;
  result["constants"] = report.constant_bytes;
  result["donated_results"] = static_cast<int64_t>(report.donated_results);
  return result;
}

// The array among the inputs that has become result i, if there is one.
nb::object Executable::donated_array(size_t i, const Datum& result, const nb::sequence& inputs,
                                     const std::vector<Datum>& data) const {
  const std::optional<size_t> input = program_->executable().donated_input(i);
  if (!input || *input >= data.size() || !data[*input].is_tensor() || !result.is_tensor()) return {};
  const Tensor &was = data[*input].tensor(), &is = result.tensor();
  const bool is_same = was.raw() == is.raw() && was.dtype() == is.dtype() && was.shape() == is.shape();
  nb::object array = inputs[*input];
  return is_same && is_array_on(array, is) ? array : nb::object();
}

NB_MODULE(_runtime, module) {
  nb::register_exception_translator(translate);
  nb::exception<Cancelled>(module, "Cancelled").doc() = "A run ended because its Cancellation asked for it.";
  nb::class_<Cancellation>(module, "Cancellation", "Ends the runs that it was given to, from any thread.")
      .def(nb::init<>())
      .def("cancel", &Cancellation::cancel)
      .def_prop_ro("is_cancelled", &Cancellation::is_cancelled);
  bind_values(module);
  bind_kernels(module);
  module.attr("version") = version();
  module.attr("artifact_origin") = runtime::artifact_origin();
  Dl_info library;
  if (dladdr(reinterpret_cast<const void*>(&version), &library) == 0)
    throw Error(ErrorCode::Internal, "libanfora_runtime has no file");
  module.attr("library_file") = library.dli_fname;

  nb::class_<ValueInfo>(module, "ValueInfo", "An input or an output of a model.")
      .def_ro("name", &ValueInfo::name)
      .def_ro("type", &ValueInfo::type, "As people write it: 'f32[N, 128]', 'seq(f32[?])'.")
      .def_ro("dtype", &ValueInfo::dtype, "Of a tensor: 'f32'; 'any', or empty for what is no tensor.")
      .def_ro("shape", &ValueInfo::shape, "Sizes, names of sizes, and None; None where the rank is not known.")
      .def_ro("is_optional", &ValueInfo::is_optional, "Whether it has a default.")
      .def("__repr__", [](const ValueInfo& v) { return fmt::format("<{}: {}>", v.name, v.type); });

  nb::class_<Executable>(module, "Executable")
      .def_static("load", &Executable::load, nb::arg("path"), nb::arg("threads"))
      .def("save", &Executable::save, nb::arg("path"))
      .def_prop_ro("inputs", &Executable::inputs)
      .def_prop_ro("outputs", &Executable::outputs)
      .def("run", &Executable::run, nb::arg("inputs"), nb::arg("threads") = 0, nb::arg("seed").none() = nb::none(),
           nb::arg("cancellation").none() = nb::none(), nb::arg("events").none() = nb::none(),
           nb::arg("given").none() = nb::none())
      .def("memory", &Executable::memory)
      .def_prop_ro("notes", &Executable::notes)
      .def("missing_kernels", &Executable::missing_kernels);
}

}  // namespace anfora::bindings
