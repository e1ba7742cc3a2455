#include "codegen/generated_kernels.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <ranges>
#include <set>
#include <tuple>

#include "anfora/error.h"
#include "codegen/attention.h"
#include "codegen/code_cache.h"
#include "codegen/depthwise.h"
#include "codegen/gather.h"
#include "codegen/group.h"
#include "codegen/machine_code.h"
#include "codegen/product.h"
#include "codegen/strassen.h"
#include "kernels/generated/attention.h"
#include "kernels/generated/convolution_rows.h"
#include "kernels/generated/depthwise.h"
#include "kernels/generated/gathered_rows.h"
#include "kernels/generated/group.h"
#include "kernels/generated/grouped_convolution.h"
#include "kernels/generated/product.h"
#include "kernels/generated/product_layout.h"
#include "kernels/generated/recurrent.h"
#include "kernels/generated/strassen.h"
#include "kernels/generated/winograd_window.h"
#include "support/available_memory.h"
#include "support/hash.h"
#include "support/parallel.h"

namespace anfora::codegen {
namespace {

using kernels::generated::MachineCode;

// Whether there is as much memory as LLVM may take: it ends the program where it gets none.
bool can_compile() { return can_allocate(size_t{64} << 20); }

// Of equal functions once in a process, and once for later ones (code_cache.h). Others are compiled at the same time by other threads.
const MachineCode& shared_code(const Function& function, Isa isa) {
  struct Shared {
    std::once_flag once;
    MachineCode code;
  };
  static std::mutex mutex;
  static auto& known = *new std::map<std::tuple<Isa, uint64_t, uint64_t>, Shared>;
  static const auto& kept = *new CodeCache;
  const std::string key = encoded(function);
  const ContentHash hash = content_hash(key.data(), key.size());
  std::unique_lock lock(mutex);
  Shared& shared = known[{isa, hash.low, hash.high}];
  lock.unlock();
  std::call_once(shared.once, [&] {
    if (auto found = kept.find(isa, key)) {
      shared.code = *std::move(found);
    } else {
      if (!can_compile()) throw Error(ErrorCode::ResourceExhausted, "out of memory: code for these sizes cannot be made");
      shared.code = compile({&function, 1}, isa);
      kept.keep(key, shared.code);
    }
  });
  return shared.code;
}

// Functions that kernels ask for while this thread looks ahead: their preparations end there.
class Ahead {
 public:
  struct CodeIsMissing {};

  Ahead() { looking() = this; }
  ~Ahead() { looking() = nullptr; }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  // Null where kernels are prepared to be used.
  static Ahead*& looking() {
    thread_local Ahead* ahead = nullptr;
    return ahead;
  }

  void add(const Function& function, Isa isa) {
    if (known_.insert({isa, encoded(function)}).second) functions_.emplace_back(function, isa);
  }
  std::vector<std::pair<Function, Isa>> take() { return std::move(functions_); }

 private:
  std::set<std::pair<Isa, std::string>> known_;
  std::vector<std::pair<Function, Isa>> functions_;
};

// Several at a time.
MachineCode shared_code(std::span<const Function> functions, Isa isa) {
  if (Ahead* ahead = Ahead::looking()) {
    for (const Function& function : functions) ahead->add(function, isa);
    throw Ahead::CodeIsMissing();
  }
  std::vector<const MachineCode*> parts(functions.size());
  parallel_for(std::ssize(functions), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) parts[static_cast<size_t>(i)] = &shared_code(functions[static_cast<size_t>(i)], isa);
  });
  return joined(parts);
}

Function function_of_entry(const ProductCode& code, int entry) {
  using namespace kernels::generated;
  if (entry == kGatherEntry) return gather_function(*code.gather, code.isa);
  if (entry == kDequantizeEntry) return dequantizing_function(code);
  return entry > 0 ? product_function(code, entry) : product_function(code.dequantized(), rows_of_dequantized(entry));
}

MachineCode product_code(const ProductCode& code, std::span<const int> rows) {
  std::vector<Function> functions;
  for (int count : rows) functions.push_back(function_of_entry(code, count));
  MachineCode shared = shared_code(functions, code.isa);
  shared.has_byte_dots = code.factors == kernels::generated::Factors::Bytes;
  return shared;
}

MachineCode strassen_code(const kernels::generated::StrassenCode& code, std::span<const int> entries) {
  std::vector<Function> functions;
  for (int entry : entries) functions.push_back(strassen_function(code, entry));
  return shared_code(functions, code.isa);
}

kernels::generated::GeneratedGroup group_code(const kernels::generated::GroupCode& code) {
  const GroupFunction group = group_function(code);
  return {shared_code({&group.function, 1}, code.isa), group.buffers};
}

