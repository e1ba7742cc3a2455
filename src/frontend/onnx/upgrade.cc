#include "frontend/onnx/upgrade.h"

#include <vector>

#include "frontend/onnx/upgrade_rewrites.h"

namespace anfora::onnx {
namespace {

using namespace rewrites;

struct Step {
  const char* ops;      // names, separated by a space
  int64_t first, next;  // nodes of a version in [first, next) become nodes of version `next`
  Rewrite rewrite;
  const char* argument = "";
};

// Operators that a version withdrew have meant the same ever since to those who still write them.
constexpr int64_t kForever = kNewestOpset + 1;

// What changed between two versions of an operator so that a node must. Not listed: attributes and inputs that came to be
// with a default of what was before, wider types and shapes, and clearer words.
const Step kMainSteps[] = {
    // Version 1 named inputs whose memory might be taken over.
    {"Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max "
     "Mean Min Mul Neg PRelu Reciprocal Relu Selu Sigmoid Sqrt Sub Sum Tanh", 1, 6, drop, "consumed_inputs"},
    {"Reshape", 1, 5, ints_to_input, "shape"},
    {"Selu", 1, 6, selu_defaults},        // two more digits
    {"Cast", 1, 6, cast_type_name},       // "FLOAT" before the number
    {"Concat", 1, 4, concat_default_axis},  // 1 where it is not given
    {"GlobalLpPool LpPool", 1, 2, integral_p},
    {"Tile", 1, 6, tile_one_axis},

    // Broadcasting had to be asked for, and lined up shapes from `axis` on; since 7, NumPy's.
    {"Add And Div Equal Greater Less Mul Or Pow Sub Xor", 1, 7, align_broadcast},
    {"Gemm", 1, 7, drop, "broadcast"},    // of C, to the right as now
    {"PRelu", 1, 7, prelu_slope_per_channel},

    // Whether an application trains was an attribute, then the number of its outputs, now an attribute again.
    {"BatchNormalization", 1, 7, batch_norm_is_test},
    {"Dropout", 1, 7, drop, "is_test"},
    {"BatchNormalization", 1, 9, batch_norm_spatial},
    {"BatchNormalization", 9, 14, batch_norm_outputs},
    {"Dropout", 1, 10, dropout_mask_of_floats},
    {"Dropout", 10, 12, dropout_ratio_to_input},
    {"GRU LSTM RNN", 1, 7, drop, "output_sequence"},

    // What was fixed in the model became a value that may be computed.
    {"Clip", 6, 11, clip_limits_to_inputs},
    {"DFT", 17, 20, dft_axis_to_input},   // and the default moved from 1 to -2
    {"Pad", 1, 2, pad_rename_paddings},
    {"Pad", 2, 11, pad_attributes_to_inputs},
    {"ReduceSum Squeeze Unsqueeze", 1, 13, axes_to_input},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare", 1, 18,
     axes_to_input},
    {"Slice", 1, 10, slice_attributes_to_inputs},
    {"Split", 1, 2, split_input_to_attribute},  // where it had been an input before
    {"Split", 2, 13, ints_to_input, "split"},
    {"Split", 13, 18, split_num_outputs},  // equal parts are asked for by their number
    {"TopK", 1, 10, top_k_to_input},

    // These flattened their input to a matrix at `axis`; since 13 they go along `axis` alone, and its default is the last.
    {"Hardmax LogSoftmax Softmax", 1, 13, softmax_flatten},

    {"GridSample", 16, 20, grid_sample_mode_names},
    {"GroupNormalization", 18, 21, group_norm_per_channel},  // scale and bias were given per group
    {"RoiAlign", 10, 16, roi_align_half_pixel},
    {"Scatter", 9, kForever, rename_operator, "ScatterElements"},

    {"Upsample", 1, 7, upsample_two_scales},
    {"Upsample", 7, 9, upsample_scales_to_input},
    {"Upsample", 9, kForever, upsample_to_resize},
    {"Resize", 10, 11, resize_coordinates},

    // Experiments of the first versions, in no specification now, but still in files.
    {"MeanVarianceNormalization", 1, 9, mean_variance_by_channel},
    {"Affine", 1, kForever, affine},
    {"ConstantFill", 1, kForever, constant_fill},
    {"Crop", 1, kForever, crop},
    {"DynamicSlice", 1, kForever, dynamic_slice},
    {"ImageScaler", 1, kForever, image_scaler},
    {"ParametricSoftplus", 1, kForever, parametric_softplus},
    {"Scale", 1, kForever, scale},
    {"ScaledTanh", 1, kForever, scaled_tanh},
};

const Step kMlSteps[] = {
    {"LabelEncoder", 1, 2, label_encoder_classes},
};

using Table = boost::unordered_flat_map<std::string_view, boost::container::small_vector<const Step*, 4>>;

Table index(std::span<const Step> steps) {
  Table table;
  for (const Step& step : steps) {
    std::string_view rest = step.ops;
    while (!rest.empty()) {
      size_t end = std::min(rest.find(' '), rest.size());
      table[rest.substr(0, end)].push_back(&step);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return table;
}

const Step* find_step(const PendingNode& node) {
  static const Table main_table = index(kMainSteps), ml_table = index(kMlSteps);
  bool is_main = node.domain.empty();
  if (!is_main && node.domain != "ai.onnx.ml") return nullptr;
  const Table& table = is_main ? main_table : ml_table;
  auto found = table.find(node.op_type);
  if (found == table.end()) return nullptr;
  for (const Step* step : found->second) {
    if (step->first <= node.version && node.version < step->next) return step;
  }
  return nullptr;
}

}  // namespace

ir::Node* upgrade(PendingNode& node) {
  while (const Step* step = find_step(node)) {
    if (ir::Node* done = step->rewrite(node, step->argument)) return done;
    node.version = step->next;
  }
  return nullptr;
}

}  // namespace anfora::onnx
