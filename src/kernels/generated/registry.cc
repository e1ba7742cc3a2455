#include "kernels/generated/registry.h"

#include "kernels/generated/attention.h"
#include "kernels/generated/depthwise.h"
#include "kernels/generated/group.h"
#include "kernels/generated/grouped_convolution.h"
#include "kernels/generated/product.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/recurrent.h"
#include "kernels/generated/strassen.h"

namespace anfora::kernels::generated {

const PreparedRegistry& generated_kernels() {
  static const PreparedRegistry registry = [] {
    PreparedRegistry all;
    for (std::string_view name : kStrassenOperators)
      all.add(name, kStrassen, [](KernelData& data) { return prepare_strassen(data, {}); });
    for (std::string_view name : kProducts)
      all.add(name, "generated:product", [](KernelData& data) { return prepare_product(data, nullptr); });
    for (std::string_view name : {kExpansionDepthwise, kConvolution})
      all.add(name, "generated:depthwise", [](KernelData& data) { return prepare_depthwise(data, nullptr); });
    all.add(kConvolution, kGrouped, [](KernelData& data) { return prepare_grouped_convolution(data, nullptr); });
    all.add(kIntegerConvolution, "generated:depthwise", [](KernelData& data) { return prepare_integer_depthwise(data, nullptr); });
    for (std::string_view name : kTiledProducts) {
      for (const std::string& tile : names_of_product_tiles())
        all.add_form(name, tile, [](KernelData& data) { return prepare_product(data, nullptr); });
    }
    all.add("Group", "generated:group", [](KernelData& data) { return prepare_group(data, nullptr); });
    for (const char* name : {"Attention", "LoweredAttention"})
      all.add(name, "generated:attention", [](KernelData& data) { return prepare_attention(data, nullptr); });
    for (const char* name : {"RNN", "LSTM", "GRU"})
      all.add(name, "generated:recurrent", [](KernelData& data) { return prepare_recurrent(data, {}); });
    return all;
  }();
  return registry;
}

}  // namespace anfora::kernels::generated
