#include "kernels/registered.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace anfora::kernels {
namespace {

struct Registered {
  std::shared_mutex mutex;
  std::map<std::string, std::shared_ptr<const RegisteredKernel>> kernels;
};
Registered& registered() {
  static auto* const all = new Registered;  // never destroyed: at exit, other threads may still compile
  return *all;
}

class CallersKernel : public PreparedKernel {
 public:
  explicit CallersKernel(std::shared_ptr<const RegisteredKernel> kernel) : kernel_(std::move(kernel)) {}
  void run(KernelContext& context, State*) const override { (*kernel_)(context); }

 private:
  std::shared_ptr<const RegisteredKernel> kernel_;
};

}  // namespace

void register_kernel(std::string op, RegisteredKernel kernel) {
  const std::lock_guard lock(registered().mutex);
  if (!kernel) {
    registered().kernels.erase(op);
  } else {
    registered().kernels[std::move(op)] = std::make_shared<const RegisteredKernel>(std::move(kernel));
  }
}

std::unique_ptr<PreparedKernel> prepare_registered(KernelData& data) {
  const std::shared_lock lock(registered().mutex);
  auto found = registered().kernels.find(data.op);
  if (found == registered().kernels.end()) return nullptr;
  data.implementation = kRegistered;
  return std::make_unique<CallersKernel>(found->second);
}

}  // namespace anfora::kernels
