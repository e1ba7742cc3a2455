// How much of a model may be computed before it runs: what folding spends, and what a rewrite may count on.
//
// Work is floating point operations, and for each byte that is read or written kWorkOfByte more. There is kLeastWork in all, a
// few seconds, or as much as goes over all constants a few times where that is more. One application gets at most half of what is
// left, so that a product of two huge matrices does not take it from everything else.
//
// A rewrite that makes an application of constants only counts on its being folded: it asks plan(), which sets the work aside.
// What was planned is done.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <span>

#include "analysis/infer.h"

namespace anfora::analysis {

class FoldBudget {
 public:
  static constexpr double kLeastWork = 1e11, kWorkOfByte = 4, kWorkOfConstantByte = 64;
  // Bytes of one result. What is needed only on the way may be large, but not absurdly so.
  static constexpr double kLargestResult = 0x1p31;
  // By how many bytes a result may exceed what it is made of, in any case; see PassOptions::fold_limit.
  static constexpr int64_t kSureLimit = 1 << 16;

  explicit FoldBudget(double work) : left_(work) {}
  explicit FoldBudget(const ir::Module& module);

  static double work_of(Inference& inference, const ir::Apply& node);

  // Whether these applications together may be computed.
  bool affords(Inference& inference, std::span<const ir::Apply* const> nodes) const;
  // Sets their work aside.
  void plan(Inference& inference, std::span<const ir::Apply* const> nodes);
  // Whether an application may be computed now, whose work is spent then.
  bool spend(Inference& inference, const ir::Apply& node);

  double left() const { return left_; }

 private:
  double left_;
  boost::unordered_flat_set<uint32_t> planned_;  // ids of nodes
};

// The value of an application of integers or bools, where inference knows all elements; empty: it does not.
std::optional<Tensor> known_elements(const Inference& inference, const ir::Apply& node);

}  // namespace anfora::analysis
