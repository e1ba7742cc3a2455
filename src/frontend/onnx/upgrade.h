// Nodes of older operator sets to the newest one.
//
// upgrade.cc holds the one table: operator, version, function, reason. A node is rewritten by all entries of versions
// newer than its own, one after the other. So an entry says only what changed at one step.
#pragma once

#include <string_view>

#include "frontend/onnx/importer.h"

namespace anfora::onnx {

// Rewrites the node in place, or returns the finished result (for several outputs: the tuple) when it became
// something else than one application. Null: the node is to be applied as it now is.
ir::Node* upgrade(PendingNode& node);

}  // namespace anfora::onnx
