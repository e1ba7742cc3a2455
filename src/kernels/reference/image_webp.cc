// WebP files, lossy and lossless, by libwebp.
#include <webp/decode.h>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {

Image decode_webp(ImageFile file) {
  int width = 0, height = 0;
  if (!WebPGetInfo(file.data(), file.size(), &width, &height)) refuse("the WebP file has no valid header");
  Image image = make_image(height, width);
  if (!WebPDecodeRGBInto(file.data(), file.size(), image.pixels.data(), image.pixels.size(), width * 3)) {
    refuse("the WebP file cannot be decoded");
  }
  return image;
}

}  // namespace anfora::kernels
