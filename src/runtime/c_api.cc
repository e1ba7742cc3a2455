// The public API for C (include/anfora/runtime.h): errors are values, and memory has plain owners.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "anfora/error.h"
#include "anfora/runtime.h"
#include "anfora/version.h"
#include "runtime/public_executable.h"

struct anfora_executable {
  std::vector<anfora::ValueInfo> inputs, outputs;
  std::unique_ptr<anfora::runtime::RunnableProgram> program;
};

namespace anfora {
namespace {

static_assert(static_cast<int>(DType::F6E3M2) == ANFORA_F6E3M2 && kDTypeCount == ANFORA_F6E3M2 + 1);
static_assert(static_cast<int>(DType::String) == ANFORA_STRING && static_cast<int>(DType::U4) == ANFORA_U4);
static_assert(static_cast<int>(ErrorCode::Internal) + 1 == ANFORA_INTERNAL);
static_assert(kUnknownSize == ANFORA_UNKNOWN_SIZE);

struct LastError {
  std::string message, hint;
};
thread_local LastError last_error;

anfora_status failed(anfora_status status, const char* message) noexcept {
  try {
    last_error.message = message;
    last_error.hint.clear();
  } catch (const std::bad_alloc&) {
    last_error.message.clear();
  }
  return status;
}

anfora_status failed(const Error& error) noexcept {
  try {
    std::string message;
    for (const std::string* part : {&error.location(), &error.node(), &error.message()})
      message += (message.empty() || part->empty() ? "" : ": ") + *part;
    last_error = {std::move(message), error.hint()};
  } catch (const std::bad_alloc&) {
    failed(ANFORA_RESOURCE_EXHAUSTED, "");
  }
  return static_cast<anfora_status>(static_cast<int>(error.code()) + 1);
}

// No exception leaves it.
template <class F>
anfora_status guarded(F&& work) noexcept {
  try {
    work();
    return ANFORA_OK;
  } catch (const Error& error) {
    return failed(error);
  } catch (const std::bad_alloc&) {
    return failed(ANFORA_RESOURCE_EXHAUSTED, "memory is short");
  } catch (const std::exception& error) {
    return failed(ANFORA_INTERNAL, error.what());
  } catch (...) {
    return failed(ANFORA_INTERNAL, "something was thrown that is no exception");
  }
}

Error invalid(std::string message, std::string hint = "") {
  return Error(ErrorCode::InvalidArgument, std::move(message)).with_hint(std::move(hint));
}
void require(const void* pointer, const char* name) {
  if (!pointer) throw invalid(fmt::format("{} is NULL", name));
}

void describe_at(const std::vector<ValueInfo>& infos, size_t position, const char* what, anfora_value_info* info) {
  require(info, "info");
  if (position >= infos.size())
    throw invalid(fmt::format("there is no {} {}: the model has {}", what, position, infos.size()));
  const ValueInfo& value = infos[position];
  *info = {value.name.c_str(), value.type.c_str(), static_cast<anfora_type>(value.dtype),
           value.has_rank ? static_cast<int>(value.shape.size()) : ANFORA_UNKNOWN_RANK, value.shape.data()};
}

// The caller's memory as a tensor.
Tensor tensor_on(const anfora_tensor& given, const char* what, const std::string& name) {
  const int type = static_cast<int>(given.type);
  if (type <= 0 || type >= kDTypeCount) throw invalid(fmt::format("{} '{}' has no element type {}", what, name, type));
  if (given.rank < 0) throw invalid(fmt::format("{} '{}' has the rank {}", what, name, given.rank));
  if (given.rank > 0) require(given.shape, "shape");
  const std::span<const int64_t> shape(given.shape, static_cast<size_t>(given.rank));
  const int64_t count = element_count(shape);
  if (count > 0 && !given.data) throw invalid(fmt::format("{} '{}' has no data", what, name));
  const auto dtype = static_cast<DType>(type);
  if (dtype != DType::String) return Tensor::view(dtype, shape, given.data, nullptr);
  Tensor strings = Tensor::allocate(DType::String, shape);
  const auto* from = static_cast<const anfora_string*>(given.data);
  for (std::string& text : strings.data<std::string>()) {
    if (from->size > 0) text.assign(from->data, from->size);
    ++from;
  }
  return strings;
}

// What the run made, as long as the caller needs it.
struct Made {
  Tensor tensor;
  std::vector<anfora_string> strings;
};

std::unique_ptr<Made> made_of(const Datum& result, const ValueInfo& info) {
  if (!result.is_tensor())
    throw Error(ErrorCode::Unsupported, fmt::format("output '{}' is {}, not a tensor", info.name, info.type));
  auto made = std::make_unique<Made>(Made{result.tensor(), {}});
  if (made->tensor.dtype() != DType::String) return made;
  for (const std::string& text : std::as_const(made->tensor).data<std::string>())
    made->strings.push_back({text.data(), text.size()});
  return made;
}

void run(const anfora_executable& executable, std::span<const anfora_tensor> inputs, std::span<anfora_tensor> outputs) {
  if (inputs.size() > executable.inputs.size())
    throw invalid(fmt::format("{} inputs given, the model takes {}", inputs.size(), executable.inputs.size()));
  if (outputs.size() != executable.outputs.size())
    throw invalid(
        fmt::format("there is room for {} outputs, the model has {}", outputs.size(), executable.outputs.size()));
  std::vector<Datum> data(inputs.size()), results(outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type != ANFORA_UNDEFINED) data[i] = tensor_on(inputs[i], "input", executable.inputs[i].name);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].data) continue;
    if (outputs[i].type == ANFORA_STRING)
      throw invalid(
          fmt::format("output '{}' has strings, which are not written to given memory", executable.outputs[i].name),
          "set data to NULL");
    results[i] = tensor_on(outputs[i], "output", executable.outputs[i].name);
  }
  executable.program->run(data, results);

  std::vector<std::unique_ptr<Made>> made(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].data) made[i] = made_of(results[i], executable.outputs[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!made[i]) continue;
    Tensor& tensor = made[i]->tensor;
    const bool is_text = tensor.dtype() == DType::String;
    outputs[i] = {static_cast<anfora_type>(tensor.dtype()), tensor.rank(), tensor.shape().data(),
                  is_text ? made[i]->strings.data() : tensor.raw(), nullptr};
    outputs[i].owner = made[i].release();
  }
}

}  // namespace
}  // namespace anfora

