#include "codegen/generated_kernels.h"

#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "codegen/attention.h"
#include "codegen/depthwise.h"
#include "codegen/group.h"
#include "codegen/machine_code.h"
#include "codegen/product.h"
#include "kernels/generated/attention.h"
#include "kernels/generated/depthwise.h"
#include "kernels/generated/group.h"
#include "kernels/generated/product.h"

namespace anfora::codegen {
namespace {

using kernels::generated::MachineCode;

// Equal layers share their code: it is made once in a process.
MachineCode product_code(const ProductCode& code, std::span<const int> rows) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::vector<int64_t>, MachineCode>;
  std::vector<int64_t> key = code.numbers();
  key.insert(key.end(), rows.begin(), rows.end());
  std::lock_guard lock(mutex);
  auto [place, is_new] = known.try_emplace(std::move(key));
  if (is_new) {
    std::vector<Function> functions;
    for (int count : rows) functions.push_back(product_function(code, count));
    place->second = compile(functions, code.isa);
    place->second.has_byte_dots = code.factors == kernels::generated::Factors::Bytes;
  }
  return place->second;
}

// Of equal functions once in a process. Others are compiled at the same time by other threads.
const MachineCode& shared_code(const Function& function, Isa isa) {
  struct Shared {
    std::once_flag once;
    MachineCode code;
  };
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<Isa, std::string>, Shared>;
  std::unique_lock lock(mutex);
  Shared& shared = known[{isa, to_string(function)}];
  lock.unlock();
  std::call_once(shared.once, [&] { shared.code = compile({&function, 1}, isa); });
  return shared.code;
}

kernels::generated::GeneratedGroup group_code(const kernels::generated::GroupCode& code) {
  const GroupFunction group = group_function(code);
  return {shared_code(group.function, code.isa), group.buffers};
}

MachineCode attention_code(const kernels::generated::AttentionCode& code,
                           std::span<const kernels::generated::AttentionEntry> entries) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, MachineCode>;
  std::vector<Function> functions;
  std::string text(1, static_cast<char>(code.isa));
  for (const kernels::generated::AttentionEntry& entry : entries) {
    functions.push_back(attention_function(code, entry));
    text += to_string(functions.back());
  }
  std::lock_guard lock(mutex);
  auto [place, is_new] = known.try_emplace(std::move(text));
  if (is_new) place->second = compile(functions, code.isa);
  return place->second;
}

MachineCode depthwise_code(const kernels::generated::DepthwiseCode& code,
                           std::span<const kernels::generated::DepthwiseEntry> entries) {
  using Kind = kernels::generated::DepthwiseEntry::Kind;
  std::vector<const MachineCode*> parts;
  for (const auto& entry : entries) {
    const bool is_expansion = entry.kind == Kind::Expansion;
    parts.push_back(&shared_code(
        is_expansion ? product_function(code.expansion, entry.rows) : depthwise_function(code, entry.rows), code.isa));
  }
  return joined(parts);
}

// Whether there is as much memory as LLVM may take: it ends the program where it gets none.
bool can_compile() {
  constexpr size_t kEnough = size_t{64} << 20;
  return std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[kEnough]) != nullptr;
}

}  // namespace

std::unique_ptr<kernels::PreparedKernel> generate_product(kernels::KernelData& data) {
  return kernels::generated::prepare_product(data, product_code);
}

const kernels::PreparedRegistry& generating_kernels() {
  static const kernels::PreparedRegistry registry = [] {
    kernels::PreparedRegistry all;
    for (std::string_view name : kernels::generated::kProducts) {
      all.add(name, "generated:product", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
        const bool is_named = !data.implementation.empty();
        if ((!is_named && !kernels::generated::prefers_generated_product(data)) || !can_compile()) return nullptr;
        return generate_product(data);
      });
    }
    all.add(kernels::generated::kExpansionDepthwise, "generated:depthwise",
            [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
              return can_compile() ? kernels::generated::prepare_depthwise(data, depthwise_code) : nullptr;
            });
    for (std::string_view name : kernels::generated::kTiledProducts) {
      for (const std::string& tile : kernels::generated::names_of_product_tiles()) {
        all.add_form(name, tile, [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
          return can_compile() ? generate_product(data) : nullptr;
        });
      }
    }
    all.add("Group", "generated:group", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
      return can_compile() ? kernels::generated::prepare_group(data, group_code) : nullptr;
    });
    for (const char* name : {"Attention", "LoweredAttention"}) {
      all.add(name, "generated:attention", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
        return can_compile() ? kernels::generated::prepare_attention(data, attention_code) : nullptr;
      });
    }
    return all;
  }();
  return registry;
}

bool pays_here(std::string_view op) {
  using namespace kernels::generated;
  return op != kExpansionDepthwise || describe(best_isa()).has_fma;
}

}  // namespace anfora::codegen
