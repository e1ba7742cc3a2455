// Operators whose operands have more to do with each other than with the result: recurrent and quantized ones, mathematics.
#include "rules/operand_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anfora::rules {
namespace {

// Sequences -------------------------------------------------------------------------------------------------------------

// X, W, R, B, sequence_lens, initial_h (, initial_c, P) with so many gates. X may be there already, and beside another layer the result
// is as large as its.
template <int64_t Gates>
bool recurrent(Application& a) {
  int64_t steps = some(a.draw), batch = some(a.draw), features = some(a.draw), hidden = some(a.draw);
  int64_t directions = get_text(a, "direction") == "bidirectional" ? 2 : 1;
  bool batch_first = a.get_int("layout", 0) != 0;
  const Shape& wanted = a.result;
  if (!batch_first && a.item == 0 && a.rank() == 4 && wanted[1] == directions) {
    steps = wanted[0], batch = wanted[2], hidden = wanted[3];
  } else if (!batch_first && a.item > 0 && a.rank() == 3 && wanted[0] == directions) {
    batch = wanted[1], hidden = wanted[2];
  }
  if (const auto& rows = a.operands[0].bound; rows && rows->size() == 3) {
    steps = (*rows)[batch_first ? 1 : 0], batch = (*rows)[batch_first ? 0 : 1], features = (*rows)[2];
  }
  a.attributes["hidden_size"] = hidden;
  a.operands[0].shape = batch_first ? Shape{batch, steps, features} : Shape{steps, batch, features};
  a.operands[1].shape = {directions, Gates * hidden, features};
  a.operands[2].shape = {directions, Gates * hidden, hidden};
  if (a.has(3)) a.operands[3].shape = {directions, 2 * Gates * hidden};
  if (a.has(4)) {
    a.operands[4].shape = {batch};
    a.operands[4].bounds = Bounds{std::min<int64_t>(1, steps), steps};
    a.operands[4].absent = a.draw.percent(60);
  }
  for (size_t i : {5, 6}) {
    if (a.has(i))
      a.operands[i].shape = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  }
  if (a.has(7)) a.operands[7].shape = {directions, 3 * hidden};
  return true;
}

bool reverse_sequence(Application& a) {
  int64_t steps = some(a.draw), batch = some(a.draw);
  bool batch_first = a.draw.percent(50);
  a.attributes["batch_axis"] = static_cast<int64_t>(batch_first ? 0 : 1);
  a.attributes["time_axis"] = static_cast<int64_t>(batch_first ? 1 : 0);
  a.operands[0].shape = batch_first ? Shape{batch, steps} : Shape{steps, batch};
  if (a.draw.percent(50)) a.operands[0].shape.push_back(random_extent(a.draw));
  a.operands[1].shape = {batch};
  a.operands[1].bounds = Bounds{1, steps};
  return true;
}

bool attention(Application& a) {
  int64_t batch = some(a.draw), shared = a.draw.between(1, 2), heads = shared * a.draw.between(1, 2);
  int64_t width = 2 * a.draw.between(1, 2), rows = some(a.draw), keys = some(a.draw);
  bool packed = a.draw.percent(40);
  auto shape = [&](int64_t count, int64_t length) {
    return packed ? Shape{batch, length, count * width} : Shape{batch, count, length, width};
  };
  if (packed) {
    a.attributes["q_num_heads"] = heads;
    a.attributes["kv_num_heads"] = shared;
  } else {
    a.attributes.erase("q_num_heads");
    a.attributes.erase("kv_num_heads");
  }
  a.operands[0].shape = shape(heads, rows);
  a.operands[1].shape = a.operands[2].shape = shape(shared, keys);
  leave_out(a, {4, 5, 6});
  if (a.has(3)) a.operands[3].shape = a.draw.percent(50) ? Shape{rows, keys} : Shape{batch, 1, rows, keys};
  return true;
}

bool rotary_embedding(Application& a) {
  int64_t batch = some(a.draw), heads = some(a.draw), length = some(a.draw), half = a.draw.between(1, 2);
  int64_t cached = length + a.draw.between(0, 2);
  a.attributes.erase("num_heads");
  a.operands[0].shape = {batch, heads, length, 2 * half};
  a.operands[1].shape = a.operands[2].shape = a.has(3) ? Shape{cached, half} : Shape{batch, length, half};
  if (a.has(3)) {
    a.operands[3].shape = {batch, length};
    a.operands[3].bounds = Bounds{0, cached - 1};
  }
  return true;
}

// Quantized --------------------------------------------------------------------------------------------------------------

// The shapes of an image and of filters for it.
void image_and_filters(Application& a, size_t image, size_t filters, std::optional<size_t> bias) {
  int64_t group = a.draw.percent(70) ? 1 : 2, per_group = a.draw.between(1, 2), count = group * a.draw.between(1, 2);
  int spatial = static_cast<int>(a.draw.between(1, 2));
  for (const char* name : {"kernel_shape", "strides", "pads", "dilations", "auto_pad"}) a.attributes.erase(name);
  a.attributes["group"] = group;
  a.operands[image].shape = {some(a.draw), group * per_group};
  a.operands[filters].shape = {count, per_group};
  Ints kernel, pads;
  for (int i = 0; i < spatial; ++i) {
    kernel.push_back(some(a.draw));
    a.operands[filters].shape.push_back(kernel.back());
    a.operands[image].shape.push_back(kernel.back() + a.draw.between(0, 2));
  }
  if (a.draw.percent(50)) a.attributes["kernel_shape"] = kernel;
  if (a.draw.percent(30)) a.attributes["pads"] = Ints(static_cast<size_t>(2 * spatial), 1);
  if (bias && a.has(*bias)) a.operands[*bias].shape = {count};
}

bool convolution_of_integers(Application& a) {
  image_and_filters(a, 0, 1, std::nullopt);
  make_scalars(a, {2, 3});
  return true;
}
bool quantized_convolution(Application& a) {
  image_and_filters(a, 0, 3, 8);
  make_scalars(a, {1, 2, 4, 5, 6, 7});
  return true;
}
bool quantized_product(Application& a) {
  int64_t rows = some(a.draw), inner = some(a.draw), columns = some(a.draw);
  a.operands[0].shape = {rows, inner};
  a.operands[3].shape = {inner, columns};
  make_scalars(a, {1, 2, 4, 5, 6, 7});
  return true;
}
bool product_of_integers(Application& a) {
  int64_t rows = some(a.draw), inner = some(a.draw), columns = some(a.draw);
  a.operands[0].shape = {rows, inner};
  a.operands[1].shape = {inner, columns};
  make_scalars(a, {2, 3});
  return true;
}

// Mathematics ------------------------------------------------------------------------------------------------------------

bool square(Application& a) {
  int64_t size = some(a.draw);
  a.operands[0].shape = a.draw.percent(50) ? Shape{size, size} : Shape{some(a.draw), size, size};
  return true;
}
bool matrix(Application& a) {
  a.operands[0].shape = {random_extent(a.draw), random_extent(a.draw)};
  return true;
}
bool fourier(Application& a) {
  a.operands[0].shape = {some(a.draw), a.draw.between(2, 5), 1};
  if (a.has(1)) set_scalar(a.operands[1], a.draw.between(2, 5));
  if (a.has(2)) set_scalar(a.operands[2], 1);
  return true;
}
bool short_time_fourier(Application& a) {
  a.operands.resize(4, a.operands[0]);
  a.operands[0].shape = {some(a.draw), 8, 1};
  set_scalar(a.operands[1], 2);
  a.operands[2].absent = true;
  set_scalar(a.operands[3], 4);
  a.operands[1].dtype = a.operands[3].dtype = DType::I64;
  a.operands[3].absent = false;
  return true;
}
bool window(Application& a) {
  set_scalar(a.operands[0], a.draw.between(1, 6));
  return true;
}
bool loss(Application& a) {
  int64_t batch = some(a.draw), classes = some(a.draw);
  a.operands[0].shape = {batch, classes};
  a.operands[1].shape = {batch};
  if (a.draw.percent(40)) {
    int64_t extent = some(a.draw);
    a.operands[0].shape.push_back(extent);
    a.operands[1].shape.push_back(extent);
  }
  a.operands[1].bounds = Bounds{0, classes - 1};
  if (a.has(2)) a.operands[2].shape = {classes};
  return true;
}
bool causal_convolution(Application& a) {
  int64_t batch = some(a.draw), channels = some(a.draw), length = some(a.draw), kernel = some(a.draw);
  a.operands[0].shape = {batch, channels, length};
  a.operands[1].shape = {channels, 1, kernel};
  if (a.has(2)) a.operands[2].shape = {channels};
  if (a.has(3)) a.operands[3].shape = {batch, channels, kernel - 1};
  return true;
}

constexpr OperandEntry kOperands[] = {
    {"Attention", attention},
    {"BlackmanWindow", window},
    {"CausalConvWithState", causal_convolution},
    {"ConvInteger", convolution_of_integers},
    {"DFT", fourier},
    {"Det", square},
    {"EyeLike", matrix},
    {"GRU", recurrent<3>},
    {"HammingWindow", window},
    {"HannWindow", window},
    {"LSTM", recurrent<4>},
    {"MatMulInteger", product_of_integers},
    {"NegativeLogLikelihoodLoss", loss},
    {"QLinearConv", quantized_convolution},
    {"QLinearMatMul", quantized_product},
    {"RNN", recurrent<1>},
    {"ReverseSequence", reverse_sequence},
    {"RotaryEmbedding", rotary_embedding},
    {"STFT", short_time_fourier},
    {"SoftmaxCrossEntropyLoss", loss},
};

}  // namespace

std::span<const OperandEntry> layer_operands() { return kOperands; }

}  // namespace anfora::rules
