#include "codegen/depthwise.h"

#include <fmt/format.h>

#include <array>

#include "codegen/epilogue.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;

class DepthwiseBuilder {
 public:
  DepthwiseBuilder(const DepthwiseCode& code, int pixels)
      : code_(code),
        isa_(describe(code.isa)),
        sums_{code.is_integer() ? Element::I32 : Element::F32, pixels, code.tile.vectors, isa_.lanes},
        b_(fmt::format("depthwise_{}", pixels)) {
    static constexpr struct {
      const char* name;
      Element element;
    } kParameters[kDepthwiseArguments] = {
        {"image", Element::Pointer},      {"image_row_stride", Element::Index}, {"tap_stride", Element::Index},
        {"pixel_stride", Element::Index}, {"tap_rows", Element::Index},         {"taps", Element::Index},
        {"filters", Element::Pointer},    {"filter_panel_stride", Element::Index}, {"result", Element::Pointer},
        {"result_stride", Element::Index}, {"panels", Element::Index},          {"tiles", Element::Index},
        {"channels", Element::Index},     {"bias", Element::Pointer},           {"bias_stride", Element::Index},
        {"residual", Element::Pointer},   {"residual_stride", Element::Index},  {"zero_terms", Element::Pointer},
        {"scale", Element::Pointer},      {"quantization", Element::Pointer}};
    for (int i = 0; i < (code.is_integer() ? kDepthwiseArguments : kFloatDepthwiseArguments); ++i)
      parameters_.push_back(b_.parameter(kParameters[i].name, kParameters[i].element));
  }

  Function build() {
    b_.loop(0, parameters_[kPanels], [&](Value panel) {
      const Value channel = b_.multiply(panel, b_.integer(code_.panel_channels()));
      const Value filters = at(parameters_[kFilters], panel, kFilterPanelStride);
      b_.loop(0, parameters_[kTiles], [&](Value tile) {
        const Value pixel = b_.multiply(tile, b_.integer(sums_.rows));
        finish(sum(at(kImage, channel, pixel, kPixelStride, image_bytes()), filters, channel), channel, pixel);
      });
    });
    return b_.finish();
  }

 private:
  int64_t image_bytes() const { return static_cast<int64_t>(element_bytes(code_.image)); }
  Value at(Value base, Value index, DepthwiseArgument stride, int64_t element_bytes = 4) {
    return b_.offset(base, b_.multiply(index, parameters_[stride]), element_bytes);
  }
  Value at(DepthwiseArgument base, Value channel, Value index, DepthwiseArgument stride, int64_t element_bytes = 4) {
    return at(b_.offset(parameters_[base], channel, element_bytes), index, stride, element_bytes);
  }

  // Over all taps.
  Value sum(Value image, Value filters, Value channel) {
    const Value initial = code_.is_integer() ? b_.load(row_type(), b_.offset(parameters_[kZeroTerms], channel), b_.integer(0)) : b_.constant(0);
    const InMemory as = code_.image == DType::I8 ? InMemory::SignedByte : code_.image == DType::U8 ? InMemory::UnsignedByte : InMemory::Word;
    auto add_row = [&](Value row, std::span<const Value> sums) {
      const Value image_row = at(image, row, kImageRowStride, image_bytes()), first_tap = b_.multiply(row, parameters_[kTaps]);
      return b_.loop(0, parameters_[kTaps], 1, {&sums_, 1}, sums, [&](Value tap, std::span<const Value> carried) {
        const Value place = b_.multiply(b_.add(first_tap, tap), b_.integer(code_.panel_channels()));
        const Value filter = b_.load(row_type(), b_.offset(filters, place), b_.integer(0));
        const Value pixels = b_.load(sums_, at(image_row, tap, kTapStride, image_bytes()), parameters_[kPixelStride], kNone, as);
        return std::vector{code_.is_integer() ? b_.dot(Op::DotHalves, pixels, filter, carried[0]) : multiply_add(b_, isa_, pixels, filter, carried[0])};
      });
    };
    return b_.loop(0, parameters_[kTapRows], 1, {&sums_, 1}, {&initial, 1}, add_row)[0];
  }

  Type row_type() const { return {sums_.element, 1, sums_.vectors, sums_.lanes}; }

  void finish(Value sums, Value channel, Value pixel) {
    if (!code_.has_edge) return finish(sums, channel, pixel, kNone);
    finish_panel(b_, isa_, sums_.vectors, b_.subtract(parameters_[kChannels], channel),
                 [&](Value mask) { finish(sums, channel, pixel, mask); });
  }

  void finish(Value sums, Value channel, Value pixel, Value mask) {
    if (code_.is_integer()) return finish_integers(sums, channel, pixel, mask);
    store_finished(b_, code_.epilogue, sums, at(kResult, channel, pixel, kResultStride), parameters_[kResultStride], mask,
                   [&](Value row, Value tile) { return finished(tile, channel, b_.add(pixel, row), mask); });
  }
  Value finished(Value tile, Value channel, Value pixel, Value mask) {
    const std::array<AddendAt, 2> addends{AddendAt{at(kBias, channel, pixel, kBiasStride), parameters_[kBiasStride]},
                                          AddendAt{at(kResidual, channel, pixel, kResidualStride), parameters_[kResidualStride]}};
    return finish_tile(b_, isa_, code_.epilogue, tile, addends, mask);
  }

  void finish_integers(Value sums, Value channel, Value pixel, Value mask) {
    const Value scale = code_.scale == Scale::Columns
                            ? b_.load({Element::F32, 1, sums_.vectors, sums_.lanes}, b_.offset(parameters_[kDepthwiseScale], channel), b_.integer(0), mask)
                            : b_.load({Element::F32}, parameters_[kDepthwiseScale], b_.integer(0));
    Value tile = finished(b_.multiply(b_.to_float(sums), scale), channel, pixel, mask);
    if (code_.divides) tile = divide_by_scale(b_, tile, parameters_[kDepthwiseQuantization]);
    const Value place = b_.add(channel, b_.multiply(pixel, parameters_[kResultStride]));
    store_as(b_, code_.result, parameters_[kResult], place, parameters_[kResultStride], tile, mask, parameters_[kDepthwiseQuantization]);
  }

  const DepthwiseCode& code_;
  const IsaDescription& isa_;
  Type sums_;
  Builder b_;
  std::vector<Value> parameters_;
};

}  // namespace

Function depthwise_function(const DepthwiseCode& code, int pixels) { return DepthwiseBuilder(code, pixels).build(); }

}  // namespace anfora::codegen
