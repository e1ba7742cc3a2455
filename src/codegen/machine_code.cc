// Machine code by LLVM's backend: an object file in memory, of which the code and its constants become one block of bytes.
#include "codegen/machine_code.h"

#include <fmt/format.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "anfora/error.h"
#include "codegen/lower_to_llvm.h"

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

namespace anfora::codegen {
namespace {

using kernels::generated::MachineCode;

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

// LLVM's names of what an instruction set of ours has.
const char* processor(Isa isa) {
  switch (isa) {
    case Isa::Sse2: return "x86-64";
    case Isa::Avx2: return "x86-64-v3";
    case Isa::Avx512: return "x86-64-v4";
  }
  return "x86-64";
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::Internal, "code generation: " + what); }

template <class T>
T take(llvm::Expected<T> expected) {
  if (!expected) fail(llvm::toString(expected.takeError()));
  return std::move(*expected);
}

void set_option(llvm::StringRef name, bool value) {
  const auto option = llvm::cl::getRegisteredOptions().find(name);
  if (option == llvm::cl::getRegisteredOptions().end()) fail(fmt::format("LLVM has no option '{}'", name.str()));
  static_cast<llvm::cl::opt<bool>*>(option->second)->setValue(value);
}

const llvm::Target& target() {
  static const llvm::Target* const x86 = [] {
    set_option("disable-lsr", true);             // loops come with addresses that are reduced in strength (lower_to_llvm.cc)
    set_option("x86-machine-combiner", false);  // adds up products of several steps before it adds them to sums, and runs out of registers
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    std::string error;
    const llvm::Target* found = llvm::TargetRegistry::lookupTarget(kTriple, error);
    if (!found) fail(error);
    return found;
  }();
  return *x86;
}

// One of each thread: they are not made to be shared, and take a millisecond.
llvm::TargetMachine& target_machine(Isa isa) {
  thread_local std::map<Isa, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[isa];
  if (!machine) {
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    machine.reset(target().createTargetMachine(kTriple, processor(isa), "", options, llvm::Reloc::PIC_,
                                               llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
    if (!machine) fail("no target machine");
  }
  return *machine;
}

// An object file.
llvm::SmallVector<char, 0> emit(std::span<const Function> functions, Isa isa) {
  const IsaDescription& description = kernels::generated::describe(isa);
  llvm::TargetMachine& machine = target_machine(isa);
  llvm::LLVMContext context;
  llvm::Module module("anfora", context);
  module.setTargetTriple(kTriple);
  module.setDataLayout(machine.createDataLayout());
  for (const Function& function : functions) {
    verify(function, description);
    lower_to_llvm(function, description, module);
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) fail("no such output");
  passes.run(module);
  return bytes;
}

// Lays the loaded sections of an object file behind each other, and fills in the distances between them.
class Linker {
 public:
  explicit Linker(const llvm::object::ObjectFile& object) : object_(object) {
    for (const llvm::object::SectionRef& section : object.sections()) place(section);
    for (const llvm::object::SectionRef& section : object.sections()) {
      const auto patched = take(section.getRelocatedSection());
      if (patched == object.section_end() || !offsets_.contains(patched->getIndex())) continue;
      for (const llvm::object::RelocationRef& relocation : section.relocations()) patch(*patched, relocation);
    }
  }

  int64_t offset_of(const std::string& name) const {
    for (const llvm::object::SymbolRef& symbol : object_.symbols()) {
      if (take(symbol.getName()) == name) return static_cast<int64_t>(offset_of(symbol));
    }
    fail(fmt::format("the object file has no '{}'", name));
  }
  std::span<const char> bytes() const { return bytes_; }

 private:
  void place(const llvm::object::SectionRef& section) {
    const llvm::object::ELFSectionRef elf(section);
    const bool is_loaded = (elf.getFlags() & llvm::ELF::SHF_ALLOC) != 0 && section.getSize() > 0;
    if (!is_loaded || take(section.getName()).starts_with(".eh_frame")) return;
    if ((elf.getFlags() & llvm::ELF::SHF_WRITE) != 0) fail("code with variables");
    const llvm::StringRef contents = take(section.getContents());
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    offsets_[section.getIndex()] = bytes_.size();
    bytes_.insert(bytes_.end(), contents.begin(), contents.end());
  }

  uint64_t offset_of(const llvm::object::SymbolRef& symbol) const {
    const auto section = take(symbol.getSection());
    if (section == object_.section_end() || !offsets_.contains(section->getIndex()))
      fail(fmt::format("code refers to '{}' outside of it", std::string(take(symbol.getName()))));
    return offsets_.at(section->getIndex()) + take(symbol.getValue());
  }

  void patch(const llvm::object::SectionRef& section, const llvm::object::RelocationRef& relocation) {
    const uint64_t type = relocation.getType();
    if (type != llvm::ELF::R_X86_64_PC32 && type != llvm::ELF::R_X86_64_PLT32)
      fail(fmt::format("a relocation of type {}", type));
    const uint64_t at = offsets_.at(section.getIndex()) + relocation.getOffset();
    const int64_t addend = take(llvm::object::ELFRelocationRef(relocation).getAddend());
    const auto distance = static_cast<int32_t>(static_cast<int64_t>(offset_of(*relocation.getSymbol())) + addend -
                                               static_cast<int64_t>(at));
    std::memcpy(bytes_.data() + at, &distance, sizeof(distance));
  }

  static constexpr size_t kAlignment = 64;
  const llvm::object::ObjectFile& object_;
  std::vector<char> bytes_;
  std::map<uint64_t, uint64_t> offsets_;  // by section
};

}  // namespace

MachineCode compile(std::span<const Function> functions, Isa isa) {
  const llvm::SmallVector<char, 0> object = emit(functions, isa);
  const llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), object.size()), "generated code");
  const auto file = take(llvm::object::ObjectFile::createELFObjectFile(buffer));
  const Linker linker(*file);
  MachineCode code{.isa = isa, .entries = {}, .bytes = Tensor::allocate(DType::U8, Shape{std::ssize(linker.bytes())})};
  std::memcpy(code.bytes.raw(), linker.bytes().data(), linker.bytes().size());
  for (const Function& function : functions) code.entries.push_back(linker.offset_of(function.name));
  return code;
}

MachineCode joined(std::span<const MachineCode* const> parts) {
  constexpr int64_t kPartAlignment = 64;
  MachineCode all{.isa = parts.front()->isa, .entries = {}, .bytes = {}};
  int64_t size = 0;
  std::vector<int64_t> begins;
  for (const MachineCode* part : parts) {
    begins.push_back((size + kPartAlignment - 1) / kPartAlignment * kPartAlignment);
    size = begins.back() + part->bytes.size();
    for (int64_t entry : part->entries) all.entries.push_back(begins.back() + entry);
  }
  all.bytes = Tensor::zeros(DType::U8, Shape{size});
  for (size_t i = 0; i < parts.size(); ++i)
    std::memcpy(static_cast<std::byte*>(all.bytes.raw()) + begins[i], parts[i]->bytes.raw(), static_cast<size_t>(parts[i]->bytes.size()));
  return all;
}

}  // namespace anfora::codegen