MachineCode attention_code(const kernels::generated::AttentionCode& code,
                           std::span<const int> numbers) {
  std::vector<Function> functions;
  for (int number : numbers) functions.push_back(attention_function(code, kernels::generated::AttentionEntry::of(number)));
  return shared_code(functions, code.isa);
}

MachineCode depthwise_code(const kernels::generated::DepthwiseCode& code,
                           std::span<const int> numbers) {
  using kernels::generated::DepthwiseEntry;
  std::vector<Function> functions;
  for (const DepthwiseEntry& entry : numbers | std::views::transform(DepthwiseEntry::of))
    functions.push_back(entry.kind == DepthwiseEntry::Kind::Expansion ? product_function(*code.expansion, entry.rows) : depthwise_function(code, entry.rows));
  return shared_code(functions, code.isa);
}

}  // namespace

kernels::generated::ProductGenerator product_generator() { return can_compile() ? product_code : nullptr; }

std::unique_ptr<kernels::PreparedKernel> generate_product(kernels::KernelData& data) {
  return kernels::generated::prepare_product(data, product_code);
}

void compile_ahead(std::span<const std::function<void()>> preparations) {
  std::vector<std::pair<Function, Isa>> functions;
  {
    Ahead ahead;
    for (const std::function<void()>& prepare : preparations) {
      try {
        prepare();
      } catch (const Ahead::CodeIsMissing&) {
      } catch (const Error&) {  // said again when the kernel is prepared to be used
      }
    }
    functions = ahead.take();
  }
  parallel_for(std::ssize(functions), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) shared_code(functions[static_cast<size_t>(i)].first, functions[static_cast<size_t>(i)].second);
  });
}

const kernels::PreparedRegistry& generating_kernels() {
  static const kernels::PreparedRegistry registry = [] {
    kernels::PreparedRegistry all;
    for (std::string_view name : kernels::generated::kStrassenOperators) {
      all.add(name, kernels::generated::kStrassen, [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
        return can_compile() ? kernels::generated::prepare_strassen(data, {strassen_code, product_code}) : nullptr;
      });
    }
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
    all.add(kernels::generated::kConvolution, "generated:depthwise", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
      const bool is_named = !data.implementation.empty();
      if ((!is_named && !kernels::generated::prefers_generated_depthwise(data)) || !can_compile()) return nullptr;
      return kernels::generated::prepare_depthwise(data, depthwise_code);
    });
    all.add(kernels::generated::kConvolution, kernels::generated::kGrouped, [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
      const bool is_named = !data.implementation.empty();
      if ((!is_named && !kernels::generated::prefers_grouped_convolution(data)) || !can_compile()) return nullptr;
      return kernels::generated::prepare_grouped_convolution(data, product_code);
    });
    all.add(kernels::generated::kIntegerConvolution, "generated:depthwise", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
      return can_compile() ? kernels::generated::prepare_integer_depthwise(data, depthwise_code) : nullptr;
    });
    all.add("Group", "generated:group", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
      return can_compile() ? kernels::generated::prepare_group(data, group_code) : nullptr;
    });
    for (const char* name : {"Attention", "LoweredAttention"}) {
      all.add(name, "generated:attention", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
        return can_compile() ? kernels::generated::prepare_attention(data, attention_code) : nullptr;
      });
    }
    for (const char* name : {"RNN", "LSTM", "GRU"}) {
      all.add(name, "generated:recurrent", [](kernels::KernelData& data) -> std::unique_ptr<kernels::PreparedKernel> {
        const bool is_named = !data.implementation.empty(), is_expected_faster = describe(best_isa()).has_fma;
        return (is_named || is_expected_faster) && can_compile() ? kernels::generated::prepare_recurrent(data, {product_code, group_code}) : nullptr;
      });
    }
    return all;
  }();
  return registry;
}

bool has_only_generated_code(std::string_view op) {
  return op == kernels::generated::kExpansionDepthwise || op == kernels::generated::kPointwise || op == kernels::generated::kDequantizedProduct;
}

bool reads_weights(DType dtype) { return kernels::generated::reads_weights(best_isa(), dtype); }

bool pays_here(std::string_view op, const AttributeSet& attributes, std::span<const int64_t> weights) {
  using namespace kernels::generated;
  const bool has_fma = describe(best_isa()).has_fma;
  if (has_only_generated_code(op)) return has_fma;
  Epilogue epilogue;
  if (op != kConvolution || !has_fma || !read_activation(attributes, epilogue) || !is_costly(epilogue.activation)) return true;
  if (weights.size() < 3) return false;
  const int64_t groups = attributes.get_int("group", 1);
  const bool is_depthwise = weights.size() == 4 && weights[1] == 1 && groups == weights[0];
  if (is_depthwise || has_narrow_groups(weights, attributes)) return true;
  return (groups == 1 || has_groups_of_vectors(weights, attributes)) && !prefers_winograd(attributes, Shape(weights.begin(), weights.end()));
}

}  // namespace anfora::codegen
