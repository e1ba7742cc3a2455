// JPEG files, by libjpeg-turbo: the accurate transform, chroma interpolated.
#include <turbojpeg.h>

#include <limits>
#include <memory>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {
namespace {

// a · b / 255, rounded.
uint8_t scaled(int a, int b) {
  const int product = a * b + 128;
  return static_cast<uint8_t>((product + (product >> 8)) >> 8);
}

// Files of four inks hold what is left of the paper's white under each of them.
void from_inks(const std::vector<uint8_t>& inks, std::vector<uint8_t>& rgb) {
  for (size_t pixel = 0; pixel < rgb.size() / 3; ++pixel) {
    const uint8_t* ink = &inks[4 * pixel];
    for (size_t c = 0; c < 3; ++c) rgb[3 * pixel + c] = static_cast<uint8_t>(ink[3] - scaled(255 - ink[c], ink[3]));
  }
}

}  // namespace

Image decode_jpeg(ImageFile file) {
  struct Destroy {
    void operator()(void* handle) const { tjDestroy(handle); }
  };
  const std::unique_ptr<void, Destroy> handle(tjInitDecompress());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  auto require = [&](int status) {
    if (status != 0) refuse("the JPEG file: {}", tjGetErrorStr2(handle.get()));
  };
  const auto size = static_cast<unsigned long>(file.size());
  require(tjDecompressHeader3(handle.get(), file.data(), size, &width, &height, &subsampling, &colours));
  Image image = make_image(height, width);
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
    std::vector<uint8_t> inks(image.pixels.size() / 3 * 4);
    require(tjDecompress2(handle.get(), file.data(), size, inks.data(), width, 0, height, TJPF_CMYK, 0));
    from_inks(inks, image.pixels);
    return image;
  }
  require(tjDecompress2(handle.get(), file.data(), size, image.pixels.data(), width, 0, height, TJPF_RGB, 0));
  return image;
}

}  // namespace anfora::kernels
