// PNG files, by libpng. Neither gamma nor alpha changes a pixel; 16 bits are cut to 8.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {
namespace {

// libpng reports an error by longjmp, which must not cross a C++ object: each call that may fail is in a function of
// its own without any.
struct Reader {
  ImageFile file;
  size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = "";

  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void remember_error_of_png(png_structp png, png_const_charp message) {
  auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof reader->message - 1);
  png_longjmp(png, 1);
}

void ignore_warning_of_png(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->file.size() - reader->at) png_error(png, "the file is cut off");
  std::memcpy(to, reader->file.data() + reader->at, count);
  reader->at += count;
}

bool read_header(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, read_bytes);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);
  png_set_strip_alpha(reader.png);
  png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(Reader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_image(reader.png, rows);
  return true;
}

}  // namespace

Image decode_png(ImageFile file) {
  Reader reader{file};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, remember_error_of_png, ignore_warning_of_png);
  if (!reader.png) refuse("libpng {} does not fit the program", PNG_LIBPNG_VER_STRING);
  reader.info = png_create_info_struct(reader.png);
  auto require = [&](bool success) {
    if (!success) refuse("the PNG file: {}", reader.message);
  };
  require(read_header(reader));
  Image image = make_image(png_get_image_height(reader.png, reader.info), png_get_image_width(reader.png, reader.info));
  if (png_get_rowbytes(reader.png, reader.info) != static_cast<size_t>(image.width) * 3)
    refuse("the PNG file is not of 8-bit RGB");
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < image.height; ++y) rows.push_back(&image.pixels[static_cast<size_t>(y * image.width * 3)]);
  require(read_rows(reader, rows.data()));
  return image;
}

}  // namespace anfora::kernels
