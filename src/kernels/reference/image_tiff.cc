// TIFF files, by libtiff; of several pages the first.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {
namespace {

struct TiffStream {
  ImageFile file;
  uint64_t at = 0;
};

tmsize_t read_tiff(thandle_t handle, void* to, tmsize_t count) {
  auto* stream = static_cast<TiffStream*>(handle);
  const uint64_t size = stream->file.size(), left = stream->at < size ? size - stream->at : 0;
  const uint64_t given = std::min<uint64_t>(static_cast<uint64_t>(count), left);
  std::memcpy(to, stream->file.data() + (size - left), given);
  stream->at += given;
  return static_cast<tmsize_t>(given);
}

tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }

toff_t seek_tiff(thandle_t handle, toff_t offset, int whence) {
  auto* stream = static_cast<TiffStream*>(handle);
  const uint64_t base = whence == SEEK_CUR ? stream->at : whence == SEEK_END ? stream->file.size() : 0;
  return stream->at = base + offset;
}

int close(thandle_t) { return 0; }

toff_t size(thandle_t handle) { return static_cast<TiffStream*>(handle)->file.size(); }

int remember_error_of_tiff(TIFF*, void* message, const char*, const char* format, va_list arguments) {
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  *static_cast<std::string*>(message) = text;
  return 1;
}

int ignore_warning_of_tiff(TIFF*, void*, const char*, const char*, va_list) { return 1; }

}  // namespace

Image decode_tiff(ImageFile file) {
  std::string message = "it cannot be read";
  TiffStream stream{file};
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 TIFFOpenOptionsFree);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), remember_error_of_tiff, &message);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), ignore_warning_of_tiff, nullptr);
  // "m": not to be mapped, as it is in memory.
  const std::unique_ptr<TIFF, decltype(&TIFFClose)> tiff(
      TIFFClientOpenExt("TIFF", "rm", &stream, read_tiff, write, seek_tiff, close, size, nullptr, nullptr,
                        options.get()),
      TIFFClose);
  if (!tiff) refuse("the TIFF file: {}", message);
  uint32_t width = 0, height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  Image image = make_image(height, width);
  // The library scales colours by an alpha channel that they are not scaled by yet; alpha is not looked at here, so the
  // channel is said to be of the other kind.
  uint16_t count = 0;
  const uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) && count == 1 &&
      kinds[0] == EXTRASAMPLE_UNASSALPHA) {
    const uint16_t scaled = EXTRASAMPLE_ASSOCALPHA;
    TIFFSetField(tiff.get(), TIFFTAG_EXTRASAMPLES, 1, &scaled);
  }
  std::vector<uint32_t> pixels(image.pixels.size() / 3);
  if (!TIFFReadRGBAImageOriented(tiff.get(), width, height, pixels.data(), ORIENTATION_TOPLEFT, 1)) {
    refuse("the TIFF file: {}", message);
  }
  uint8_t* to = image.pixels.data();
  for (uint32_t pixel : pixels) {
    *to++ = static_cast<uint8_t>(TIFFGetR(pixel));
    *to++ = static_cast<uint8_t>(TIFFGetG(pixel));
    *to++ = static_cast<uint8_t>(TIFFGetB(pixel));
  }
  return image;
}

}  // namespace anfora::kernels
