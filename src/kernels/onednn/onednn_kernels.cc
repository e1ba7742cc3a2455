#include "kernels/onednn/onednn_kernels.h"

#include <oneapi/dnnl/dnnl_debug.h>

#include <array>
#include <dnnl.hpp>

#include "kernels/generated/registry.h"
#include "kernels/onednn/families.h"
#include "kernels/reference/prepared.h"

namespace anfora::kernels {

const PreparedRegistry& onednn_kernels() {
  static const PreparedRegistry registry = [] {
    PreparedRegistry all;
#define ANFORA_REGISTER_FAMILY(family) onednn::register_##family(all);
    ANFORA_ONEDNN_FAMILIES(ANFORA_REGISTER_FAMILY)
#undef ANFORA_REGISTER_FAMILY
    return all;
  }();
  return registry;
}

std::span<const PreparedRegistry* const> prepared_kernels() {
  static const std::array registries{&generated::generated_kernels(), &onednn_kernels(), &prepared_reference_kernels()};
  return registries;
}

std::string_view onednn_instructions() {
  const std::string_view name = dnnl_cpu_isa2str(static_cast<dnnl_cpu_isa_t>(dnnl::get_effective_cpu_isa()));
  constexpr std::string_view kPrefix = "cpu_isa_";
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

}  // namespace anfora::kernels
