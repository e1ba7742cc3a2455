#include "driver/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "anfora/error.h"
#include "support/element_types.h"

namespace anfora::driver {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeaderBytes = 1 << 20;

struct Description {
  char kind;
  size_t bytes;
  DType dtype;
};
constexpr Description kDescriptions[] = {
    {'f', 4, DType::F32}, {'f', 8, DType::F64}, {'f', 2, DType::F16}, {'b', 1, DType::Bool},  {'i', 1, DType::I8},
    {'i', 2, DType::I16}, {'i', 4, DType::I32}, {'i', 8, DType::I64}, {'u', 1, DType::U8},    {'u', 2, DType::U16},
    {'u', 4, DType::U32}, {'u', 8, DType::U64}, {'c', 8, DType::C64}, {'c', 16, DType::C128},
};

[[noreturn]] void bad(const std::string& what, std::string message) {
  throw Error(ErrorCode::InvalidArgument, fmt::format("{}: {}", what, message));
}

// The value of a key in the header's dictionary, up to the comma that ends it.
std::string_view entry(std::string_view header, std::string_view key, const std::string& what) {
  size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) bad(what, fmt::format("the .npy header has no '{}'", key));
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  size_t end = !rest.empty() && rest[0] == '(' ? rest.find(')') : rest.find_first_of(",}");
  if (end == std::string_view::npos) bad(what, "the .npy header is cut off");
  return rest.substr(0, end);
}

Shape parse_shape(std::string_view text, const std::string& what) {
  Shape shape;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    if (*at < '0' || *at > '9') {
      ++at;
      continue;
    }
    int64_t dim = 0;
    auto [next, status] = std::from_chars(at, end, dim);
    if (status != std::errc()) bad(what, "the .npy header has a dimension that is too large");
    shape.push_back(dim);
    at = next;
  }
  return shape;
}

std::string utf8(std::span<const uint32_t> codes) {
  std::string text;
  for (uint32_t c : codes) {
    if (c == 0) break;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      text += {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)),
               static_cast<char>(0x80 | (c & 63))};
    } else {
      text += {static_cast<char>(0xf0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 63)),
               static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
    }
  }
  return text;
}

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> codes;
  for (size_t i = 0; i < text.size();) {
    unsigned char c = static_cast<unsigned char>(text[i++]);
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    uint32_t code = more == 0 ? c : c & (0x3f >> more);
    for (; more > 0 && i < text.size(); --more) code = (code << 6) | (static_cast<unsigned char>(text[i++]) & 63);
    codes.push_back(code);
  }
  return codes;
}

Tensor parse_npy(std::span<const char> bytes, const std::string& what) {
  if (bytes.size() < 10 || std::string_view(bytes.data(), kMagic.size()) != kMagic)
    bad(what, "this is not a .npy array");
  bool wide = bytes[6] >= 2;
  size_t header_at = wide ? 12 : 10, header_size = 0;
  if (bytes.size() < header_at) bad(what, "the .npy header is cut off");
  for (size_t i = header_at; i-- > 8;) header_size = header_size << 8 | static_cast<unsigned char>(bytes[i]);
  if (header_size > kMostHeaderBytes || header_at + header_size > bytes.size()) bad(what, "the .npy header is cut off");
  std::string_view header(bytes.data() + header_at, header_size);
  std::span<const char> data = bytes.subspan(header_at + header_size);

  std::string_view descr = entry(header, "descr", what);
  if (descr.size() < 4 || descr[0] != '\'') bad(what, "structured arrays are not supported");
  char order = descr[1], kind = descr[2];
  size_t width = 0;
  std::from_chars(descr.data() + 3, descr.data() + descr.size(), width);
  if (order == '>') bad(what, "big-endian arrays are not supported");
  if (entry(header, "fortran_order", what).starts_with("True")) {
    throw Error(ErrorCode::InvalidArgument, what + ": the array is in Fortran order")
        .with_hint("save numpy.ascontiguousarray(a)");
  }
  Shape shape = parse_shape(entry(header, "shape", what), what);
  auto need = [&](size_t element) {
    size_t count = static_cast<size_t>(element_count(shape)), total = 0;
    if (__builtin_mul_overflow(count, element, &total) || total > data.size()) bad(what, "the array is cut off");
    return count;
  };
  if (kind == 'U' || kind == 'S') {
    size_t element = kind == 'U' ? 4 * width : width, count = need(element);
    Tensor t = Tensor::allocate(DType::String, shape);
    for (size_t i = 0; i < count; ++i) {
      const char* from = data.data() + i * element;
      if (kind == 'S') {
        t.data<std::string>()[i] = std::string(from, strnlen(from, width));
      } else {
        std::vector<uint32_t> codes(width);
        std::memcpy(codes.data(), from, element);
        t.data<std::string>()[i] = utf8(codes);
      }
    }
    return t;
  }
  if (kind == 'V' && width <= 2) kind = 'u';
  for (const Description& d : kDescriptions) {
    if (d.kind != kind || d.bytes != width) continue;
    need(width);
    Tensor t = Tensor::allocate(d.dtype, shape);
    if (t.size() > 0) std::memcpy(t.raw(), data.data(), t.bytes());
    return t;
  }
  bad(what, fmt::format("arrays of type {} are not supported", descr));
}

