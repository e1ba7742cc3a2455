#include "kernels/onednn/convolution_parts.h"

#include <algorithm>
#include <span>

#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::onednn {
namespace {

// Of each thread, so that one that another process holds up leaves some of them to others.
constexpr int64_t kPartsOfAThread = 8;
// Weights come from the second or third level of cache once for each part. It takes some ten pixels to compute as long as that lasts.
constexpr int64_t kLeastPixels = 48;
// Multiplications that take some ten microseconds. Calling a primitive takes one or two.
constexpr int64_t kLeastWork = 1 << 19;
// Of the rows of the thread that has most of them.
constexpr double kMostExcess = 1.04;
// Of more images all threads have enough.
constexpr int64_t kMostImages = 256;

// So many parts of an image. Empty where one of them would read nothing but padding.
std::vector<ConvolutionPart> parts_of_image(const ConvolutionShape& whole, int64_t count) {
  const int64_t rows = whole.y[2], stride = whole.strides[0];
  const int64_t taps = whole.w[whole.w.size() - whole.strides.size()];
  const int64_t reach = (taps - 1) * (whole.dilations[0] + 1) + 1;
  std::vector<ConvolutionPart> parts;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = rows * i / count, last = rows * (i + 1) / count - 1;
    const int64_t begin = first * stride - whole.pad_begin[0], end = last * stride - whole.pad_begin[0] + reach;
    const int64_t first_input = std::max<int64_t>(begin, 0), end_of_inputs = std::min(end, whole.x[2]);
    if (first_input >= end_of_inputs) return {};
    parts.push_back({0, first_input, first, {end_of_inputs - first_input, last + 1 - first, first_input - begin, end - end_of_inputs}});
  }
  return parts;
}

size_t kinds_of(std::span<const ConvolutionPart> parts) {
  std::vector<ConvolutionPart::Extents> kinds;
  for (const ConvolutionPart& part : parts) {
    if (std::ranges::find(kinds, part.extents) == kinds.end()) kinds.push_back(part.extents);
  }
  return kinds.size();
}

}  // namespace

ConvolutionShape ConvolutionShape::with_pixels_as_rows() const {
  auto all = [](std::span<const int64_t> of, int64_t value) { return std::ranges::all_of(of, [&](int64_t extent) { return extent == value; }); };
  const std::span<const int64_t> taps = std::span(w).last(strides.size()), columns = std::span(x).subspan(3);
  if (columns.empty() || !all(taps, 1) || !all(strides, 1) || !all(pad_begin, 0) || !all(pad_end, 0)) return *this;
  ConvolutionShape shape = *this;
  for (Shape* image : {&shape.x, &shape.y}) {
    (*image)[2] *= element_count(columns);
    std::fill(image->begin() + 3, image->end(), 1);
  }
  return shape;
}

ConvolutionShape ConvolutionPart::shape_in(ConvolutionShape whole) const {
  whole.x[0] = whole.y[0] = 1;
  whole.x[2] = extents.inputs, whole.y[2] = extents.outputs;
  whole.pad_begin[0] = extents.pad_begin, whole.pad_end[0] = extents.pad_end;
  return whole;
}

