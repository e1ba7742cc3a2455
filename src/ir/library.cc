#include "ir/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cctype>
#include <string>

#include "anfora/error.h"
#include "ir/parse.h"

namespace anfora::ir {

namespace {

// How many parameters a gradient has: two operands where their number is open.
size_t parameters_of_gradient(const Operator& op) {
  const bool is_variadic = !op.inputs.empty() && op.inputs.back().arity == Formal::Arity::Variadic;
  return op.inputs.size() + (is_variadic ? 1 : 0) + 2 * op.outputs.size();
}

// Of the operators whose functions a file has, as its header says.
std::string_view domain_of(const Library::File& file) {
  constexpr std::string_view kDomain = "domain = \"";
  const std::string_view header = file.text.substr(0, file.text.find("graph @"));
  const size_t at = header.find(kDomain);
  if (at == std::string_view::npos) return {};
  const std::string_view domain = header.substr(at + kDomain.size());
  return domain.substr(0, domain.find('"'));
}

}  // namespace

Library::Library(Context& context, std::span<const File> files, Of of) : context_(context), of_(of) {
  auto shared = std::ranges::find(files, "shared.ir", &File::name);
  shared_ = shared == files.end() ? nullptr : &*shared;
  boost::unordered_flat_set<std::string_view> domains;
  for (const File& file : files) {
    const std::string_view domain = domain_of(file);
    index(file, domain);
    if (&file != shared_) domains.insert(domain);
  }
  std::vector<const Operator*> operators = of == Of::Meanings ? context.operators() : std::vector<const Operator*>();
  std::erase_if(operators, [&](const Operator* op) { return op->meaning.empty() || !domains.contains(op->domain); });
  for (const Operator* op : operators) declared_.push_back({op->qualified, op->meaning});
  for (size_t i = 0; i < declared_.size(); ++i) index(declared_[i], operators[i]->domain);
}

// Functions begin at the beginning of a line.
void Library::index(const File& file, std::string_view domain) {
  constexpr std::string_view kBegin = "graph @";
  auto next_from = [&](size_t at) {
    for (at = file.text.find(kBegin, at); at != 0 && at != std::string_view::npos && file.text[at - 1] != '\n';)
      at = file.text.find(kBegin, at + 1);
    return at;
  };
  size_t begin = next_from(0), line = 0;
  std::string_view& header = headers_[&file];
  header = file.text.substr(0, begin);
  line = static_cast<size_t>(std::ranges::count(header, '\n'));
  while (begin != std::string_view::npos) {
    const size_t end = next_from(begin + 1);
    Function function{.file = &file, .name = {}, .text = file.text.substr(begin, end - begin), .line = line};
    function.name = function.text.substr(kBegin.size());
    function.name = function.name.substr(0, function.name.find('('));
    function.op = context_.find_operator(domain, function.name);
    by_name_[function.name].push_back(functions_.size());
    if (function.op) by_operator_.emplace(function.op, functions_.size());
    line += static_cast<size_t>(std::ranges::count(function.text, '\n'));
    functions_.push_back(std::move(function));
    begin = end;
  }
}

const Library::Function* Library::resolve(const File* from, std::string_view name) const {
  auto known = by_name_.find(name);
  if (known == by_name_.end()) return nullptr;
  const Function* found = nullptr;
  for (Place place : known->second) {
    const Function& function = functions_[place];
    if (function.file == from) return &function;
    if (function.file == shared_) found = &function;
  }
  return found;
}

// The function, and those that it calls, in a module of their own.
const Graph* Library::read(Function& function) const {
  if (function.module) return function.graph;
  std::vector<const Function*> needed{&function};
  for (size_t next = 0; next < needed.size(); ++next) {
    const std::string_view text = needed[next]->text;
    for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
      size_t end = at + 1;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
      const Function* called = resolve(function.file, text.substr(at + 1, end - at - 1));
      if (called && !std::ranges::count(needed, called)) needed.push_back(called);
    }
  }
  // Each in its line, so that errors say the place; shared ones behind the file's own.
  std::ranges::sort(needed, [&](const Function* a, const Function* b) {
    return std::pair(a->file != function.file, a->line) < std::pair(b->file != function.file, b->line);
  });
  std::string text(headers_.at(function.file));
  size_t lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  for (const Function* one : needed) {
    const size_t before = one->file == function.file ? one->line : lines + 1;
    text.append(before - std::min(lines, before), '\n');
    text += one->text;
    lines = before + static_cast<size_t>(std::ranges::count(one->text, '\n'));
  }
  function.module = parse(context_, text, {.file = function.file->name, .locate = true});
  function.graph = function.module->find_graph(function.name);
  if (const Operator* op = function.op) {
    const size_t count = function.graph->parameters().size(), of_gradient = parameters_of_gradient(*op);
    if (op->inputs.size() != count && !(of_ == Of::Gradients && (count == of_gradient || count == of_gradient + 1))) {
      throw Error(ErrorCode::InvalidModel,
                  fmt::format("@{} has {} parameters, the operator {} inputs", function.name, count, op->inputs.size()))
          .at_location(std::string(function.file->name));
    }
  }
  return function.graph;
}

const Graph* Library::meaning(const Operator& op) const {
  const Graph* function = find(op);
  return function && function->parameters().size() == op.inputs.size() ? function : nullptr;
}

bool Library::is_update(const Operator& op, const Graph& gradient) {
  return gradient.parameters().size() == parameters_of_gradient(op) + 1;
}

const Graph* Library::find(std::string_view name) const {
  auto known = by_name_.find(name);
  return known == by_name_.end() ? nullptr : read(functions_[known->second[0]]);
}

const Graph* Library::find(const Operator& op) const {
  auto known = by_operator_.find(&op);
  return known == by_operator_.end() ? nullptr : read(functions_[known->second]);
}

std::vector<const Operator*> Library::operators() const {
  std::vector<const Operator*> operators;
  for (const Function& function : functions_) {
    if (function.op) operators.push_back(function.op);
  }
  return operators;
}

std::vector<Module*> Library::read_all() const {
  std::vector<Module*> modules;
  for (Function& function : functions_) {
    read(function);
    modules.push_back(function.module.get());
  }
  return modules;
}

}  // namespace anfora::ir
