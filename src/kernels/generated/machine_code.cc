#include "kernels/generated/machine_code.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstring>
#include <mutex>

#include "anfora/error.h"
#include "kernels/kernel.h"
#include "support/hash.h"

namespace anfora::kernels::generated {
namespace {

// What is mapped, by the hash of the bytes.
struct MappedCode {
  std::mutex mutex;
  boost::unordered_flat_map<std::pair<uint64_t, uint64_t>, std::weak_ptr<const ExecutableCode>> known;
};

MappedCode& mapped_code() {
  static auto& all = *new MappedCode;  // kernels may be released as the process ends
  return all;
}

}  // namespace

int64_t address_in(const KernelContext& context, size_t input, int64_t element) {
  const Tensor* tensor = context.optional_input(input);
  return tensor ? address_of(tensor->data<float>().data() + element) : 0;
}

std::shared_ptr<const ExecutableCode> ExecutableCode::map(const MachineCode& code) {
  const bool lacks_dots = code.has_byte_dots && !has_byte_dots(code.isa);
  if (!is_supported(code.isa) || lacks_dots) {
    throw Error(ErrorCode::Unsupported, fmt::format("the code was generated for {}{}, which this processor lacks",
                                                    describe(code.isa).name, lacks_dots ? " with VNNI" : ""));
  }
  for (int64_t entry : code.entries) {
    if (entry < 0 || entry >= code.bytes.size())
      throw Error(ErrorCode::InvalidModel, "an entry point lies outside of its code");
  }
  const ContentHash hash = content_hash(code.bytes.raw(), code.bytes.bytes());
  MappedCode& all = mapped_code();
  std::lock_guard lock(all.mutex);
  std::weak_ptr<const ExecutableCode>& known = all.known[{hash.low, hash.high}];
  std::shared_ptr<const ExecutableCode> mapped = known.lock();
  if (!mapped) {
    mapped = std::make_shared<ExecutableCode>(std::as_bytes(code.bytes.data<uint8_t>()));
    known = mapped;
  }
  return mapped;
}

ExecutableCode::ExecutableCode(std::span<const std::byte> bytes) : memory_(nullptr), bytes_(bytes.size()) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(ErrorCode::ResourceExhausted, "no memory for generated code");
  memory_ = static_cast<std::byte*>(memory);
  std::memcpy(memory_, bytes.data(), bytes_);
  if (mprotect(memory_, bytes_, PROT_READ | PROT_EXEC) == 0) return;
  munmap(memory_, bytes_);
  throw Error(ErrorCode::ResourceExhausted, "the system gives no executable memory for generated code");
}

ExecutableCode::~ExecutableCode() { munmap(memory_, bytes_); }

}  // namespace anfora::kernels::generated