std::vector<ConvolutionPart> parts_of(const ConvolutionShape& whole, int64_t threads) {
  const int64_t images = whole.y[0], rows = whole.y[2], pixels = element_count(std::span(whole.y).subspan(2));
  const int64_t work = pixels * element_count(whole.w);
  const int64_t wanted = (threads * kPartsOfAThread + images - 1) / images;
  const int64_t most = std::max<int64_t>(1, std::min({wanted, rows, pixels / kLeastPixels, work / kLeastWork}));
  if (threads < 2 || most * images < 2 * threads || images > kMostImages) return {};
  // The library divides channels as well.
  const int64_t most_of_a_thread = (images * rows + threads - 1) / threads;
  if (static_cast<double>(most_of_a_thread * threads) > kMostExcess * static_cast<double>(images * rows)) return {};

  // Each kind of parts is a primitive, whose code takes time to generate.
  std::vector<ConvolutionPart> best;
  size_t kinds_of_best = 0;
  const int64_t step = images == 1 ? threads : 1;
  for (int64_t count = most - most % step; 2 * count > most; count -= step) {
    const std::vector<ConvolutionPart> parts = parts_of_image(whole, count);
    if (parts.empty()) return {};
    if (const size_t kinds = kinds_of(parts); best.empty() || kinds < kinds_of_best) {
      best = parts;
      kinds_of_best = kinds;
    }
  }
  std::vector<ConvolutionPart> parts;
  for (int64_t image = 0; image < images; ++image) {
    for (ConvolutionPart part : best) {
      part.image = image;
      parts.push_back(part);
    }
  }
  return parts;
}

ConvolutionOfParts::ConvolutionOfParts(const ConvolutionShape& whole, DType dtype, Shape result)
    : dtype_(dtype),
      result_(std::move(result)),
      inputs_(whole.x[2]),
      outputs_(whole.y[2]),
      input_row_(element_count(whole.x) / (whole.x[0] * inputs_)),
      output_row_(element_count(whole.y) / (whole.y[0] * outputs_)) {}

const ConvolutionOfParts::Primitive* ConvolutionOfParts::find(const ConvolutionPart::Extents& extents) const {
  const auto found = std::ranges::find(primitives_, extents, &Primitive::extents);
  return found == primitives_.end() ? nullptr : &*found;
}

void ConvolutionOfParts::add_primitive(const ConvolutionPart::Extents& extents, const dnnl::convolution_forward::primitive_desc& pd) {
  primitives_.push_back({extents, dnnl::primitive(pd), pd.src_desc(), pd.dst_desc(), pd.scratchpad_desc()});
  scratchpad_bytes_ = std::max(scratchpad_bytes_, primitives_.back().scratchpad.get_size());
}

void ConvolutionOfParts::add_part(const ConvolutionPart& of) {
  Part part{find(of.extents), (of.image * inputs_ + of.first_input) * input_row_, (of.image * outputs_ + of.first_output) * output_row_,
            {}, {}, {}, {}, {}};
  part.x = handle(part.primitive->x), part.y = handle(part.primitive->y);
  part.arguments = {{DNNL_ARG_SRC, part.x.get()}, {DNNL_ARG_WEIGHTS, weights_.get()}, {DNNL_ARG_DST, part.y.get()}};
  if (bias_) part.arguments.push_back({DNNL_ARG_BIAS, bias_->get()});
  if (has_addend_) {
    part.addend = handle(part.primitive->y);
    part.arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, part.addend.get()});
  }
  if (part.primitive->scratchpad.get_size() > 0) {
    part.scratchpad = handle(part.primitive->scratchpad);
    part.arguments.push_back({DNNL_ARG_SCRATCHPAD, part.scratchpad.get()});
  }
  parts_.push_back(std::move(part));
}

void ConvolutionOfParts::execute(KernelContext& context) {
  const Tensor& y = context.allocate_output(0, dtype_, result_);
  const Tensor& x = context.input(0);
  const Tensor* const addend = has_addend_ ? &context.input(3) : nullptr;
  if (bias_) point(*bias_, context.input(2));
  parallel_for(std::ssize(parts_), 1, [&](int64_t begin, int64_t end) {
    Scratch<std::byte> scratchpad(scratchpad_bytes_);
    for (Part& part : std::span(parts_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
      point(part.x, x, part.first_of_x);
      point(part.y, y, part.first_of_y);
      if (addend) point(part.addend, *addend, part.first_of_y);
      if (part.scratchpad) part.scratchpad.set_data_handle(scratchpad.data());
      onednn::execute(part.primitive->primitive, part.arguments);
    }
  });
}

}  // namespace anfora::kernels::onednn
