#include "frontend/onnx/upgrade.h"

#include <vector>

#include "frontend/onnx/upgrade_rewrites.h"

namespace anfora::onnx {
namespace {

using namespace rewrites;

struct Step {
  const char* ops;  // names, separated by a space
  int64_t since;    // nodes of versions before this one become nodes of it
  Rewrite rewrite;
  const char* argument = "";
};

// Operators that a version withdrew have meant the same ever since to those who still write them.
constexpr int64_t kForever = kNewestOpset + 1;

// What changed between two versions of an operator so that a node must change as well; of one operator in the
// order of the versions. Not listed: attributes and inputs that came to be with a default of what was before,
// wider types and shapes, and clearer words.
const Step kMainSteps[] = {
    // Version 1 named inputs whose memory might be taken over.
    {"Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization "
     "LeakyRelu Log Max Mean Min Mul Neg PRelu Reciprocal Relu Reshape Selu Sigmoid Sqrt Sub Sum Tanh",
     6, drop, "consumed_inputs"},
    {"Reshape", 5, ints_to_input, "shape"},
    {"Selu", 6, selu_defaults},          // two more digits
    {"Cast", 6, cast_type_name},         // "FLOAT" before the number
    {"Concat", 4, concat_default_axis},  // 1 where it is not given
    {"GlobalLpPool LpPool", 2, integral_p},
    {"Tile", 6, tile_one_axis},

    // Broadcasting had to be asked for, and lined up shapes from `axis` on; since 7, NumPy's.
    {"Add And Div Equal Greater Less Mul Or Pow Sub Xor", 7, align_broadcast},
    {"Gemm", 7, drop, "broadcast"},  // of C, to the right as now
    {"PRelu", 7, prelu_slope_per_channel},

    // Whether an application trains was an attribute, then the number of its outputs, now an attribute again.
    {"BatchNormalization", 7, batch_norm_is_test},
    {"Dropout", 7, drop, "is_test"},
    {"BatchNormalization", 9, batch_norm_spatial},
    {"BatchNormalization", 14, batch_norm_outputs},
    {"Dropout", 12, dropout_mask},
    {"Dropout", 12, dropout_ratio_to_input},
    {"GRU LSTM RNN", 7, drop, "output_sequence"},

    // What was fixed in the model became a value that may be computed.
    {"Clip", 11, clip_limits_to_inputs},
    {"DFT", 20, dft_axis_to_input},  // and the default moved from 1 to -2
    {"Pad", 2, pad_rename_paddings},
    {"Pad", 11, pad_attributes_to_inputs},
    {"ReduceSum Squeeze Unsqueeze", 13, axes_to_input},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSumSquare",
     18, axes_to_input},
    {"Slice", 10, slice_attributes_to_inputs},
    {"Split", 2, split_lengths_to_integers},  // of any type
    {"Split", 13, ints_to_input, "split"},
    {"Split", 18, split_num_outputs},  // equal parts are asked for by their number
    {"TopK", 10, top_k_to_input},

    // These flattened their input to a matrix at `axis`; since 13 they go along `axis` alone, and its default
    // is the last.
    {"Hardmax LogSoftmax Softmax", 13, softmax_flatten},

    {"GridSample", 20, grid_sample_mode_names},
    {"GroupNormalization", 21, group_norm_per_channel},  // scale and bias were given per group
    {"RoiAlign", 16, roi_align_half_pixel},
    {"Scatter", kForever, rename_operator, "ScatterElements"},

    {"Upsample", 7, upsample_two_scales},
    {"Upsample", 9, upsample_scales_to_input},
    {"Upsample", kForever, upsample_to_resize},
    {"Resize", 11, resize_coordinates},

    // Experiments of the first versions, in no specification now, but still in files.
    {"MeanVarianceNormalization", 9, mean_variance_by_channel},
    {"Affine", kForever, affine},
    {"ConstantFill", kForever, constant_fill},
    {"Crop", kForever, crop},
    {"DynamicSlice", kForever, dynamic_slice},
    {"ImageScaler", kForever, image_scaler},
    {"ParametricSoftplus", kForever, parametric_softplus},
    {"Scale", kForever, scale},
    {"ScaledTanh", kForever, scaled_tanh},
    {"LayerNormalization", 17, layer_norm_of_two_types},
    {"SimplifiedLayerNormalization", kForever, rename_operator, "RMSNormalization"},
};

const Step kMlSteps[] = {
    {"LabelEncoder", 2, label_encoder_classes},
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

std::span<const Step* const> steps_of(std::string_view domain, std::string_view op_type) {
  static const Table main_table = index(kMainSteps), ml_table = index(kMlSteps);
  const Table* table = domain.empty() ? &main_table : domain == "ai.onnx.ml" ? &ml_table : nullptr;
  if (!table) return {};
  auto found = table->find(op_type);
  if (found == table->end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

ir::Node* upgrade(PendingNode& node) {
  for (const Step* step : steps_of(node.domain, node.op_type)) {
    if (node.version >= step->since) continue;
    if (ir::Node* done = step->rewrite(node, step->argument)) return done;
  }
  return nullptr;
}

}  // namespace anfora::onnx
