#include "runtime/artifact.h"

#include <fmt/format.h>

#include <boost/unordered/unordered_flat_map.hpp>
#define CEREAL_FUTURE_EXPERIMENTAL  // of which we take UserDataAdapter
#include <cereal/archives/adapters.hpp>
#include <cereal/archives/binary.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <cstring>
#include <mutex>
#include <sstream>

#include "anfora/error.h"
#include "anfora/version.h"
#include "kernels/onednn/onednn_kernels.h"
#include "kernels/registered.h"
#include "support/atomic_file.h"
#include "support/hash.h"
#include "support/mapped_file.h"
#include "support/parallel.h"

// How each structure is written and read: cereal finds these by the namespaces of their arguments.

namespace boost::container {

static void save(cereal::BinaryOutputArchive& archive, const anfora::Shape& shape) {
  archive(std::vector<int64_t>(shape.begin(), shape.end()));
}
static void load(cereal::BinaryInputArchive& archive, anfora::Shape& shape) {
  std::vector<int64_t> sizes;
  archive(sizes);
  shape.assign(sizes.begin(), sizes.end());
}

}  // namespace boost::container

namespace anfora {
namespace {

// Where elements lie in a file.
struct Extent {
  static constexpr int64_t kReleased = -1, kInline = -2;
  uint64_t offset = 0, bytes = 0;  // from the first elements on
  ContentHash sum;

  template <class A>
  void serialize(A& archive) {
    archive(offset, bytes, sum.low, sum.high);
  }
};

// Elements that are to be written.
struct ElementsToWrite {
  std::vector<Extent> extents;
  std::vector<const void*> from;
  boost::unordered_flat_map<std::pair<const void*, size_t>, int64_t> known;
  uint64_t bytes = 0;

  int64_t add(const Tensor& tensor) {
    auto [place, is_new] = known.try_emplace(std::pair(tensor.raw(), tensor.bytes()), std::ssize(extents));
    if (is_new) {
      extents.push_back({bytes, tensor.bytes(), content_hash(tensor.raw(), tensor.bytes())});
      from.push_back(tensor.raw());
      bytes += static_cast<uint64_t>(runtime::aligned(static_cast<int64_t>(tensor.bytes())));
    }
    return place->second;
  }
};

// Elements in a file that is loaded.
struct MappedElements {
  std::shared_ptr<MappedFile> file;
  std::span<const std::byte> bytes;
  std::vector<Extent> extents;

