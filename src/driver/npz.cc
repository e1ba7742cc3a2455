#include "driver/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <charconv>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "anfora/error.h"
#include "support/atomic_file.h"
#include "support/element_types.h"
#include "support/mapped_file.h"

namespace anfora::driver {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// As NumPy: a longer header is not worth the risk of parsing it, more dimensions are none of its arrays'.
constexpr size_t kMostHeaderBytes = 10'000;
constexpr size_t kMostDimensions = 64;
// An archive of no entries, which libzip does not write: the record at its end.
constexpr std::string_view kEmptyArchive("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);

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

// The dictionary in front of an array's bytes: a literal of Python with exactly three keys.
//
//     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Header {
 public:
  Header(std::string_view text, const std::string& what) : rest_(text), what_(what) {
    expect('{');
    while (!accept('}')) {
      std::string_view key = string();
      expect(':');
      if (key == "descr") {
        require(!descr_, "'descr' twice");
        if (next() != '\'' && next() != '"') bad(what_, "structured arrays are not supported");
        descr_ = string();
      } else if (key == "fortran_order") {
        require(!fortran_order_, "'fortran_order' twice");
        fortran_order_ = truth();
      } else if (key == "shape") {
        require(!shape_, "'shape' twice");
        shape_ = dimensions();
      } else {
        bad(what_, fmt::format("the .npy header has an unknown key '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    require(next() == '\0', "something after its end");
    require(descr_.has_value(), "no 'descr'");
    require(fortran_order_.has_value(), "no 'fortran_order'");
    require(shape_.has_value(), "no 'shape'");
  }

  std::string_view descr() const { return *descr_; }
  bool fortran_order() const { return *fortran_order_; }
  const Shape& shape() const { return *shape_; }

 private:
  void require(bool holds, std::string_view otherwise) const {
    if (!holds) bad(what_, fmt::format("the .npy header has {}", otherwise));
  }
  // The next character that is no space; 0: none.
  char next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool accept(char c) {
    if (next() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(what_, fmt::format("the .npy header is broken: '{}' is missing", c));
  }
  std::string_view string() {
    const char quote = next();
    require(quote == '\'' || quote == '"', "a key that is no string");
    const size_t end = rest_.find(quote, 1);
    require(end != std::string_view::npos, "a string without an end");
    std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    next();
    const bool is_true = rest_.starts_with("True");
    require(is_true || rest_.starts_with("False"), "a 'fortran_order' that is neither True nor False");
    rest_.remove_prefix(is_true ? 4 : 5);
    return is_true;
  }
  Shape dimensions() {
    Shape shape;
    require(accept('('), "a 'shape' that is no tuple");
    bool has_comma = true;  // (3) is a number, (3,) a tuple
    while (!accept(')')) {
      require(has_comma, "a 'shape' that is no tuple");
      int64_t dim = 0;
      next();
      auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      require(status != std::errc::result_out_of_range, "a dimension that is too large");
      require(status == std::errc() && dim >= 0, "a dimension that is no size");
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // as Python 2 wrote it
      shape.push_back(dim);
      has_comma = accept(',');
    }
    require(shape.size() != 1 || has_comma, "a 'shape' that is no tuple");
    require(shape.size() <= kMostDimensions, fmt::format("more than {} dimensions", kMostDimensions));
    return shape;
  }

  std::string_view rest_;
  const std::string& what_;
  std::optional<std::string_view> descr_;
  std::optional<bool> fortran_order_;
  std::optional<Shape> shape_;
};

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

// The bytes of a .npy file, from its beginning on.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t remaining() const = 0;           // at most
  virtual bool read(void* into, size_t bytes) = 0;  // false: there are not so many
};

class BytesInMemory : public ByteSource {
 public:
  explicit BytesInMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t remaining() const override { return bytes_.size(); }
  bool read(void* into, size_t bytes) override {
    if (bytes > bytes_.size()) return false;
    if (bytes > 0) std::memcpy(into, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

Header read_header(ByteSource& source, std::string& text, const std::string& what) {
  unsigned char start[8], size[4] = {};
  if (!source.read(start, sizeof start) ||
      std::string_view(reinterpret_cast<const char*>(start), kMagic.size()) != kMagic) {
    bad(what, "this is not a .npy array");
  }
  if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
    bad(what, fmt::format("version {}.{} of the .npy format is not known", start[6], start[7]));
  }
  if (!source.read(size, start[6] == 1 ? 2 : 4)) bad(what, "the .npy header is cut off");
  const size_t bytes = size[0] | size[1] << 8 | size[2] << 16 | static_cast<size_t>(size[3]) << 24;
  if (bytes > kMostHeaderBytes) bad(what, fmt::format("the .npy header has {} bytes", bytes));
  text.resize(bytes);
  if (!source.read(text.data(), bytes)) bad(what, "the .npy header is cut off");
  return Header(text, what);
}

Tensor read_array(ByteSource& source, const std::string& what) {
  std::string text;
  const Header header = read_header(source, text, what);
  const std::string_view descr = header.descr();
  const char order = descr.empty() ? '\0' : descr[0];
  char kind = descr.size() < 2 ? '\0' : descr[1];
  size_t width = 0;
  const char* end = descr.data() + descr.size();
  const bool is_known = std::string_view("<|=>").find(order) != std::string_view::npos && descr.size() > 2 &&
                        std::from_chars(descr.data() + 2, end, width).ptr == end;
  if (!is_known) bad(what, fmt::format("arrays of type '{}' are not supported", descr));
  if (order == '>') bad(what, "big-endian arrays are not supported");
  if (header.fortran_order()) {
    throw Error(ErrorCode::InvalidArgument, what + ": the array is in Fortran order")
        .with_hint("save numpy.ascontiguousarray(a)");
  }
  const Shape& shape = header.shape();
  // Checked before anything is allocated.
  auto need = [&](size_t element) {
    size_t total = element;
    bool is_empty = false, overflows = false;
    for (int64_t dim : shape) {
      is_empty = is_empty || dim == 0;
      overflows = __builtin_mul_overflow(total, static_cast<size_t>(dim), &total) || overflows;
    }
    if (!is_empty && (overflows || total > source.remaining())) bad(what, "the array is cut off");
  };
  auto read = [&](void* into, size_t bytes) {
    if (!source.read(into, bytes)) bad(what, "the array is cut off");
  };
  if (kind == 'U' || kind == 'S') {
    size_t element = width;
    if (width == 0 || (kind == 'U' && __builtin_mul_overflow(width, size_t{4}, &element))) {
      bad(what, fmt::format("arrays of type '{}' are not supported", descr));
    }
    need(element);
    Tensor t = Tensor::allocate(DType::String, shape);
    if (t.size() == 0) return t;
    std::string bytes(kind == 'S' ? width : 0, '\0');
    std::vector<uint32_t> codes(kind == 'U' ? width : 0);
    for (std::string& s : t.data<std::string>()) {
      read(kind == 'S' ? static_cast<void*>(bytes.data()) : codes.data(), element);
      s = kind == 'S' ? std::string(bytes, 0, strnlen(bytes.data(), width)) : utf8(codes);
    }
    return t;
  }
  if (kind == 'V' && width <= 2) kind = 'u';
  for (const Description& d : kDescriptions) {
    if (d.kind != kind || d.bytes != width) continue;
    need(width);
    Tensor t = Tensor::allocate(d.dtype, shape);
    read(t.raw(), t.bytes());
    if (d.dtype == DType::Bool) {  // any byte but 0 is true to NumPy, but no bool of C++
      for (char& byte : std::span(static_cast<char*>(t.raw()), t.bytes())) byte = byte != 0;
    }
    return t;
  }
  bad(what, fmt::format("arrays of type '{}' are not supported", descr));
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

// What stands behind the header: the tensor's own bytes, or `text` filled with those of its strings.
std::span<const char> elements(const Tensor& t, std::string& text, size_t& string_width) {
  if (t.dtype() != DType::String) return {static_cast<const char*>(t.raw()), t.bytes()};
  std::vector<std::vector<uint32_t>> codes;
  string_width = 1;
  for (const std::string& s : t.data<std::string>()) {
    codes.push_back(code_points(s));
    string_width = std::max(string_width, codes.back().size());
  }
  for (auto& c : codes) {
    c.resize(string_width);
    text.append(reinterpret_cast<const char*>(c.data()), string_width * 4);
  }
  return text;
}

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;

class Entry : public ByteSource {
 public:
  // `archive` is named in errors.
  Entry(zip_t* zip, zip_uint64_t index, const std::string& archive)
      : file_(zip_fopen_index(zip, index, 0), zip_fclose), archive_(archive) {
    zip_stat_t info;
    if (!file_ || zip_stat_index(zip, index, 0, &info) != 0) {
      throw Error(ErrorCode::Io, fmt::format("{}: {}", archive, zip_strerror(zip)));
    }
    name = info.name;
    remaining_ = info.size;
  }

  uint64_t remaining() const override { return remaining_; }
  bool read(void* into, size_t bytes) override {
    if (bytes > remaining_) return false;
    remaining_ -= bytes;
    for (char* at = static_cast<char*>(into); bytes > 0;) {
      const zip_int64_t got = zip_fread(file_.get(), at, std::min(bytes, kChunk));
      if (got < 0) throw Error(ErrorCode::Io, fmt::format("{}: {} cannot be read", archive_, name));
      if (got == 0) return false;
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

  std::string name;

 private:
  static constexpr size_t kChunk = size_t{1} << 24;
  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file_;
  const std::string& archive_;
  uint64_t remaining_ = 0;
};

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  BytesInMemory bytes(file->bytes());
  return read_array(bytes, path.string());
}

NamedTensors read_npz(const std::filesystem::path& path) {
  const std::string file_name = path.string();
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(file->bytes().data(), file->size(), 0, &error);
  Archive archive(source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr, zip_discard);
  const std::string failure = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (!archive) {
    if (source) zip_source_free(source);
    throw Error(ErrorCode::InvalidArgument, fmt::format("{}: {}", file_name, failure));
  }
  NamedTensors tensors;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    Entry entry(archive.get(), static_cast<zip_uint64_t>(i), file_name);
    std::string name = entry.name.ends_with(".npy") ? entry.name.substr(0, entry.name.size() - 4) : entry.name;
    tensors[name] = read_array(entry, fmt::format("{}: {}", file_name, name));
  }
  return tensors;
}

void write_npz(const std::filesystem::path& path, std::span<const std::pair<std::string, Tensor>> tensors) {
  AtomicFile file(path);
  if (tensors.empty()) {
    file.write(kEmptyArchive);
    return file.commit();
  }
  // libzip closes an archive into memory; the bytes of the tensors are read then.
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* memory = zip_source_buffer_create(nullptr, 0, 0, &error);
  Archive archive(memory ? zip_open_from_source(memory, ZIP_TRUNCATE, &error) : nullptr, zip_discard);
  auto check = [&](bool good) {
    if (good) return;
    const char* message = archive ? zip_strerror(archive.get()) : zip_error_strerror(&error);
    throw Error(ErrorCode::Io, fmt::format("{}: cannot be written: {}", path.string(), message));
  };
  check(archive != nullptr);
  zip_source_keep(memory);  // beyond the archive
  std::unique_ptr<zip_source_t, decltype(&zip_source_free)> written(memory, zip_source_free);

  std::deque<std::string> texts;
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) {  // an output `a.1` beside a sequence `a`
      throw Error(ErrorCode::InvalidArgument,
                  fmt::format("{}: two of its arrays would be called '{}'", path.string(), name));
    }
    size_t string_width = 0;
    const std::span<const char> data = elements(tensor, texts.emplace_back(), string_width);
    const std::string& header = texts.emplace_back(npy_header(tensor, string_width));
    zip_buffer_fragment_t parts[] = {{reinterpret_cast<zip_uint8_t*>(const_cast<char*>(header.data())), header.size()},
                                     {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(data.data())), data.size()}};
    zip_source_t* source = zip_source_buffer_fragment(archive.get(), parts, data.empty() ? 1 : 2, 0);
    check(source != nullptr);
    const zip_int64_t index = zip_file_add(archive.get(), (name + ".npy").c_str(), source, ZIP_FL_ENC_GUESS);
    if (index < 0) zip_source_free(source);
    check(index >= 0);
    check(zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0) == 0);
  }
  check(zip_close(archive.get()) == 0);
  archive.release();

  check(zip_source_open(memory) == 0);
  std::vector<char> chunk(size_t{1} << 20);
  for (zip_int64_t got; (got = zip_source_read(memory, chunk.data(), chunk.size())) != 0;) {
    check(got > 0);
    file.write(std::string_view(chunk.data(), static_cast<size_t>(got)));
  }
  zip_source_close(memory);
  file.commit();
}

}  // namespace anfora::driver
