#include "frontend/python/percent_format.h"

#include <fmt/format.h>

#include <cstdlib>

namespace anfora::python {
namespace {

// %[-+ #0]*[width][.precision]conversion
struct Field {
  bool is_left = false, has_precision = false;
  std::string width, precision;  // digits
  char32_t conversion = 0;

  // As str.__format__ takes it; "" for none. `%` puts texts on the right, and format() on the left.
  std::string spec() const {
    const std::string least = is_left || width.empty() ? width : ">" + width;
    return has_precision ? fmt::format("{}.{}", least, std::atoi(precision.c_str())) : least;
  }
};

class FieldReader {
 public:
  explicit FieldReader(std::u32string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }

  std::u32string literal() {
    std::u32string read;
    for (; !at_end(); ++at_) {
      if (text_[at_] == '%') {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != '%') break;
        ++at_;
      }
      read += text_[at_];
    }
    return read;
  }

  std::optional<Field> field() {
    Field read;
    ++at_;  // the %
    for (; std::u32string_view(U"-+ #0").find(next()) != std::u32string_view::npos; ++at_) read.is_left |= next() == '-';
    read.width = digits();
    if (next() == '.') {
      read.has_precision = true;
      ++at_;
      read.precision = digits();
    }
    const bool is_known = next() == 's' || next() == 'r' || next() == 'a';
    if (!is_known || read.width.size() > kMostDigits || read.precision.size() > kMostDigits) return {};
    read.conversion = text_[at_++];
    return read;
  }

 private:
  static constexpr size_t kMostDigits = 2;

  char32_t next() const { return at_end() ? U'\uFFFF' : text_[at_]; }
  std::string digits() {
    std::string read;
    for (; next() >= '0' && next() <= '9'; ++at_) read += static_cast<char>(next());
    return read;
  }

  std::u32string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Tree::Trees> percent_format(Source& source, const Tree& text, const Tree::Trees& items) {
  FieldReader reader(text.constant.as<std::u32string>());
  Tree::Trees values;
  size_t used = 0;
  while (true) {
    if (std::u32string literal = reader.literal(); !literal.empty()) values.push_back(source.make_constant({std::move(literal)}, text.position));
    if (reader.at_end()) break;
    const auto field = reader.field();
    if (!field || used == items.size()) return {};
    Tree* item = items[used++];
    Tree* value = source.make(Kind::FormattedValue, item->position);
    value->fields = {{"value", item}, {"conversion", std::to_string(static_cast<int>(field->conversion))}};
    if (const std::string spec = field->spec(); !spec.empty()) {
      value->fields.emplace_back("format_spec", source.make_constant({code_points(spec)}, item->position));
    }
    values.push_back(value);
  }
  return used == items.size() ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace anfora::python
