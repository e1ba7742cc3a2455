// Passes whose work is taken back where inference refuses it.
//
//     graph @if.then() in @main { return Concat(zeros[2, 0, 3], call @loop(…)) }       never taken, and ill-typed if one looks closely
//
// A branch that is never taken may be nonsense, which no shape shows as long as a loop in it, or a function that others call
// as well, blurs them. A pass that writes the loop out sharpens the shapes, and inference throws, which would be the end of
// a model that runs. Then all is put back to where the round began, and done again while the pass leaves the graph in question
// alone; where that does not help, the graph around it, and in the end the whole module.
//
// What main itself computes is computed by every run: an error there is the model's, or a defect, and is thrown.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "passes/pass.h"

namespace anfora::pipeline {

class Undo {
 public:
  // Remembers the module as it is, if it has functions.
  explicit Undo(ir::Module& module);
  bool is_possible() const { return before_ != nullptr; }

  // Tells the pass that is next, and the remarks, which graphs are to be left alone. False: all of them.
  bool prepare(const passes::Pass& pass, passes::PassContext& context) const;

  // When inference has refused what a pass left: puts the module back. False: this is not to be helped.
  bool take_back(const passes::Pass& pass, const analysis::Inference& inference, const Error& error);

 private:
  ir::Module& module_;
  std::unique_ptr<ir::Module> before_;
  // By graph: what inference said.
  using Spared = std::map<std::string, std::string, std::less<>>;
  std::map<const passes::Pass*, Spared> spared_;
};

}  // namespace anfora::pipeline
