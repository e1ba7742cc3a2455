// Grows random graphs: applications whose operands are mostly values that are there already.
//
// The grower knows of each value a sample, what it is in one run, and gets that of a new application by evaluating it. So
// nothing about shapes is said here a second time: what inference or the kernel refuses is taken back, and what
// it accepts has a shape for the next step to look at. A sample also tells when numbers grow out of all bounds, which
// would hide everything behind them.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/infer.h"
#include "ir/module.h"
#include "rules/draw.h"
#include "rules/operands.h"
#include "support/datum.h"

namespace anfora::fuzz {

using rules::Bounds;
using rules::Draw;
using rules::Values;
using rules::Want;

class Grower {
 public:
  // `common_types`: only those that every runtime has kernels for.
  Grower(ir::Context& context, Draw& draw, Values values, bool common_types);
  bool takes(DType dtype) const;

  Draw& draw() { return draw_; }
  ir::Module& module() { return *module_; }
  ir::Context& context() { return module_->context(); }
  ir::Graph* graph() const { return graph_; }  // the one that grows
  bool is_nested() const { return graph_ != module_->main(); }
  size_t size() const { return size_; }  // applications so far

  const Datum& sample(const ir::Node* node) const { return samples_.at(node); }
  const Tensor& tensor(const ir::Node* node) const { return sample(node).tensor(); }

  // Values that operands are taken from -----------------------------------------------------------------------------
  void keep(ir::Node* node) { scope_.push_back(node); }
  const std::vector<ir::Node*>& scope() const { return scope_; }
  // One for which it holds, the later the likelier; null: there is none.
  template <class Accepts>
  ir::Node* pick(Accepts accepts) {
    std::vector<ir::Node*> found;
    for (ir::Node* node : scope_) {
      if (accepts(sample(node))) found.push_back(node);
    }
    return found.empty() ? nullptr : found[late_index(found.size())];
  }
  ir::Node* pick_tensor() {
    return pick([](const Datum& d) { return d.is_tensor(); });
  }
  // Whether there is a value that would do.
  bool has(const Want& want) const;

  // Making values ------------------------------------------------------------------------------------------------------
  ir::Node* none() { return module_->none(); }
  ir::Node* constant(Tensor value);
  ir::Node* integers(std::span<const int64_t> values);
  ir::Node* scalar(DType dtype, double value);  // null: the type has no such number
  ir::Node* input(Tensor value, const Bounds* bounds);
  // A value that was there, something made of one, a constant, or an input.
  ir::Node* operand(const Want& want, int depth = 0);
  // The same, but no constant as long as there may be inputs.
  ir::Node* variable(const Want& want);
  // The application, evaluated; null where it is refused. Several results are a tuple: see items().
  ir::Node* apply(const ir::Operator& op, const std::vector<ir::Node*>& operands, const AttributeSet& attributes = {},
                  size_t outputs = 1);
  ir::Node* apply(std::string_view op, const std::vector<ir::Node*>& operands, const AttributeSet& attributes = {},
                  size_t outputs = 1) {
    return apply(context().get_operator(op), operands, attributes, outputs);
  }
  // The results of an application, kept.
  void keep_results(ir::Node* node);
  // A scalar bool.
  ir::Node* condition();

  // Graphs -------------------------------------------------------------------------------------------------------------
  // A graph in the one that grows; `body` makes what it returns, null where that fails.
  template <class Body>
  ir::Graph* nested(std::string_view name, Body body) {
    ir::Graph* outer = graph_;
    ir::Graph* made = graph_ = module_->make_graph(name, outer);
    size_t visible = scope_.size();
    ir::Node* result = body();
    scope_.resize(visible);
    graph_ = outer;
    if (!result) return nullptr;
    module_->set_result(made, result);
    return made;
  }
  ir::Parameter* parameter(const ir::Type* type, Datum value);
  // What has no kernel of its own (calls, tuples): its sample is given, and says its type.
  ir::Node* with_sample(ir::Apply* node, Datum value);
  const ir::Type* type_of(const Datum& datum);

  // The finished module and what there is to know about its inputs.
  std::unique_ptr<ir::Module> take_module() { return std::move(module_); }
  std::map<size_t, Bounds>& bounds() { return bounds_; }
  // What inference said of an application and evaluation denied; empty: nothing.
  const std::string& complaint() const { return complaint_; }

 private:
  size_t late_index(size_t count);
  bool fits(const Datum& datum, const Want& want) const;
  Tensor random_value(const Want& want, DType dtype);
  DType dtype_for(const Want& want);
  ir::Node* leaf(const Want& want, size_t chance_of_input);
  ir::Node* sizes(const Want& want);
  void keep_small(ir::Node* sizes);
  ir::Node* adapted(const Want& want);
  bool is_acceptable(const ir::Operator& op, const std::vector<Datum>& operands, const std::vector<Datum>& results);
  void check_type(const ir::Apply& node, const Datum& value);

  Draw& draw_;
  Values values_;
  bool common_types_;
  std::unique_ptr<ir::Module> module_;
  analysis::Inference inference_;
  ir::Graph* graph_ = nullptr;
  std::vector<ir::Node*> scope_;
  boost::unordered_flat_map<const ir::Node*, Datum> samples_;
  std::map<size_t, Bounds> bounds_;
  std::string complaint_;
  size_t size_ = 0;
};

// Whether a tensor of that shape broadcasts to the other one.
bool broadcasts_to(const Shape& from, const Shape& to);

}  // namespace anfora::fuzz
