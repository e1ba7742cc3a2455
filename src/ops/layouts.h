// The interface between operator declarations and the assignment of layouts (passes/layout.cc): how an application is computed where
// tensors of [batch, channels, spatial…] lie in memory as [batch, spatial…, channels], and the functions that declarations name,
// `Declaration::layout(channels_last_pool)`. They write into the form what is different there, or return false: there is no such form.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "ir/node.h"

namespace anfora::ops {

struct ChannelsLast {
  // What becomes of an operand.
  enum class Operand : uint8_t {
    Moved,      // has the layout
    Realigned,  // broadcasts against it: is given all axes, then moved
    Same,       // weights, attributes, scalars
  };

  // Of operand 0, which has that rank, moved, and everything else as it is.
  ChannelsLast(ir::Apply& node, int rank);

  // The operator of the same operands that takes the layout as an attribute.
  void lower();
  void replace(size_t input, const std::vector<int64_t>& integers);

  ir::Apply* node;
  int rank;                   // of the tensors that have the layout
  bool is_preferred = false;  // it is faster so
  bool result_moves = true;   // false: the result is the same in both layouts
  bool all_results_move = false;  // also those behind the first; else there must be one
  boost::container::small_vector<Operand, 4> operands;
  const ir::Operator* op;
  AttributeSet attributes;
  boost::container::small_vector<std::pair<size_t, Tensor>, 2> constants;  // operands that are neither moved nor the same
};

// Permutations of Transpose.
std::vector<int64_t> to_channels_last(int rank);
std::vector<int64_t> to_channels_first(int rank);

bool along_moved_axes(ChannelsLast& form);  // lists its axes, in an operand or an attribute, by default all
bool channels_last_convolution(ChannelsLast& form);
bool channels_last_integer_convolution(ChannelsLast& form);
bool channels_last_weight_gradient(ChannelsLast& form);
bool channels_last_pool(ChannelsLast& form);
bool channels_last_pool_gradient(ChannelsLast& form);
bool channels_last_global_pool(ChannelsLast& form);  // as a reduction
bool channels_last_reduction(ChannelsLast& form);
bool channels_last_normalization(ChannelsLast& form);
bool channels_last_concat(ChannelsLast& form);
bool channels_last_pad(ChannelsLast& form);
bool channels_last_split(ChannelsLast& form);
bool channels_last_depth_to_space(ChannelsLast& form);

}  // namespace anfora::ops
