// What is different between two graphs: of nodes that have the same name in both, and of those that only one has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "driver/report_text.h"
#include "ir/module.h"

namespace anfora::driver {

// A node of the one that is another in the other. Two nodes are one when they have the same name in their sources (the n-th of
// that name, where there are several) and are in functions of the same name.
struct ChangedNode {
  std::string before, after;         // "Gemm 'fc'"
  std::vector<std::string> changes;  // "attributes {axis=1} → {axis=2}", "operand 1: Relu 'a' → Relu 'b'"
};

struct Difference {
  struct Count {
    int64_t before = 0, after = 0;
  };
  std::map<std::string, Count> operators;      // how often each is applied
  std::vector<std::string> gone, made;         // nodes that only one has, in its order; those without names too
  std::vector<ChangedNode> changed;            // in the order of the first
  std::vector<std::string> interface_changes;  // of the main function's parameters and results
  size_t same = 0;                             // nodes

  bool empty() const { return gone.empty() && made.empty() && changed.empty() && interface_changes.empty(); }
};

// Linear in the nodes. Both have types.
Difference diff(const ir::Module& before, const ir::Module& after);

// The nodes of two files, which may be more than the operators of their modules.
struct NodesOfFiles {
  size_t before, after;
};
// As people read it: of each list the first ten, or all.
std::string to_text(const Difference& difference, const NodesOfFiles& files, bool all = false, const Style& style = {});
// The nodes are those of the modules.
std::string to_text(const Difference& difference);

}  // namespace anfora::driver
