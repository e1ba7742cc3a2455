// ImageDecoder: which format a file has, and the layout of the pixels.
#include <algorithm>
#include <string_view>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {
namespace {

struct Format {
  std::string_view signature;
  size_t at;
  Image (*decode)(ImageFile);
};

using namespace std::string_view_literals;
constexpr Format kFormats[] = {
    {"\xff\xd8\xff"sv, 0, decode_jpeg},
    {"\x89PNG\r\n\x1a\n"sv, 0, decode_png},
    {"BM"sv, 0, decode_bmp},
    {"II*\0"sv, 0, decode_tiff},
    {"MM\0*"sv, 0, decode_tiff},
    {"WEBP"sv, 8, decode_webp},
    {"\0\0\0\x0cjP  \r\n\x87\n"sv, 0, decode_jpeg2000},
    {"\xff\x4f\xff\x51"sv, 0, decode_jpeg2000},  // a bare codestream
};

// The luma of ITU-R 601, in 16 bits after the point.
uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

}  // namespace

Image make_image(int64_t height, int64_t width) {
  constexpr int64_t kMostPixels = int64_t{1} << 28;
  if (height < 1 || width < 1) refuse("an image of {} x {} pixels", width, height);
  if (height > kMostPixels / width) refuse("an image of {} x {} pixels; the most is {}", width, height, kMostPixels);
  return {height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
}

Image decode_image(ImageFile file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  for (const Format& format : kFormats) {
    if (bytes.size() > format.at && bytes.substr(format.at).starts_with(format.signature)) return format.decode(file);
  }
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6') return decode_pnm(file);
  refuse("the data are no image in BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP format");
}

void image_decoder(KernelContext& context) {
  const Tensor& file = context.input(0);
  const std::string_view format = context.attributes().string("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") {
    refuse("'{}' is no pixel_format; there are RGB, BGR and Grayscale", format);
  }
  const Image image = decode_image(file.data<uint8_t>());
  const int64_t channels = format == "Grayscale" ? 1 : 3;
  uint8_t* to = context.allocate_output(0, DType::U8, {{image.height, image.width, channels}}).data<uint8_t>().data();
  if (format == "RGB") {
    std::ranges::copy(image.pixels, to);
    return;
  }
  for (size_t i = 0; i < image.pixels.size(); i += 3, to += channels) {
    const uint8_t* pixel = &image.pixels[i];
    if (channels == 1) {
      *to = luma(pixel);
    } else {
      std::reverse_copy(pixel, pixel + 3, to);
    }
  }
}

}  // namespace anfora::kernels
