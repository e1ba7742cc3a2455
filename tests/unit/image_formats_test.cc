// The two image formats that are read without a library, and what is said of broken files. That the others give the
// right pixels is for the conformance suite to see.
#include "kernels/reference/image_formats.h"

#include <gtest/gtest.h>

#include <string_view>

#include "run_kernel.h"

namespace anfora {
namespace {

using Bytes = std::vector<uint8_t>;
using namespace std::string_view_literals;

Bytes decoded(const Bytes& file, std::vector<int64_t> shape, const char* pixel_format = "RGB") {
  const Tensor encoded = make_tensor<uint8_t>({static_cast<int64_t>(file.size())}, file);
  const Tensor image = run_kernel("ImageDecoder", {{"pixel_format", std::string(pixel_format)}}, {encoded})[0];
  EXPECT_EQ(image.shape(), Shape(shape.begin(), shape.end()));
  return values_of<uint8_t>(image);
}

Bytes text(std::string_view file) { return {file.begin(), file.end()}; }

// A BMP file with a palette of black, red, green, blue.
Bytes bmp(int32_t width, int32_t height, uint16_t bits, uint32_t compression, const Bytes& pixels) {
  Bytes file = {'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 70, 0, 0, 0};
  auto add = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<uint8_t>(value >> 8 * i));
  };
  add(40, 4);
  add(static_cast<uint32_t>(width), 4);
  add(static_cast<uint32_t>(height), 4);
  add(1, 2);
  add(bits, 2);
  add(compression, 4);
  for (uint32_t value : {0u, 0u, 0u, 4u, 0u}) add(value, 4);
  for (uint32_t colour : {0x000000u, 0xff0000u, 0x00ff00u, 0x0000ffu}) add(colour, 4);
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

const Bytes kBlack = {0, 0, 0}, kRed = {255, 0, 0}, kGreen = {0, 255, 0}, kBlue = {0, 0, 255};

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Bmp, RowsGoUpUnlessTheHeightIsNegative) {
  const Bytes rows = {1, 2, 0, 0, 3, 0, 0, 0};
  EXPECT_EQ(decoded(bmp(2, 2, 8, 0, rows), {2, 2, 3}), joined({kBlue, kBlack, kRed, kGreen}));
  EXPECT_EQ(decoded(bmp(2, -2, 8, 0, rows), {2, 2, 3}), joined({kRed, kGreen, kBlue, kBlack}));
}

TEST(Bmp, SmallIndicesAreLeftmostInTheHighBits) {
  EXPECT_EQ(decoded(bmp(3, 1, 4, 0, {0x12, 0x30, 0, 0}), {1, 3, 3}), joined({kRed, kGreen, kBlue}));
  EXPECT_EQ(decoded(bmp(3, 1, 1, 0, {0b10100000, 0, 0, 0}), {1, 3, 3}), joined({kRed, kBlack, kRed}));
}

TEST(Bmp, RunsLiteralsAndMoves) {
  // Two red; three as they are, filled up to an even number; the next row; a move of one; one blue; the end.
  const Bytes runs = {2, 1, 0, 3, 2, 3, 2, 0, 0, 0, 0, 2, 1, 0, 1, 3, 0, 1};
  EXPECT_EQ(decoded(bmp(5, -2, 8, 1, runs), {2, 5, 3}),
            joined({kRed, kRed, kGreen, kBlue, kGreen, kBlack, kBlue, kBlack, kBlack, kBlack}));
  EXPECT_EQ(decoded(bmp(4, 1, 4, 2, {3, 0x12, 1, 0x30, 0, 1}), {1, 4, 3}), joined({kRed, kGreen, kRed, kBlue}));
}

TEST(Bmp, SixteenBitsAreFiveOfEachColour) {
  EXPECT_EQ(decoded(bmp(2, 1, 16, 0, {0x00, 0x7c, 0x10, 0x00}), {1, 2, 3}), joined({kRed, {0, 0, 132}}));
}

TEST(Pnm, TextAndBytes) {
  EXPECT_EQ(decoded(text("P3 # colours\n2 1\n15\n15 0 0  0 5 15\n"), {1, 2, 3}), joined({kRed, {0, 85, 255}}));
  EXPECT_EQ(decoded(text("P5 2 1 65535 \xff\xff\x80\x00"sv), {1, 2, 3}), (Bytes{255, 255, 255, 128, 128, 128}));
  EXPECT_EQ(decoded(text("P1\n3 1\n101\n"), {1, 3, 3}), (Bytes{0, 0, 0, 255, 255, 255, 0, 0, 0}));
  // Each row begins with a byte of its own.
  EXPECT_EQ(decoded(text("P4\n3 2\n\xa0\x40"), {2, 3, 1}, "Grayscale"), (Bytes{0, 255, 0, 255, 0, 255}));
}

TEST(ImageDecoder, OrderOfColours) {
  const Bytes file = text("P6 1 1 255 \x0a\x14\x1e"sv);
  EXPECT_EQ(decoded(file, {1, 1, 3}, "BGR"), (Bytes{30, 20, 10}));
  EXPECT_EQ(decoded(file, {1, 1, 1}, "Grayscale"), (Bytes{18}));
}

TEST(ImageDecoder, BrokenFilesAreRefused) {
  auto refused = [](const Bytes& file) {
    EXPECT_THROW(kernels::decode_image(file), Error) << std::string(file.begin(), file.end());
  };
  refused({});
  refused(text("GIF89a"));
  refused(text("P6 2 2 255 only"));
  refused(text("P6 -1 2 255 "));
  refused(text("P2 99999999999999999999 1 1 "));
  refused(text("P5 900000 900000 255 "));
  refused(bmp(4, 4, 8, 0, {1, 2}));
  refused(bmp(4, 4, 7, 0, Bytes(64)));
  refused(bmp(4, 4, 8, 1, {1, 1}));
  refused(text("\xff\xd8\xff\xe0"sv));
  refused(text("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv));
  refused(text("II*\0\xff\xff\xff\x7f"sv));
  refused(text("RIFF\x04\0\0\0WEBPVP8 "sv));
  refused(text("\xff\x4f\xff\x51\0\0"sv));
}

}  // namespace
}  // namespace anfora
