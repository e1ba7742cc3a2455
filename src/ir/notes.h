// The last part of the text form: what ir/annotations.h keeps.
//
//     notes {
//       node "fc" ("model.onnx": node 3) { doc = "the head" property "namespace" = "model/head" }
//     }
#pragma once

#include <functional>
#include <string>

#include "ir/parse_grammar.h"
#include "ir/print.h"

namespace anfora::ir {

// Appends the annotations of what the order holds, as it comes there; nothing when there are none.
void append_notes(std::string& out, const Module& module, const ModuleOrder& order, const PrintOptions& options);

// "name" ("file": node 3), a location in quotes.
void append_location(std::string& out, const Location& location);
struct ParsedLocation {
  std::string name, file;
  int32_t index = -1;
};
ParsedLocation parse_quoted_location(Cursor& cursor);

// What follows the word "notes". `graph_named` reads "@name" and finds the graph.
void parse_notes(Cursor& cursor, LiteralParser& literals, Module& module, const std::function<Graph*()>& graph_named);

}  // namespace anfora::ir
