#include "kernels/generated/gathered_rows.h"

#include <algorithm>
#include <array>

namespace anfora::kernels::generated {

std::optional<GatherCode> GatheredRows::code(const KernelData& data) {
  GatherCode code;
  code.has_scale = data.input(kRowScale).present;
  if (data.input(kRowShift).present) code.epilogue.addends[0] = Addend::Row;
  if (!read_activation(data.attributes, code.epilogue, "input_activation")) return std::nullopt;
  return code;
}

std::optional<GatheredRows> GatheredRows::resolve(const InputShapes& shapes) {
  const auto given = [&](size_t i) { return i < shapes.size() && shapes[i]; };
  if (!given(0) || !given(1)) return std::nullopt;
  const Shape &x = *shapes[0], &w = *shapes[1];
  if (x.size() < 3 || x.size() != w.size()) return std::nullopt;
  GatheredRows rows;
  rows.depth_ = x.back();
  for (size_t i = kMoreRows; i < shapes.size(); ++i) {
    if (!given(i) || shapes[i]->size() != x.size() || !std::equal(x.begin(), x.end() - 1, shapes[i]->begin())) return std::nullopt;
    rows.depth_ += shapes[i]->back();
  }
  rows.y_shape_ = x;
  rows.y_shape_.back() = w[0];
  if (rows.depth_ != w[1] || element_count(w) != w[0] * w[1] || element_count(rows.y_shape_) == 0 || rows.depth_ == 0) return std::nullopt;
  const int64_t all_rows = element_count(rows.y_shape_) / w[0];
  rows.image_rows_ = all_rows;
  if (given(kRowScale)) {
    const int64_t count = element_count(*shapes[kRowScale]);
    if (shapes[kRowScale]->back() != rows.depth_ || (count != rows.depth_ && count != x[0] * rows.depth_)) return std::nullopt;
    if (count != rows.depth_) rows.image_rows_ = all_rows / x[0];
  }
  if (given(kRowShift) && *shapes[kRowShift] != Shape{rows.depth_}) return std::nullopt;
  if (given(2) && *shapes[2] != Shape{w[0]}) return std::nullopt;
  if (given(3) && *shapes[3] != rows.y_shape_) return std::nullopt;
  return rows;
}

StridedProduct GatheredRows::product(const InputShapes& shapes) const {
  const int64_t columns = y_shape_.back(), count = element_count(y_shape_) / columns;
  StridedProduct product{.a = StridedOperand::dense(Shape{count, depth_}),
                         .b = StridedOperand::dense(Shape{depth_, columns}),
                         .y = StridedOperand::dense(Shape{count, columns}),
                         .added = {},
                         .y_shape = y_shape_};
  for (size_t i = 2; i < std::min<size_t>(shapes.size(), 4); ++i) {
    if (shapes[i]) product.added.push_back(StridedOperand::dense(Shape{i == 2 ? 1 : count, columns}));
  }
  return product;
}

StridedProduct GatheredRows::products_of_images(const InputShapes& shapes) const {
  StridedProduct all = product(shapes);
  if (images() == 1) return all;
  all.for_each([&](StridedOperand& operand) {
    const bool is_whole = &operand == &all.b || operand.dims[0] == 1;  // for all images
    operand.insert(0, is_whole ? 1 : images(), is_whole ? 0 : image_rows_ * operand.strides[0]);
    if (!is_whole) operand.dims[1] = image_rows_;
  });
  return all;
}

void GatheredRows::gather(EntryPoint code, Isa isa, KernelContext& context, int64_t first, int64_t count, float* to, int64_t stride) const {
  std::array<int64_t, kGatherArguments> arguments{};
  arguments[kToStride] = stride;
  for (const int64_t end = first + count; first < end;) {  // what lies in one image at a time
    const int64_t image = first / image_rows_, rows = std::min((image + 1) * image_rows_, end) - first;
    arguments[kGatheredRows] = rows;
    int64_t channel = 0;
    for (size_t i = 0; i < context.num_inputs(); i = std::max<size_t>(i + 1, kMoreRows)) {
      const InputRows input = context.input_rows(i);
      const int64_t channels = input.length();
      arguments[kFrom] = address_in(context, i, first * input.stride);
      arguments[kFromStride] = input.stride;
      arguments[kTo] = address_of(to + channel);
      arguments[kGatheredChannels] = channels;
      arguments[kGatheredPanels] = channels / gathered_columns(isa);
      arguments[kCutPanels] = channels % gathered_columns(isa) != 0;
      arguments[kChannelScale] = address_in(context, kRowScale, image * depth_ + channel);
      arguments[kChannelShift] = address_in(context, kRowShift, channel);
      code(arguments.data());
      channel += channels;
    }
    first += rows;
    to += rows * stride;
  }
}

}  // namespace anfora::kernels::generated
