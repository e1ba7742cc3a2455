// Reads Python trees as JSON, one a line (src/frontend/python/tree_as_json.py), folds them, and writes each back as JSON. With --all, the
// rules of our own as well. A constant may be {"tuple": […]} or {"frozenset": […]} then. The rewrites are in "rewrites".
//
// usage: fold_trees [--all] < trees
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "frontend/python/fold.h"

namespace {

using namespace anfora::python;
using Json = nlohmann::ordered_json;

std::string as_hex(double x) { return std::isnan(x) ? "nan" : std::isinf(x) ? (x < 0 ? "-inf" : "inf") : fmt::format("{:a}", x); }

Json as_json(const Constant& constant);

Json as_json(const std::vector<Constant>& items) {
  Json list = Json::array();
  for (const Constant& item : items) list.push_back(as_json(item));
  return list;
}

Json as_json(const Constant& constant) {
  struct Visitor {
    Json operator()(NoneValue) const { return "None"; }
    Json operator()(bool b) const { return b ? "True" : "False"; }
    Json operator()(EllipsisValue) const { return "..."; }
    Json operator()(const Integer& i) const { return {{"int", i.str()}}; }
    Json operator()(double x) const { return {{"float", as_hex(x)}}; }
    Json operator()(const std::complex<double>& c) const { return {{"complex", {as_hex(c.real()), as_hex(c.imag())}}}; }
    Json operator()(const std::u32string& text) const {
      Json points = Json::array();
      for (char32_t c : text) points.push_back(static_cast<uint32_t>(c));
      return {{"str", points}};
    }
    Json operator()(const Bytes& bytes) const {
      std::string hex;
      for (unsigned char c : bytes.bytes) hex += fmt::format("{:02x}", c);
      return {{"bytes", hex}};
    }
    Json operator()(const Tuple& tuple) const { return {{"tuple", as_json(tuple.items)}}; }
    Json operator()(const FrozenSet& set) const { return {{"frozenset", as_json(set.items)}}; }
  };
  return std::visit(Visitor(), constant.value);
}

Json as_json(const Tree* tree) {
  if (!tree) return nullptr;
  Json written = {{"_", tree->name}};
  if (tree->is(Kind::Constant)) written["value"] = as_json(tree->constant);
  for (const auto& [name, field] : tree->fields) {
    if (const auto* one = std::get_if<Tree*>(&field)) written[name] = as_json(*one);
    if (const auto* text = std::get_if<std::string>(&field)) written[name] = *text;
    if (const auto* texts = std::get_if<std::vector<std::string>>(&field)) written[name] = *texts;
    if (const auto* many = std::get_if<Tree::Trees>(&field)) {
      written[name] = Json::array();
      for (const Tree* item : *many) written[name].push_back(as_json(item));
    }
  }
  return written;
}

}  // namespace

int main(int argc, char** argv) {
  const FoldSet set = argc > 1 && std::string_view(argv[1]) == "--all" ? FoldSet::Anfora : FoldSet::CPython;
  for (std::string line; std::getline(std::cin, line);) {
    Source source = read_source(line);
    FoldReport report;
    fold(source, &report, set);
    Json rewrites = Json::array();
    for (const FoldRewrite& r : report.rewrites) rewrites.push_back({r.set == FoldSet::CPython ? "cpython" : "anfora", r.rule, r.before, r.after});
    Json texts = Json::array();
    for (const Tree* statement : source.root->list("body")) texts.push_back(unparse(*statement));
    std::cout << Json({{"tree", as_json(source.root)}, {"rewrites", rewrites}, {"texts", texts}}).dump() << '\n';
  }
}
