#include "ir/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>

#include "ir/annotations.h"
#include "ir/lexical.h"
#include "ir/print_literal.h"

namespace anfora::ir {
namespace {

// "{ name = "body" doc = "…" property "key" = "value" }"
void append_annotation(std::string& out, const Annotation& annotation) {
  out += " {";
  auto fact = [&](std::string_view key, std::string_view text) {
    if (text.empty()) return;
    out.append(" ").append(key).append(" = ");
    append_quoted(out, text);
  };
  fact("name", annotation.name);
  fact("doc", annotation.doc);
  for (const auto& [key, value] : annotation.properties) {
    out += " property ";
    append_quoted(out, key);
    out += " = ";
    append_quoted(out, value);
  }
  out += " }\n";
}

// "{ "SCALE_TENSOR" = f32[] 0.5 as "scale" "ZERO_POINT_TENSOR" = value "zero" }"
void append_quantization(std::string& out, const Quantization& quantization, const PrintOptions& options) {
  out += " {";
  for (const Quantization::Parameter& parameter : quantization.parameters) {
    out += ' ';
    append_quoted(out, parameter.role);
    out += " = ";
    if (parameter.tensor.defined()) {
      append_constant(out, parameter.tensor, options);
      out += " as ";
    } else {
      out += "value ";
    }
    append_quoted(out, parameter.name);
  }
  out += " }\n";
}

Quantization parse_quantization(Cursor& cursor, LiteralParser& literals) {
  Quantization quantization{cursor.string("a name in quotes"), {}};
  cursor.expect("{", "before the parameters of a quantization");
  while (!cursor.accept("}")) {
    Quantization::Parameter& parameter = quantization.parameters.emplace_back();
    parameter.role = cursor.string("what a parameter is, in quotes");
    cursor.expect("=", "before a parameter");
    if (!cursor.accept_word("value")) {
      cursor.skip_space();
      size_t start = cursor.position();
      parameter.tensor = literals.literal();
      if (!parameter.tensor.defined()) cursor.fail_at(start, "a constant has a dtype");
      if (!cursor.accept_word("as")) cursor.fail_expected("'as' and the name of the constant");
    }
    parameter.name = cursor.string("a name in quotes");
  }
  return quantization;
}

Annotation parse_annotation(Cursor& cursor) {
  Annotation annotation;
  cursor.expect("{", "before a note");
  while (!cursor.accept("}")) {
    if (cursor.accept_word("property")) {
      std::string key = cursor.string("a key in quotes");
      cursor.expect("=", "after a key");
      annotation.properties.emplace_back(std::move(key), cursor.string("a text in quotes"));
      continue;
    }
    bool is_name = cursor.accept_word("name");
    if (!is_name && !cursor.accept_word("doc")) cursor.fail_expected("name, doc, property or '}'");
    cursor.expect("=", "after a word of a note");
    (is_name ? annotation.name : annotation.doc) = cursor.string("a text in quotes");
  }
  return annotation;
}

}  // namespace

void append_location(std::string& out, const Location& location) {
  append_quoted(out, location.name);
  out += " (";
  append_quoted(out, location.file);
  if (location.index >= 0) fmt::format_to(std::back_inserter(out), ": node {}", location.index);
  if (location.line > 0) fmt::format_to(std::back_inserter(out), ":{}", location.line);
  if (location.column > 0) fmt::format_to(std::back_inserter(out), ":{}", location.column);
  out += ')';
}

ParsedLocation parse_quoted_location(Cursor& cursor) {
  ParsedLocation location;
  location.name = cursor.string("a name");
  cursor.expect("(", "after a name");
  location.file = cursor.string("a file");
  auto number = [&](const char* what) {
    return static_cast<int32_t>(std::clamp<int64_t>(cursor.integer(what), 0, INT32_MAX));
  };
  if (cursor.accept(": node")) {
    location.index = number("an index");
  } else if (cursor.accept(":")) {
    location.line = number("a line");
    if (cursor.accept(":")) location.column = number("a column");
  }
  cursor.expect(")", "after a file");
  return location;
}

void append_notes(std::string& out, const Module& module, const ModuleOrder& order, const PrintOptions& options) {
  const Annotations& annotations = module.annotations();
  std::string lines;
  boost::unordered_flat_set<const Annotation*> seen;  // several nodes may have one location
  auto is_new = [&](const Annotation* annotation) {
    return annotation && !annotation->empty() && seen.insert(annotation).second;
  };
  auto named = [&](std::string_view kind, std::string_view name, const Annotation* annotation) {
    if (!is_new(annotation)) return;
    lines.append("  ").append(kind).append(" ");
    append_quoted(lines, name);
    append_annotation(lines, *annotation);
  };
  if (module.main()) {
    for (const Parameter* p : module.main()->parameters()) named("input", p->name(), annotations.of_input(p->name()));
  }
  for (const std::string& name : module.output_names()) named("output", name, annotations.of_output(name));
  for (const GraphOrder& g : order.graphs) {
    if (is_new(g.graph->annotation().get())) {
      lines += "  graph @";
      append_label(lines, g.graph->name());
      append_annotation(lines, *g.graph->annotation());
    }
    for (const auto* nodes : {&g.nodes, &g.dead}) {
      for (const Apply* node : *nodes) {
        if (const Annotation* annotation = annotations.of_node(*node); is_new(annotation)) {
          lines += "  node ";
          append_location(lines, *node->location());
          append_annotation(lines, *annotation);
        }
        if (const Annotation* annotation = annotations.of_value(*node); is_new(annotation)) {
          lines += "  value ";
          append_location(lines, {.file = node->location()->file, .name = node->name()});
          append_annotation(lines, *annotation);
        }
      }
    }
  }
  for (const Quantization& quantization : annotations.quantizations()) {
    lines += "  quantization ";
    append_quoted(lines, quantization.value);
    append_quantization(lines, quantization, options);
  }
  if (!lines.empty()) out.append(out.empty() ? "" : "\n").append("notes {\n").append(lines).append("}\n");
}

void parse_notes(Cursor& cursor, LiteralParser& literals, Module& module, const std::function<Graph*()>& graph_named) {
  Annotations& annotations = module.annotations();
  cursor.expect("{", "after 'notes'");
  while (!cursor.accept("}")) {
    if (cursor.accept_word("graph")) {
      Graph* graph = graph_named();
      graph->set_annotation(std::make_shared<const Annotation>(parse_annotation(cursor)));
    } else if (cursor.accept_word("node")) {
      ParsedLocation l = parse_quoted_location(cursor);
      annotations.set_node(l.view(), parse_annotation(cursor));
    } else if (cursor.accept_word("value")) {
      ParsedLocation l = parse_quoted_location(cursor);
      annotations.set_value(l.file, l.name, parse_annotation(cursor));
    } else if (cursor.accept_word("input")) {
      std::string name = cursor.string("a name in quotes");
      annotations.set_input(name, parse_annotation(cursor));
    } else if (cursor.accept_word("output")) {
      std::string name = cursor.string("a name in quotes");
      annotations.set_output(name, parse_annotation(cursor));
    } else if (cursor.accept_word("quantization")) {
      annotations.quantizations().push_back(parse_quantization(cursor, literals));
    } else {
      cursor.fail_expected("graph, node, value, input, output, quantization or '}'");
    }
  }
}

}  // namespace anfora::ir
