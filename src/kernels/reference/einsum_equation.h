// The equation of an Einsum with its ellipsis resolved: every dimension has a label, a small integer.
#pragma once

#include <boost/container/small_vector.hpp>
#include <span>
#include <string_view>

namespace anfora::kernels {

// As long as they usually are, they need no memory.
using EinsumLabels = boost::container::small_vector<int, 8>;
template <class T>
using PerOperand = boost::container::small_vector<T, 4>;

struct EinsumEquation {
  PerOperand<EinsumLabels> inputs;  // labels of each operand's dimensions; one may repeat
  EinsumLabels output;              // distinct, each occurs in an input
  int label_count = 0;              // labels are 0 … label_count - 1
  int ellipsis_rank = 0;            // the first ones are the dimensions of the ellipsis
};

// `ranks`: those of the operands. Dimensions that an ellipsis stands for broadcast from the right, so that operands may
// have different numbers of them. Throws InvalidModel when the equation is malformed, TypeMismatch when it does not
// fit.
EinsumEquation parse_einsum(std::string_view equation, std::span<const int> ranks);

}  // namespace anfora::kernels
