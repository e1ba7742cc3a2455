// BMP files: 1, 4, 8, 16, 24 or 32 bits a pixel, with a palette or masks, plain or in run lengths.
#include <array>
#include <bit>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {
namespace {

enum Compression : uint32_t { kPlain = 0, kRuns8 = 1, kRuns4 = 2, kMasks = 3, kMasksWithAlpha = 6 };

// Little-endian numbers at places of the file; reading past the end is refused.
class Bytes {
 public:
  explicit Bytes(ImageFile file) : file_(file) {}
  uint32_t u8(size_t at) const {
    if (at >= file_.size()) refuse("the BMP file is cut off after {} bytes", file_.size());
    return file_[at];
  }
  uint32_t u16(size_t at) const { return u8(at) | u8(at + 1) << 8; }
  uint32_t u32(size_t at) const { return u16(at) | u16(at + 2) << 16; }
  int32_t i32(size_t at) const { return static_cast<int32_t>(u32(at)); }
  size_t size() const { return file_.size(); }

 private:
  ImageFile file_;
};

// The channel that a mask cuts out of a pixel, spread to 8 bits.
uint8_t masked(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift, value = (pixel & mask) >> shift;
  return static_cast<uint8_t>((value * 255 + most / 2) / most);
}

class BmpReader {
 public:
  explicit BmpReader(ImageFile file) : bytes_(file) { read_header(); }

  Image read() {
    Image image = make_image(height_, width_);
    if (compression_ == kRuns8 || compression_ == kRuns4) {
      read_runs(image);
    } else {
      read_rows(image);
    }
    return image;
  }

 private:
  void read_header() {
    pixels_at_ = bytes_.u32(10);
    const uint32_t header = bytes_.u32(14);
    size_t palette_at = 14 + size_t{header};
    size_t entry = 4, entries = 0;
    if (header == 12) {  // OS/2
      width_ = bytes_.u16(18);
      height_ = bytes_.u16(20);
      bits_ = bytes_.u16(24);
      entry = 3;
    } else if (header >= 40) {
      width_ = bytes_.i32(18);
      height_ = bytes_.i32(22);
      bits_ = bytes_.u16(28);
      compression_ = bytes_.u32(30);
      entries = bytes_.u32(46);
    } else {
      refuse("a BMP header of {} bytes", header);
    }
    bottom_up_ = height_ >= 0;
    if (!bottom_up_) height_ = -height_;
    if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 16 && bits_ != 24 && bits_ != 32) {
      refuse("a BMP file of {} bits a pixel", bits_);
    }
    const bool runs = compression_ == kRuns8 || compression_ == kRuns4;
    const bool masks = compression_ == kMasks || compression_ == kMasksWithAlpha;
    if (compression_ != kPlain && !runs && !masks) refuse("BMP compression {}", compression_);
    if (runs && bits_ != (compression_ == kRuns8 ? 8u : 4u)) refuse("BMP run lengths of {} bits a pixel", bits_);
    if (masks) {
      // Right behind the 40 bytes of the oldest header, or at the same place within the newer ones.
      for (size_t i = 0; i < 3; ++i) masks_[i] = bytes_.u32(54 + 4 * i);
      if (header == 40) palette_at += compression_ == kMasksWithAlpha ? 16 : 12;
    } else if (bits_ == 16) {
      masks_ = {0x7c00, 0x03e0, 0x001f};
    } else if (bits_ == 32) {
      masks_ = {0xff0000, 0x00ff00, 0x0000ff};
    }
    if (bits_ > 8) return;
    const size_t most = size_t{1} << bits_;
    if (entries == 0 || entries > most) entries = most;
    for (size_t i = 0; i < entries && palette_at + entry <= pixels_at_; ++i, palette_at += entry) {
      for (size_t c = 0; c < 3; ++c) palette_[i][c] = static_cast<uint8_t>(bytes_.u8(palette_at + 2 - c));
    }
  }

  uint8_t* pixel(Image& image, int64_t row, int64_t column) const {
    const int64_t y = bottom_up_ ? height_ - 1 - row : row;
    return &image.pixels[static_cast<size_t>((y * width_ + column) * 3)];
  }
  void set_from_palette(Image& image, int64_t row, int64_t column, uint32_t index) const {
    if (row < height_ && column < width_) std::ranges::copy(palette_[index], pixel(image, row, column));
  }

  void read_rows(Image& image) const {
    const size_t stride = (static_cast<size_t>(width_) * bits_ + 31) / 32 * 4;
    for (int64_t row = 0; row < height_; ++row) {
      const size_t begin = pixels_at_ + static_cast<size_t>(row) * stride;
      for (int64_t column = 0; column < width_; ++column) {
        const size_t bit = static_cast<size_t>(column) * bits_, at = begin + bit / 8;
        if (bits_ <= 8) {
          const uint32_t index = bytes_.u8(at) >> (8 - bits_ - bit % 8) & ((1u << bits_) - 1);
          set_from_palette(image, row, column, index);
          continue;
        }
        uint8_t* to = pixel(image, row, column);
        const uint32_t value = bits_ == 16 ? bytes_.u16(at) : bits_ == 32 ? bytes_.u32(at) : 0;
        for (size_t c = 0; c < 3; ++c) {
          to[c] = bits_ == 24 ? static_cast<uint8_t>(bytes_.u8(at + 2 - c)) : masked(value, masks_[c]);
        }
      }
    }
  }

  // Pairs of bytes: a count and what is repeated; a count of 0 escapes to the end of a row or of the image, to a move,
  // or to pixels as they are.
  void read_runs(Image& image) const {
    const bool nibbles = bits_ == 4;
    int64_t row = 0, column = 0;
    size_t at = pixels_at_;
    while (row < height_) {
      const uint32_t count = bytes_.u8(at), value = bytes_.u8(at + 1);
      at += 2;
      if (count > 0) {
        for (uint32_t i = 0; i < count; ++i) {
          set_from_palette(image, row, column++, !nibbles ? value : i % 2 == 0 ? value >> 4 : value & 15);
        }
      } else if (value == 0) {
        ++row;
        column = 0;
      } else if (value == 1) {
        return;
      } else if (value == 2) {
        column += bytes_.u8(at);
        row += bytes_.u8(at + 1);
        at += 2;
      } else {
        for (uint32_t i = 0; i < value; ++i) {
          const uint32_t byte = bytes_.u8(at + (nibbles ? i / 2 : i));
          set_from_palette(image, row, column++, !nibbles ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
        }
        const size_t length = nibbles ? (value + 1) / 2 : value;
        at += (length + 1) / 2 * 2;
      }
    }
  }

  Bytes bytes_;
  size_t pixels_at_ = 0;
  int64_t width_ = 0, height_ = 0;
  uint32_t bits_ = 0, compression_ = kPlain;
  bool bottom_up_ = true;
  std::array<uint32_t, 3> masks_{};
  std::array<std::array<uint8_t, 3>, 256> palette_{};
};

}  // namespace

Image decode_bmp(ImageFile file) { return BmpReader(file).read(); }

}  // namespace anfora::kernels
