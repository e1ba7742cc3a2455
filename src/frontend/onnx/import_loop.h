// A loop as functions: what Loop, Scan, SequenceMap and searches are built of. See import_control.cc.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/importer.h"

namespace anfora::onnx {

// A result of the body that a loop collects, one value an iteration.
struct Collected {
  ir::Node* value;
  const ir::Type* type;  // as far as it is known
  int64_t axis = 0;
  bool reverse = false;
};

struct Iteration {
  ir::Node* go = nullptr;  // whether another iteration follows; null: always
  std::vector<ir::Node*> values;
  std::vector<Collected> collected;
};

struct LoopSpec {
  const Emitter& outer;
  std::string name;
  const GraphFields* fields = nullptr;  // of the body; null: the file has none
  ir::Node* trip_count = nullptr;       // null: no limit
  ir::Node* condition = nullptr;        // null: true
  std::vector<ir::Node*> initial = {};
  bool stack_collected = true;  // else the result is the sequence
  // Reads the body into a graph, for an iteration number, a condition and the carried values.
  std::function<Iteration(const Emitter& body, ir::Node* i, ir::Node* go, std::span<ir::Node* const> values)> body = {};
};

// The results of the call are the carried values, then what was collected.
ir::Apply* build_loop(const LoopSpec& spec);

// The attribute of that name, a graph; throws InvalidModel when there is none.
const FileAttribute& require_graph(const PendingNode& node, std::string_view name);

}  // namespace anfora::onnx
