// Decoders of image files. Each gives pixels of 8-bit red, green and blue, without alpha, whatever the file holds, and
// throws InvalidArgument with what is wrong with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace anfora::kernels {

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  // height · width · 3
};

using ImageFile = std::span<const uint8_t>;

// Recognizes the format by how the file begins.
Image decode_image(ImageFile file);

// An image of zeros. Throws when a side is not positive or there are more pixels than any camera takes.
Image make_image(int64_t height, int64_t width);

// By the project's own code: these two formats are little more than a header and the pixels.
Image decode_bmp(ImageFile file);
Image decode_pnm(ImageFile file);
// By the formats' own libraries.
Image decode_jpeg(ImageFile file);
Image decode_png(ImageFile file);
Image decode_tiff(ImageFile file);
Image decode_webp(ImageFile file);
Image decode_jpeg2000(ImageFile file);

// The kernel of ImageDecoder.
void image_decoder(KernelContext& context);

}  // namespace anfora::kernels
