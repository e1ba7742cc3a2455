// JPEG 2000 files and codestreams, by OpenJPEG.
#include <openjpeg.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {
namespace {

struct Stream {
  ImageFile file;
  size_t at = 0;
};

OPJ_SIZE_T read(void* to, OPJ_SIZE_T count, void* state) {
  auto* stream = static_cast<Stream*>(state);
  const size_t given = std::min<size_t>(count, stream->file.size() - stream->at);
  if (given == 0) return static_cast<OPJ_SIZE_T>(-1);  // the end
  std::memcpy(to, stream->file.data() + stream->at, given);
  stream->at += given;
  return given;
}

OPJ_BOOL seek(OPJ_OFF_T offset, void* state) {
  auto* stream = static_cast<Stream*>(state);
  if (offset < 0 || static_cast<size_t>(offset) > stream->file.size()) return OPJ_FALSE;
  stream->at = static_cast<size_t>(offset);
  return OPJ_TRUE;
}

OPJ_OFF_T skip(OPJ_OFF_T count, void* state) {
  auto* stream = static_cast<Stream*>(state);
  return seek(static_cast<OPJ_OFF_T>(stream->at) + count, state) ? count : -1;
}

void remember_error(const char* text, void* message) {
  std::string& kept = *static_cast<std::string*>(message);
  kept = text;
  while (!kept.empty() && kept.back() == '\n') kept.pop_back();
}

// A component's value at a place of the image, spread or cut to 8 bits; a subsampled component repeats its values.
int value_at(const opj_image_comp_t& component, int64_t y, int64_t x) {
  const int64_t row = std::min<int64_t>(y / component.dy, component.h - 1);
  const int64_t column = std::min<int64_t>(x / component.dx, component.w - 1);
  int64_t value = component.data[row * component.w + column];
  if (component.sgnd) value += int64_t{1} << (component.prec - 1);
  const int shift = static_cast<int>(component.prec) - 8;
  value = shift > 0 ? value >> shift : value << -shift;
  return static_cast<int>(std::clamp<int64_t>(value, 0, 255));
}

uint8_t rounded(double value) { return static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L)); }

}  // namespace

Image decode_jpeg2000(ImageFile file) {
  std::string message = "it cannot be read";
  Stream source{file};
  const bool bare = file[0] == 0xff;
  const std::unique_ptr<opj_codec_t, decltype(&opj_destroy_codec)> codec(
      opj_create_decompress(bare ? OPJ_CODEC_J2K : OPJ_CODEC_JP2), opj_destroy_codec);
  opj_set_error_handler(codec.get(), remember_error, &message);
  const std::unique_ptr<opj_stream_t, decltype(&opj_stream_destroy)> stream(opj_stream_default_create(OPJ_TRUE),
                                                                            opj_stream_destroy);
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), file.size());
  opj_stream_set_read_function(stream.get(), read);
  opj_stream_set_skip_function(stream.get(), skip);
  opj_stream_set_seek_function(stream.get(), seek);
  auto require = [&](bool success) {
    if (!success) refuse("the JPEG 2000 file: {}", message);
  };
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  require(opj_setup_decoder(codec.get(), &parameters));
  opj_image_t* header = nullptr;
  const bool has_header = opj_read_header(stream.get(), codec.get(), &header);
  const std::unique_ptr<opj_image_t, decltype(&opj_image_destroy)> decoded(header, opj_image_destroy);
  require(has_header);
  Image image = make_image(int64_t{decoded->y1} - decoded->y0, int64_t{decoded->x1} - decoded->x0);
  require(opj_decode(codec.get(), stream.get(), decoded.get()) && opj_end_decompress(codec.get(), stream.get()));
  const uint32_t components = decoded->numcomps;
  require(components > 0);
  for (uint32_t c = 0; c < components; ++c) {
    const opj_image_comp_t& component = decoded->comps[c];
    require(component.data && component.w > 0 && component.h > 0 && component.prec >= 1 && component.prec <= 31);
  }
  const bool luma_chroma = components >= 3 && decoded->color_space == OPJ_CLRSPC_SYCC;
  uint8_t* to = image.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x, to += 3) {
      int values[3];
      for (uint32_t c = 0; c < 3; ++c) values[c] = value_at(decoded->comps[components >= 3 ? c : 0], y, x);
      if (luma_chroma) {  // ITU-R 601, full range
        const double luma = values[0], blue = values[1] - 128, red = values[2] - 128;
        to[0] = rounded(luma + 1.402 * red);
        to[1] = rounded(luma - 0.344136 * blue - 0.714136 * red);
        to[2] = rounded(luma + 1.772 * blue);
      } else {
        for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(values[c]);
      }
    }
  }
  return image;
}

}  // namespace anfora::kernels
