// The portable bitmap, graymap and pixmap: P1 to P3 as text, P4 to P6 as bytes.
#include <algorithm>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {
namespace {

bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class PnmReader {
 public:
  explicit PnmReader(ImageFile file) : file_(file), kind_(file[1] - '0') {}

  Image read() {
    const int64_t width = number(), height = number();
    const bool bitmap = kind_ == 1 || kind_ == 4, binary = kind_ > 3;
    const int64_t most = bitmap ? 1 : number();
    if (most < 1 || most > 65535) refuse("a PNM file with values up to {}", most);
    if (binary) ++at_;  // a single space ends the header
    Image image = make_image(height, width);
    const int channels = kind_ == 3 || kind_ == 6 ? 3 : 1;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        uint8_t* to = &image.pixels[static_cast<size_t>((y * width + x) * 3)];
        for (int c = 0; c < channels; ++c) {
          const int64_t value = !bitmap ? (binary ? bytes(most > 255 ? 2 : 1) : number()) : binary ? bit(x) : digit();
          const int64_t level = bitmap ? 1 - value : std::min(value, most);  // of a bitmap, 1 is black
          to[c] = static_cast<uint8_t>((level * 255 + most / 2) / most);
        }
        if (channels == 1) to[1] = to[2] = to[0];
      }
      if (bitmap && binary && width % 8 != 0) ++at_;  // a row ends with its byte
    }
    return image;
  }

 private:
  uint8_t byte() const {
    if (at_ >= file_.size()) refuse("the PNM file is cut off after {} bytes", file_.size());
    return file_[at_];
  }
  int64_t bytes(int count) {
    int64_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) value = value << 8 | byte();
    return value;
  }
  int64_t bit(int64_t x) {
    const int64_t value = byte() >> (7 - x % 8) & 1;
    if (x % 8 == 7) ++at_;
    return value;
  }
  void skip_space() {
    while (is_space(byte()) || byte() == '#') {
      if (byte() == '#') {
        while (byte() != '\n') ++at_;
      }
      ++at_;
    }
  }
  int64_t digit() {
    skip_space();
    const uint8_t c = byte();
    if (c != '0' && c != '1') refuse("the PNM file has a pixel that is neither 0 nor 1");
    ++at_;
    return c - '0';
  }
  int64_t number() {
    constexpr int64_t kMost = int64_t{1} << 31;
    skip_space();
    int64_t value = 0;
    size_t digits = 0;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9' && value < kMost; ++at_, ++digits) {
      value = value * 10 + (file_[at_] - '0');
    }
    if (digits == 0) refuse("the PNM file has something else where a number belongs");
    return value;
  }

  ImageFile file_;
  int kind_;
  size_t at_ = 2;
};

}  // namespace

Image decode_pnm(ImageFile file) { return PnmReader(file).read(); }

}  // namespace anfora::kernels
