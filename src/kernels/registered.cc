// The public API for kernels of a caller's own (include/anfora/kernel.h), and how they are found.
#include "kernels/registered.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "anfora/kernel.h"
#include "kernels/operator_signature.h"

namespace anfora {
namespace kernels {
namespace {

struct Registered {
  std::shared_mutex mutex;
  std::map<std::string, std::shared_ptr<const Kernel>, std::less<>> kernels;
  std::atomic<QualifyOperator> qualify = nullptr;
};
Registered& registered() {
  static auto* const all = new Registered;  // never destroyed: at exit, other threads may still compile
  return *all;
}

}  // namespace

struct CallersKernel : PreparedKernel {
  CallersKernel(std::shared_ptr<const Kernel> kernel, const std::string& types) : kernel(std::move(kernel)) {
    if (!types.empty()) signature = parse_signature(types);
  }

  void run(KernelContext& context, State*) const override {
    KernelCall call(context);
    (*kernel)(call);
    if (!signature) return;
    std::vector<Tensor> inputs, outputs;
    for (size_t i = 0; i < call.num_inputs(); ++i) inputs.push_back(call.input(i));
    for (const Tensor* output : call.outputs_) outputs.push_back(output ? *output : Tensor());
    check_results(*signature, inputs, outputs);
  }

  const std::shared_ptr<const Kernel> kernel;
  std::optional<OperatorSignature> signature;
};

bool is_registered(std::string_view op) {
  const std::shared_lock lock(registered().mutex);
  return registered().kernels.contains(op);
}

std::unique_ptr<PreparedKernel> prepare_registered(KernelData& data) {
  const std::shared_lock lock(registered().mutex);
  auto found = registered().kernels.find(data.op);
  if (found == registered().kernels.end()) return nullptr;
  data.implementation = kRegistered;
  return std::make_unique<CallersKernel>(found->second, data.signature);
}

void qualify_operators_by(QualifyOperator qualify) { registered().qualify = qualify; }

}  // namespace kernels

namespace {

std::optional<AttributeDefault> from_value(const AttributeValue& value) {
  return std::visit(
      [](const auto& held) -> std::optional<AttributeDefault> {
        if constexpr (std::is_constructible_v<AttributeDefault, decltype(held)>) return AttributeDefault(held);
        return std::nullopt;
      },
      value);
}

}  // namespace

void register_kernel(std::string_view name, Kernel kernel) {
  kernels::Registered& all = kernels::registered();
  const kernels::QualifyOperator qualify = all.qualify;
  std::string op = qualify ? qualify(name) : std::string(name);
  const std::lock_guard lock(all.mutex);
  if (!kernel) {
    all.kernels.erase(op);
  } else {
    all.kernels[std::move(op)] = std::make_shared<const Kernel>(std::move(kernel));
  }
}

KernelCall::KernelCall(kernels::KernelContext& context) : context_(context), outputs_(context.num_outputs()) {}

size_t KernelCall::num_inputs() const { return context_.num_inputs(); }
const Tensor& KernelCall::input(size_t i) const { return context_.input(i); }
size_t KernelCall::num_outputs() const { return context_.num_outputs(); }

Tensor& KernelCall::output(size_t i, DType dtype, std::span<const int64_t> shape) {
  if (i >= num_outputs())
    throw Error(ErrorCode::InvalidArgument, fmt::format("there is no result {} of {}", i, num_outputs()));
  Tensor& made = context_.allocate_output(i, dtype, shape);
  outputs_[i] = &made;
  return made;
}

AttributeDefault KernelCall::attribute(std::string_view name) const {
  if (const AttributeValue* given = context_.attributes().find(name)) {
    if (auto value = from_value(*given)) return *value;
  }
  throw Error(ErrorCode::InvalidArgument, fmt::format("there is no attribute '{}'", name));
}

template <class T>
T KernelCall::get(std::string_view name) const {
  AttributeDefault value = attribute(name);
  T* held = std::get_if<T>(&value);
  if (!held) throw Error(ErrorCode::InvalidArgument, fmt::format("the attribute '{}' is of another kind", name));
  return std::move(*held);
}
int64_t KernelCall::integer(std::string_view name) const { return get<int64_t>(name); }
float KernelCall::number(std::string_view name) const { return get<float>(name); }
std::string KernelCall::text(std::string_view name) const { return get<std::string>(name); }
std::vector<int64_t> KernelCall::integers(std::string_view name) const { return get<std::vector<int64_t>>(name); }
std::vector<float> KernelCall::numbers(std::string_view name) const { return get<std::vector<float>>(name); }

}  // namespace anfora
