// Floating point operations of a whole run, under given sizes.
//
// What an application takes is said by its declaration (Operator::flops), from its types. Here symbols in them have values, and
// functions count as often as they are called:
//
//     call f(…)                      what f takes
//     call Switch(c, f, g)(…)        what the dearer of both takes; the one that is taken, where that is known
//     a loop                         its body as often as it runs, where that is known by a count, else once
//     another recursive call         nothing
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>

#include "analysis/infer.h"

namespace anfora::analysis {

// Of one application of an operator to tensors of these types, all of whose sizes are known; without elements of them.
double flops_of(ir::Context& context, const ir::Operator& op, const AttributeSet& attributes, std::span<const ir::Type* const> inputs,
                std::span<const ir::Type* const> outputs);

class FlopCounter {
 public:
  // `size_of` gives sizes of symbols; what it does not know is `otherwise`.
  FlopCounter(Inference& inference, ir::SymbolValue size_of, int64_t otherwise = 1)
      : inference_(inference), size_of_(std::move(size_of)), otherwise_(otherwise) {}

  // Of one application of an operator.
  double of(const ir::Apply& node);
  // Of main, and what it calls.
  double of_module();

  // The type with sizes for all dimensions.
  const ir::Type* sized(const ir::Type* type);

 private:
  class Context;
  struct Loop;
  double of_call(const ir::Apply& call) const;
  std::optional<Loop> as_loop(const ir::Graph& header) const;
  double trips(const Loop& loop, const ir::Apply& entry) const;
  std::optional<int64_t> integer(const ir::Node* node) const;

  int64_t size_of(std::string_view symbol) const {
    return size_of_ ? size_of_(symbol).value_or(otherwise_) : otherwise_;
  }

  Inference& inference_;
  ir::SymbolValue size_of_;
  int64_t otherwise_;
  boost::unordered_flat_map<const ir::Type*, const ir::Type*> sized_;
  boost::unordered_flat_map<const ir::Graph*, double> totals_, own_;  // with what is called, and without
};

}  // namespace anfora::analysis
