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

// Between a location and the call that it was inlined at.
inline constexpr std::string_view kInlinedAt = " inlined at ";
// "name" ("file": node 3) or "name" ("file":12:5), a location in quotes, without where it was inlined.
void append_location(std::string& out, const Location& location);
struct ParsedLocation {
  std::string name, file;
  int32_t index = -1, line = 0, column = 0;

  Location view() const { return {.file = file, .name = name, .index = index, .line = line, .column = column}; }
};
ParsedLocation parse_quoted_location(Cursor& cursor);

// What follows the word "notes". `graph_named` reads "@name" and finds the graph.
void parse_notes(Cursor& cursor, LiteralParser& literals, Module& module, const std::function<Graph*()>& graph_named);

}  // namespace anfora::ir
