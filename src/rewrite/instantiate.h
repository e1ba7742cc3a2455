// Inserts the function that an operator means (ir/library.h) in the place of an application of it.
//
//     graph @FusedGemm(%a, %b, %c) {                                FusedGemm(%x, %w){transA=1, activation="Relu"}
//       %y = Gemm(%a, %b, %c){transA=$transA}
//       return if Equal($activation, "Relu") { return Relu(%y) }    →    Relu(Gemm(%x, %w){transA=1})
//              else { return %y }
//     }
//
// A partial evaluation: what does not depend on data is computed on the way, that is, what inference knows the elements
// of and what is made of small constants. So a Switch is decided where it is met, calls are written out, and only what
// the result takes is made: nothing is left to clean up. Operators that the library defines are inserted in turn. Linear
// in what is made.
//
// What is left to the run, `if AtRun(…)`, becomes functions of the module, and a function that begins so a loop. Its parameters are those
// arguments that it does not pass on to itself as they are; the others are free variables. A loop is made again where it turns out to change
// the sizes of an argument.
//
// Each call of a function is a frame: the values of its nodes so far, each computed when it is first asked for.
//
//     @FusedGemm(%x, %w, _)  ◀──  @FusedGemm.then()         a branch sees the nodes of the frame that it was chosen in
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <string_view>
#include <vector>

#include "ir/library.h"
#include "rewrite/rule.h"

namespace anfora::rewrite {

// Makes sensitivities in the graph of the rewriter's root, of any type (kSumOf, kZerosOf).
class Sensitivities {
 public:
  virtual ~Sensitivities() = default;
  virtual ir::Node* sum_of(ir::Node* a, ir::Node* b) = 0;
  virtual ir::Node* zeros_of(ir::Node* node) = 0;
};

// Results of one application, as its function has them.
class Instance {
 public:
  // The function of the rewriter's root, with `attributes` for its own.
  Instance(const ir::Library& library, Rewriter& rewriter, const ir::Graph& function, const AttributeSet& attributes);
  // A function about the root's operator with arguments of its own: its gradient. No operators are inserted in turn.
  Instance(Rewriter& rewriter, const ir::Graph& function, std::span<ir::Node* const> arguments, Sensitivities& sensitivities);

  // The result; of several, result `i`. Throws Refusal where the function does not support the application, or where a
  // choice depends on what is not known.
  ir::Node* result(size_t i = 0);
  // The function's result as it is; item i of one that is a tuple.
  ir::Node* value();
  ir::Node* item(size_t i);

 private:
  struct Frame;
  // A node of a function with the frame that it is evaluated in; of the module itself, without one.
  struct Place {
    const ir::Node* node;
    Frame* frame;
  };
  struct Frame {
    const ir::Graph* graph = nullptr;
    ir::Graph* target = nullptr;       // where its nodes are made
    Frame* outer = nullptr;            // of the graph that encloses it
    const Frame* operation = nullptr;  // of the operator whose attributes it sees; null: its own
    const ir::Operator* op = nullptr;  // that the function means, and the attributes of its application
    AttributeSet attributes = {};
    std::vector<Place> arguments = {};
    boost::unordered_flat_map<const ir::Node*, ir::Node*> values = {};
    boost::unordered_flat_map<const ir::Node*, Frame*> calls = {};
  };

  static Frame* frame_of(const ir::Node& node, Frame* from);
  Place argument(const ir::Parameter& parameter, Frame* frame) const;
  Frame* called(const ir::Apply& node, Frame* frame);
  Frame* enter(const ir::Apply& node, const ir::Graph& function, std::span<const ir::Use> arguments, Frame* frame);
  const ir::Graph& callee(const ir::Node& node, Frame* frame);
  ir::Node* item(Place place, size_t i);
  ir::Node* value(Place place);
  ir::Node* compute(const ir::Apply& node, Frame* frame);
  ir::Node* call_at_run(const ir::Apply& node, Frame* frame);
  ir::Graph* loop_at_run(const ir::Graph& function, std::span<const ir::Use> arguments, Frame* frame);
  void fill(ir::Graph& made, Frame& frame);
  ir::Node* made(const ir::Operator& op, std::vector<ir::Node*> inputs, AttributeSet attributes, size_t num_outputs);
  bool holds(const ir::Apply& node, Frame* frame);
  ir::Node* attribute_of(const Frame& frame, std::string_view name);
  AttributeSet attributes_of(const ir::Apply& node, const ir::Operator& op, Frame* frame);
  std::optional<Tensor> known(const ir::Node* node) const;

  const ir::Library* library_;  // null: none
  Sensitivities* sensitivities_ = nullptr;
  Rewriter& rewriter_;
  std::deque<Frame> frames_;
  boost::unordered_flat_map<const ir::Graph*, ir::Graph*> loops_;  // while they are made
  boost::unordered_flat_set<const ir::Parameter*> varying_;        // of their functions: not of the same sizes in each iteration
};

}  // namespace anfora::rewrite