  Tensor get(DType dtype, const Shape& shape, int64_t number) const {
    const Extent& extent = extents.at(static_cast<size_t>(number));
    if (extent.offset > bytes.size() || extent.bytes > bytes.size() - extent.offset)
      throw Error(ErrorCode::InvalidModel, "elements lie outside of the file");
    void* data = const_cast<std::byte*>(bytes.data() + extent.offset);
    return Tensor::view(dtype, shape, data, file);
  }
};

using Writer = cereal::UserDataAdapter<ElementsToWrite, cereal::BinaryOutputArchive>;
using Reader = cereal::UserDataAdapter<MappedElements, cereal::BinaryInputArchive>;

}  // namespace

static void save(cereal::BinaryOutputArchive& archive, const Tensor& tensor) {
  archive(tensor.dtype());
  if (!tensor.defined()) return;
  const bool is_text = tensor.dtype() == DType::String;
  const int64_t place = is_text                          ? Extent::kInline
                        : !tensor.raw() && tensor.size() ? Extent::kReleased
                                                         : cereal::get_user_data<ElementsToWrite>(archive).add(tensor);
  archive(tensor.shape(), place);
  if (!is_text) return;
  for (const std::string& text : tensor.data<std::string>()) archive(text);
}
static void load(cereal::BinaryInputArchive& archive, Tensor& tensor) {
  DType dtype = DType::Undefined;
  archive(dtype);
  if (dtype == DType::Undefined) return void(tensor = Tensor());
  Shape shape;
  int64_t place = 0;
  archive(shape, place);
  if (place == Extent::kReleased) {
    tensor = Tensor::view(dtype, shape, nullptr, nullptr);
  } else if (place == Extent::kInline) {
    tensor = Tensor::allocate(dtype, shape);
    for (std::string& text : tensor.data<std::string>()) archive(text);
  } else {
    tensor = cereal::get_user_data<MappedElements>(archive).get(dtype, shape, place);
  }
}

static void save(cereal::BinaryOutputArchive& archive, const AttributeSet& attributes) {
  archive(std::vector(attributes.begin(), attributes.end()));
}
static void load(cereal::BinaryInputArchive& archive, AttributeSet& attributes) {
  std::vector<AttributeSet::Entry> entries;
  archive(entries);
  attributes = AttributeSet(std::move(entries));
}

static void save(cereal::BinaryOutputArchive& archive, const Datum& datum) {
  archive(datum.kind());
  switch (datum.kind()) {
    case Datum::Kind::None: return;
    case Datum::Kind::Tensor: archive(datum.tensor()); return;
    case Datum::Kind::Sequence:
    case Datum::Kind::Tuple: archive(datum.items()); return;
    case Datum::Kind::Map: archive(datum.as_map().keys, datum.as_map().values); return;
    case Datum::Kind::Function: {
      const auto& closure = static_cast<const runtime::Closure&>(*datum.as_function());
      archive(closure.function, closure.captures);
      return;
    }
  }
}
static void load(cereal::BinaryInputArchive& archive, Datum& datum) {
  Datum::Kind kind{};
  archive(kind);
  switch (kind) {
    case Datum::Kind::None: datum = Datum(); return;
    case Datum::Kind::Tensor: {
      Tensor tensor;
      archive(tensor);
      datum = Datum(std::move(tensor));
      return;
    }
    case Datum::Kind::Sequence:
    case Datum::Kind::Tuple: {
      std::vector<Datum> items;
      archive(items);
      datum = kind == Datum::Kind::Tuple ? Datum::tuple(std::move(items)) : Datum::sequence(std::move(items));
      return;
    }
    case Datum::Kind::Map: {
      Tensor keys, values;
      archive(keys, values);
      datum = Datum::map(std::move(keys), std::move(values));
      return;
    }
    case Datum::Kind::Function: {
      auto closure = std::make_shared<runtime::Closure>();
      archive(closure->function, closure->captures);
      datum = Datum::function(std::move(closure));
      return;
    }
  }
}

namespace kernels {

template <class A>
static void serialize(A& archive, InputDescription& input) {
  archive(input.present, input.dtype, input.shape, input.constant);
}
template <class A>
static void serialize(A& archive, PackedConstant& packed) {
  archive(packed.number, packed.layout, packed.elements);
}

}  // namespace kernels

namespace runtime {

template <class A>
static void serialize(A& archive, SizeExpression::Step& step) {
  archive(step.code, step.operand);
}
static void save(cereal::BinaryOutputArchive& archive, const SizeExpression& size) { archive(size.steps()); }
static void load(cereal::BinaryInputArchive& archive, SizeExpression& size) {
  std::vector<SizeExpression::Step> steps;
  archive(steps);
  size = SizeExpression();
  for (const SizeExpression::Step& step : steps) size.push(step.code, step.operand);
}

template <class A>
static void serialize(A& archive, Instruction& i) {
  archive(i.opcode, i.tail, i.target, i.otherwise, i.split, i.first_operand, i.num_operands, i.first_release,
          i.num_releases, i.result, i.num_results, i.first_output, i.workspace);
}
template <class A>
static void serialize(A& archive, Origin& origin) {
  archive(origin.node, origin.location);
}
template <class A>
static void serialize(A& archive, Kernel& kernel) {
  archive(kernel.op, kernel.attributes, kernel.inputs, kernel.num_outputs, kernel.signature, kernel.implementation, kernel.packed,
          kernel.workspace_bytes, kernel.reference_name, kernel.reusable, kernel.flops_per_element);
}
template <class A>
static void serialize(A& archive, SymbolSource& source) {
  archive(source.main_symbol, source.argument, source.axis, source.scale, source.offset);
}
template <class A>
static void serialize(A& archive, Buffer& buffer) {
  archive(buffer.first, buffer.last, buffer.bytes);
}
template <class A>
static void serialize(A& archive, Slice& slice) {
  archive(slice.output, slice.offset, slice.row_bytes, slice.distance);
}
template <class A>
static void serialize(A& archive, CarriedValue& value) {
  archive(value.bytes, value.places);
}
template <class A>
static void serialize(A& archive, DonatedOutput& donated) {
  archive(donated.output, donated.argument);
}
template <class A>
static void serialize(A& archive, Function& f) {
  archive(f.name, f.num_arguments, f.num_slots, f.code, f.origins, f.operands, f.releases, f.symbols, f.buffers,
          f.output_buffers, f.slices, f.operand_slices, f.carried, f.output_carried, f.result_outputs, f.donated, f.result_arguments);
  if (!f.last_uses) f.last_uses = std::make_unique<bool[]>(f.operands.size());
  for (size_t i = 0; i < f.operands.size(); ++i) archive(f.last_uses[i]);
}

static void save(cereal::BinaryOutputArchive& archive, const Structure& structure) {
  archive(structure.kind, structure.dtype, structure.element != nullptr);
  if (structure.element) archive(*structure.element);
}
static void load(cereal::BinaryInputArchive& archive, Structure& structure) {
  bool has_element = false;
  archive(structure.kind, structure.dtype, has_element);
  if (!has_element) return;
  auto element = std::make_shared<Structure>();
  archive(*element);
  structure.element = std::move(element);
}
template <class A>
static void serialize(A& archive, ValueSpec& spec) {
  archive(spec.name, spec.type, spec.sizes, spec.is_tensor, spec.structure, spec.dtype, spec.dims, spec.otherwise,
          spec.is_donated);
}
template <class A>
static void serialize(A& archive, Signature::Symbol& symbol) {
  archive(symbol.name, symbol.input, symbol.axis, symbol.scale, symbol.offset);
}
template <class A>
static void serialize(A& archive, Signature& signature) {
  archive(signature.inputs, signature.outputs, signature.symbols);
}

namespace {

constexpr char kMagic[8] = {'\x7f', 'A', 'N', 'F', 'O', 'R', 'A', '\n'};
constexpr uint32_t kFormat = 6;

struct Header {
  char magic[8] = {};
  uint32_t format = kFormat;
  uint32_t threads = 0;
  uint64_t record_bytes = 0;
  uint64_t element_bytes = 0;
  ContentHash records;
  char origin[80] = {};  // of what made it, see artifact_origin()
};
static_assert(sizeof(Header) % 8 == 0);

uint64_t begin_of_elements(const Header& header) {
  return static_cast<uint64_t>(aligned(static_cast<int64_t>(sizeof(Header) + header.record_bytes)));
}

void pad(AtomicFile& file, uint64_t to) {
  static constexpr std::byte kZeros[kBufferAlignment] = {};
  file.write(std::span(kZeros, to - file.size()));
}

// The kernel again, from its data.
void prepare(Kernel& kernel, const LoadOptions& options) {
  if (!kernel.is_prepared_by_name()) {
    if (kernel.reference_name.empty()) return;
    if (options.kernels) kernel.reference = options.kernels->find(kernel.reference_name);
    if (!kernel.reference) kernel.reference = kernels::reference_kernels().find(kernel.reference_name);
    return;
  }
  if (kernel.implementation == kernels::kRegistered) {
    kernel.prepared = kernels::prepare_registered(kernel);
    if (kernel.prepared) return;
    throw Error(ErrorCode::NotFound, fmt::format("no kernel is registered for {}", kernel.op))
        .with_hint("register it before the model is loaded");
  }
  std::vector<const kernels::PreparedRegistry*> registries = options.prepared;
  std::ranges::copy(kernels::prepared_kernels(), std::back_inserter(registries));
  for (const kernels::PreparedRegistry* registry : registries) {
    kernel.prepared = registry->load(kernel);
    if (kernel.prepared) return;
  }
  throw Error(ErrorCode::Unsupported,
              fmt::format("the kernel {} of {} cannot be had here", kernel.implementation, kernel.op))
      .with_hint("compile the model on this machine");
}

Header read_header(const MappedFile& file) {
  Header header;
  if (file.size() >= sizeof(Header)) std::memcpy(&header, file.bytes().data(), sizeof(Header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0)
    throw Error(ErrorCode::InvalidModel, "this is no compiled model").with_hint("`anfora compile` writes them");
  const std::string origin(header.origin, strnlen(header.origin, sizeof(header.origin)));
  if (header.format != kFormat || origin != artifact_origin()) {
    throw Error(ErrorCode::Unsupported,
                fmt::format("the model was compiled for {}, and this is {}",
                            header.format == kFormat ? origin : "another version", artifact_origin()))
        .with_hint("compile it again, on this machine");
  }
  if (header.record_bytes > file.size() || header.element_bytes > file.size() ||
      begin_of_elements(header) + header.element_bytes != file.size())
    throw Error(ErrorCode::InvalidModel, "the file is cut off");
  if (content_hash(file.bytes().data() + sizeof(Header), header.record_bytes) != header.records)
    throw Error(ErrorCode::InvalidModel, "the file is damaged");
  return header;
}

void check(const MappedElements& elements) {
  for (const Extent& extent : elements.extents) {
    if (content_hash(elements.bytes.data() + extent.offset, extent.bytes) != extent.sum)
      throw Error(ErrorCode::InvalidModel, "the file is damaged: weights differ from what was written");
  }
}

}  // namespace

std::string artifact_origin() { return fmt::format("anfora {}, {}", ANFORA_VERSION, kernels::onednn_instructions()); }

void save_artifact(const Executable& executable, const std::filesystem::path& path) {
  const Program& program = executable.program();
  static std::mutex saving;
  const std::lock_guard lock(saving);
  for (const std::unique_ptr<Kernel>& kernel : program.kernels) {
    if (kernel->prepared) kernel->prepared->complete();
  }
  ElementsToWrite elements;
  std::ostringstream body;
  {
    Writer archive(elements, body);
    archive(executable.signature(), program.main, program.failures, program.constant_bytes, program.draws,
            program.constants);
    archive(program.functions, program.kernels.size());
    for (const std::unique_ptr<Kernel>& kernel : program.kernels) archive(*kernel);
  }
  std::ostringstream table;
  cereal::BinaryOutputArchive extents(table);
  extents(elements.extents);
  const std::string records = table.str() + body.str();

  Header header{.threads = static_cast<uint32_t>(executable.threads()),
                .record_bytes = records.size(),
                .element_bytes = elements.bytes,
                .records = content_hash(records.data(), records.size())};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const std::string origin = artifact_origin();
  std::memcpy(header.origin, origin.data(), std::min(origin.size(), sizeof(header.origin)));

  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(records);
  const uint64_t begin = begin_of_elements(header);
  for (size_t i = 0; i < elements.extents.size(); ++i) {
    pad(file, begin + elements.extents[i].offset);
    file.write({static_cast<const std::byte*>(elements.from[i]), elements.extents[i].bytes});
  }
  pad(file, begin + elements.bytes);
  file.commit();
}

Executable load_artifact(const std::filesystem::path& path, const LoadOptions& options) try {
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  const Header header = read_header(*file);
  MappedElements elements{.file = file, .bytes = file->bytes().subspan(begin_of_elements(header)), .extents = {}};
  std::istringstream records(std::string(file->text().substr(sizeof(Header), header.record_bytes)));
  cereal::BinaryInputArchive extents(records);
  extents(elements.extents);
  if (options.check_elements) check(elements);

  auto program = std::make_unique<Program>();
  Signature signature;
  Reader archive(elements, records);
  archive(signature, program->main, program->failures, program->constant_bytes, program->draws, program->constants);
  size_t num_kernels = 0;
  archive(program->functions, num_kernels);
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(header.threads);
  with_threads(threads, [&] {  // kernels are prepared for as many as they will run on
    for (size_t i = 0; i < num_kernels; ++i) {
      auto kernel = std::make_unique<Kernel>();
      archive(*kernel);
      prepare(*kernel, options);
      program->kernels.push_back(std::move(kernel));
    }
  });
  return Executable(std::move(program), std::move(signature), threads);
} catch (Error& error) {
  if (error.location().empty()) error.at_location(path.filename().string());
  throw;
} catch (const cereal::Exception& error) {
  throw Error(ErrorCode::InvalidModel, fmt::format("the file is damaged: {}", error.what()))
      .at_location(path.filename().string());
}

}  // namespace runtime
}  // namespace anfora
