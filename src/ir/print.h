// The text form of modules. docs/ir.md has its grammar; ir/parse.h reads it back.
//
//     graph @main(%x: f32[N, 128]) -> f32[N, 10] {
//       %w = const f32[128, 10] <#4bd1f0c2…>
//       %1 = MatMul(%x, %w) : f32[N, 10]   # fc (model.onnx: node 3)
//       %2 = Greater(%1, 0.0) : bool[N, 10]
//       …
//     }
//
// A node is called by its name (%fc) or, where it has none, by its id (%12); where several nodes of a function and
// those nested in it share a name, by both (%fc#12). The text holds everything that the module holds: printing what
// was parsed from it gives the same bytes, and nodes without a name keep their ids. It depends on the module alone
// (no pointers, no hash order).
//
// A broken module prints too. What is wrong stands in a comment before the line it is about: "# broken: …".
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/order.h"
#include "ir/sidecar.h"

namespace anfora::ir {

struct PrintOptions {
  enum class Numbers {
    Ids,         // stable: the same from stage to stage of a pipeline
    Sequential,  // 0, 1, … in every top-level function: independent of the module's past
  };
  Numbers numbers = Numbers::Ids;
  bool types = true;
  bool locations = true;
  bool header = true;  // the module's metadata and, at the end, the annotations
  bool dead = true;    // nodes and graphs that nothing uses
  // The content of constants with more elements than this is not in the text.
  int64_t most_inline_elements = 64;
  // Collects that content. The text names it by its hash, for which it must be read whole …
  Sidecar* sidecar = nullptr;
  // … unless it is left out, as in a quick look at a large model. Such a text cannot be parsed.
  bool elide_constants = false;
};

std::string print(const Module& module, const PrintOptions& options = {});
// One graph alone, without those nested in it.
std::string print(const Graph& graph, const PrintOptions& options = {});
// One node as its line in the text, "%1 = MatMul(%x, %w) : f32[N, 10]", without location. Looks at the node and its
// operands only; names are not made unique.
std::string print(const Node& node);

// A tensor as in the text: "1.5", "[1, 2]", "f16[2] [1.0, 2.0]", "f32[1000] <#hash>".
std::string print(const Tensor& tensor, const PrintOptions& options = {});
std::string print(const AttributeSet& attributes, const PrintOptions& options = {});  // "{axis=1, mode="linear"}"

}  // namespace anfora::ir