const char* anfora_version(void) { return anfora::version(); }

size_t anfora_type_bytes(anfora_type type) {
  if (type <= ANFORA_UNDEFINED || static_cast<int>(type) >= anfora::kDTypeCount) return 0;
  return type == ANFORA_STRING ? sizeof(anfora_string) : anfora::element_bytes(static_cast<anfora::DType>(type));
}

const char* anfora_error_message(void) { return anfora::last_error.message.c_str(); }
const char* anfora_error_hint(void) { return anfora::last_error.hint.c_str(); }

anfora_status anfora_load(const char* path, int threads, anfora_executable** executable) {
  return anfora::guarded([&] {
    anfora::require(executable, "executable");
    *executable = nullptr;
    anfora::require(path, "path");
    auto loaded = std::make_unique<anfora_executable>();
    loaded->program = anfora::runtime::load_program(path, threads);
    loaded->inputs = anfora::runtime::value_infos(loaded->program->executable().inputs());
    loaded->outputs = anfora::runtime::value_infos(loaded->program->executable().outputs());
    *executable = loaded.release();
  });
}
void anfora_free(anfora_executable* executable) { delete executable; }

size_t anfora_num_inputs(const anfora_executable* executable) { return executable ? executable->inputs.size() : 0; }
size_t anfora_num_outputs(const anfora_executable* executable) { return executable ? executable->outputs.size() : 0; }

anfora_status anfora_input(const anfora_executable* executable, size_t position, anfora_value_info* info) {
  return anfora::guarded([&] {
    anfora::require(executable, "executable");
    anfora::describe_at(executable->inputs, position, "input", info);
  });
}
anfora_status anfora_output(const anfora_executable* executable, size_t position, anfora_value_info* info) {
  return anfora::guarded([&] {
    anfora::require(executable, "executable");
    anfora::describe_at(executable->outputs, position, "output", info);
  });
}

anfora_status anfora_run(const anfora_executable* executable, const anfora_tensor* inputs, size_t num_inputs,
                         anfora_tensor* outputs, size_t num_outputs) {
  return anfora::guarded([&] {
    anfora::require(executable, "executable");
    if (num_inputs > 0) anfora::require(inputs, "inputs");
    if (num_outputs > 0) anfora::require(outputs, "outputs");
    anfora::run(*executable, {inputs, num_inputs}, {outputs, num_outputs});
  });
}

void anfora_release(anfora_tensor* tensor) {
  if (!tensor || !tensor->owner) return;
  delete static_cast<anfora::Made*>(tensor->owner);
  *tensor = {};
}
