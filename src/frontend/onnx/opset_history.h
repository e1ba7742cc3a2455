// The history of ONNX's operators: which version came with which operator set, and what it brought. The facts lie in
// opset_history.inc, one line an operator:
//
//     {"Clip", "T,T,T T | 1 in=1..1 out=1..1 | 6 =max =min | 11 in=1..3 | 12 *:ints | 13 *:bf16"},
//
// First the type variables of the newest version's inputs, then of its outputs ("-": one fixed type). Behind each bar
// a version and what is different from the one before:
//
//     in=1..3, out=1..   how many inputs or outputs (no number: any)
//     T:bf16,fp8         types that variable T may stand for since then (*: all variables); seq, opt, tensor: sequences,
//                        optionals, tensors at all
//     @name              an attribute that was not there before
//     =name              an attribute whose default was another before
//     removed            the operator is gone since then
//     withdrawn          nobody is to write that version any more
//
// A version number alone says that the meaning changed, or only its text.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/type.h"

namespace anfora::onnx {

// A set of element types and of kinds of value, a bit each.
using TypeTraits = uint32_t;
TypeTraits traits_of(const ir::Type* type);  // none when the type is not known

struct OperatorHistory {
  struct Count {
    size_t least = 0, most = 0;
  };
  struct Version {
    int64_t since;
    bool is_withdrawn = false;
    Count inputs, outputs;
    std::vector<std::pair<std::string_view, TypeTraits>> gained;  // by type variable
    std::vector<std::string_view> new_attributes, new_defaults;
  };

  std::vector<std::string_view> input_variables, output_variables;  // of a variadic formal once
  std::vector<Version> versions;                                    // ascending
  int64_t removed = 0;                                              // 0: never

  // The version in an operator set; null when it does not have the operator.
  const Version* at(int64_t opset) const;
  int64_t newest() const { return versions.back().since; }
  // Traits that the variable does not have yet in an operator set.
  TypeTraits missing(std::string_view variable, int64_t opset) const;
};

// Null for operators of other domains than ONNX's.
const OperatorHistory* find_history(std::string_view domain, std::string_view op_type);

// The newest version of a domain; 1 for unknown domains.
int64_t newest_opset(std::string_view domain);

}  // namespace anfora::onnx
