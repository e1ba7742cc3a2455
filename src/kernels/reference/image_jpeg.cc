// JPEG files, by libjpeg-turbo: the accurate transform, chroma interpolated.
#include <turbojpeg.h>

#include <limits>
#include <memory>

#include "kernels/reference/arguments.h"
#include "kernels/reference/image_formats.h"

namespace anfora::kernels {

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
  require(tjDecompress2(handle.get(), file.data(), size, image.pixels.data(), width, 0, height, TJPF_RGB, 0));
  return image;
}

}  // namespace anfora::kernels