std::string npy_header(const Tensor& t, size_t string_width) {
  std::string descr = fmt::format("|V{}", element_bytes(t.dtype()));
  if (t.dtype() == DType::String) descr = fmt::format("<U{}", string_width);
  for (const Description& d : kDescriptions) {
    if (d.dtype == t.dtype()) descr = fmt::format("{}{}{}", d.bytes == 1 ? '|' : '<', d.kind, d.bytes);
  }
  std::string shape;
  for (int64_t d : t.shape()) shape += fmt::format("{},", d);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  size_t total = (10 + header.size() + 1 + 63) / 64 * 64;  // the data is aligned to 64 bytes
  header.resize(total - 11, ' ');
  header += '\n';
  uint16_t size = static_cast<uint16_t>(header.size());
  return std::string(kMagic) + std::string("\1\0", 2) + static_cast<char>(size & 255) + static_cast<char>(size >> 8) +
         header;
}

std::string npy_bytes(const Tensor& t) {
  if (t.dtype() != DType::String) {
    std::string bytes = npy_header(t, 0);
    bytes.append(static_cast<const char*>(t.raw()), t.bytes());
    return bytes;
  }
  std::vector<std::vector<uint32_t>> codes;
  size_t width = 1;
  for (const std::string& s : t.data<std::string>()) {
    codes.push_back(code_points(s));
    width = std::max(width, codes.back().size());
  }
  std::string bytes = npy_header(t, width);
  for (auto& c : codes) {
    c.resize(width);
    bytes.append(reinterpret_cast<const char*>(c.data()), width * 4);
  }
  return bytes;
}

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;

std::string message_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::NotFound, fmt::format("{}: cannot be opened", path.string()));
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_npy(bytes, path.string());
}

NamedTensors read_npz(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) throw Error(ErrorCode::NotFound, fmt::format("{}: no such file", path.string()));
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard);
  if (!archive) throw Error(ErrorCode::InvalidArgument, fmt::format("{}: {}", path.string(), message_of(code)));
  NamedTensors tensors;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    zip_stat_t info;
    std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0), zip_fclose);
    if (!file || zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &info) != 0) {
      throw Error(ErrorCode::Io, fmt::format("{}: {}", path.string(), zip_strerror(archive.get())));
    }
    std::vector<char> bytes;
    std::vector<char> chunk(1 << 20);
    for (zip_int64_t got; (got = zip_fread(file.get(), chunk.data(), chunk.size())) != 0;) {
      if (got < 0) throw Error(ErrorCode::Io, fmt::format("{}: {} cannot be read", path.string(), info.name));
      bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + got);
    }
    std::string name = info.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    tensors[name] = parse_npy(bytes, fmt::format("{}: {}", path.string(), name));
  }
  return tensors;
}

void write_npz(const std::filesystem::path& path, std::span<const std::pair<std::string, Tensor>> tensors) {
  // libzip writes to a temporary file beside the archive and renames it on close.
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code), zip_discard);
  if (!archive) throw Error(ErrorCode::Io, fmt::format("{}: cannot be written: {}", path.string(), message_of(code)));
  auto check = [&](bool good) {
    if (!good)
      throw Error(ErrorCode::Io, fmt::format("{}: cannot be written: {}", path.string(), zip_strerror(archive.get())));
  };
  std::vector<std::string> contents;
  contents.reserve(tensors.size());  // libzip reads them when it closes the archive
  for (const auto& [name, tensor] : tensors) {
    contents.push_back(npy_bytes(tensor));
    zip_source_t* source = zip_source_buffer(archive.get(), contents.back().data(), contents.back().size(), 0);
    check(source != nullptr);
    zip_int64_t index = zip_file_add(archive.get(), (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(source);
    check(index >= 0);
    check(zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0) == 0);
  }
  if (contents.empty()) {  // libzip deletes an archive without entries
    zip_source_t* source = zip_source_buffer(archive.get(), "", 0, 0);
    check(source && zip_file_add(archive.get(), ".empty", source, 0) >= 0);
  }
  check(zip_close(archive.get()) == 0);
  archive.release();
}

}  // namespace anfora::driver
