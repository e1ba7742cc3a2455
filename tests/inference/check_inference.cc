// Compares what inference says of the values of a model with the values themselves: every type, every dimension, and
// every element of an integer tensor that is tracked as an expression.
//
// usage: check_inference < LINES
//
// Each line is "MODEL<tab>INPUTS": a folder with input_I.pb, or an .npz whose keys are the names of the inputs, bare or
// as "in:NAME". It is answered by "ok NODES", "skipped REASON" where the model does not import or run, or
// "wrong NODE: REASON".
//
// Symbols get their values where a dimension of main is a symbol by itself; expressions are compared when all their
// symbols have one. Symbols made inside a function mean another size at each invocation and are left out.
#include <fmt/format.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <filesystem>
#include <iostream>
#include <string>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/inputs.h"
#include "driver/model.h"
#include "driver/npz.h"
#include "support/element_types.h"

namespace {

using namespace anfora;
namespace fs = std::filesystem;

std::vector<Datum> inputs_of(const ir::Module& module, const fs::path& source) {
  std::vector<Datum> inputs;
  const auto parameters = module.main()->parameters();
  if (fs::is_directory(source)) {
    for (const ir::Parameter* p : parameters) {
      const fs::path file = source / fmt::format("input_{}.pb", inputs.size());
      inputs.push_back(fs::exists(file) ? driver::read_pb(file, p->type()) : Datum());
    }
    return inputs;
  }
  const auto arrays = driver::read_npz(source);
  for (const ir::Parameter* p : parameters) {
    auto named = [&](const std::string& name) {
      return std::ranges::find_if(arrays, [&](const auto& entry) { return entry.first == name; });
    };
    auto found = named("in:" + std::string(p->name()));
    if (found == arrays.end()) found = named(std::string(p->name()));
    inputs.push_back(found == arrays.end() ? Datum() : Datum(found->second));
  }
  return inputs;
}

class Checker {
 public:
  Checker(const ir::Module& module, const analysis::Inference& inference) : module_(module), inference_(inference) {}

  void see(const ir::Node& node, const Datum& value) {
    ++nodes_;
    compare(node, node.type(), value);
    if (value.is_tensor()) {
      compare_elements(node, 0, value.tensor());
    } else if (value.kind() == Datum::Kind::Tuple) {
      for (size_t i = 0; i < value.items().size(); ++i) {
        if (value.items()[i].is_tensor()) compare_elements(node, i, value.items()[i].tensor());
      }
    }
  }

  // Checks the expressions; all symbols that get a value have it now.
  void finish() {
    auto value_of = [&](std::string_view name) -> std::optional<int64_t> {
      auto found = symbols_.find(std::string(name));
      return found == symbols_.end() ? std::nullopt : std::optional(found->second);
    };
    for (const Pending& p : pending_) {
      auto value = ir::evaluate(p.dim, value_of);
      if (value && *value != p.actual) {
        complain(*p.node, fmt::format("{} is {}, in fact {}{}", to_string(p.dim), *value, p.actual, p.what));
      }
    }
  }

  size_t nodes() const { return nodes_; }
  const std::string& complaint() const { return complaint_; }

 private:
  struct Pending {
    const ir::Node* node;
    ir::Dim dim;
    int64_t actual;
    const char* what;
  };

  void complain(const ir::Node& node, const std::string& what) {
    if (complaint_.empty()) complaint_ = fmt::format("{}: {}", describe(node), what);
  }

  void compare(const ir::Node& node, const ir::Type* type, const Datum& value) {
    if (!type) return complain(node, "has no type");
    if (type->is_tensor() && type->dtype() == DType::Undefined && !type->has_rank()) return;
    switch (value.kind()) {
      case Datum::Kind::None:
        if (!type->is_none() && type->kind() != ir::TypeKind::Optional)
          complain(node, fmt::format("is {}, in fact absent", to_string(type)));
        return;
      case Datum::Kind::Tensor:
        return compare_tensor(node, type->kind() == ir::TypeKind::Optional ? type->element() : type, value.tensor());
      case Datum::Kind::Sequence:
      case Datum::Kind::Tuple:
        if (type->kind() == ir::TypeKind::Optional) type = type->element();
        if ((value.kind() == Datum::Kind::Tuple) != type->is_tuple())
          return complain(node, fmt::format("is {}", to_string(type)));
        for (size_t i = 0; i < value.items().size(); ++i)
          compare(node, type->element(type->is_tuple() ? i : 0), value.items()[i]);
        return;
      case Datum::Kind::Map:
      case Datum::Kind::Function: return;
    }
  }

  void compare_tensor(const ir::Node& node, const ir::Type* type, const Tensor& tensor) {
    auto differs = [&] {
      complain(node, fmt::format("is {}, in fact {}[{}]", to_string(type), name(tensor.dtype()),
                                 fmt::join(tensor.shape(), ", ")));
    };
    if (!type->is_tensor()) return differs();
    if (type->dtype() != DType::Undefined && type->dtype() != tensor.dtype()) return differs();
    if (!type->has_rank()) return;
    if (type->rank() != tensor.rank()) return differs();
    for (int axis = 0; axis < tensor.rank(); ++axis) {
      const ir::Dim dim = type->dim(axis);
      if (dim.is_constant() && dim.constant() != tensor.dim(axis)) return differs();
      note(node, dim, tensor.dim(axis), "");
    }
  }

  void compare_elements(const ir::Node& node, size_t output, const Tensor& tensor) {
    const auto known = inference_.elements(&node, output);
    if (!known || (tensor.dtype() != DType::I64 && tensor.dtype() != DType::I32)) return;
    if (std::ssize(*known) != tensor.size()) {
      return complain(node, fmt::format("has {} elements, in fact {}", known->size(), tensor.size()));
    }
    for (size_t i = 0; i < known->size(); ++i) {
      const int64_t actual = tensor.dtype() == DType::I64 ? tensor.data<int64_t>()[i] : tensor.data<int32_t>()[i];
      const ir::Dim dim = (*known)[i];
      if (dim.is_constant() && dim.constant() != actual) {
        return complain(node, fmt::format("element {} is {}, in fact {}", i, dim.constant(), actual));
      }
      if (!dim.is_symbol()) note(node, dim, actual, " (an element)");
    }
  }

  void note(const ir::Node& node, ir::Dim dim, int64_t actual, const char* what) {
    if (dim.is_unknown() || dim.is_constant()) return;
    if (dim.is_symbol() && node.graph() == module_.main()) {
      auto [symbol, first] = symbols_.emplace(std::string(dim.symbol_name()), actual);
      if (first) return;
    }
    pending_.push_back({&node, dim, actual, what});
  }

  const ir::Module& module_;
  const analysis::Inference& inference_;
  size_t nodes_ = 0;
  std::string complaint_;
  boost::unordered_flat_map<std::string, int64_t> symbols_;
  std::vector<Pending> pending_;
};

std::string check(const fs::path& path, const fs::path& source) {
  try {
    const driver::LoadedModel model = driver::load_model(path);
    analysis::Inference inference(*model.module);
    inference.run();
    Checker checker(*model.module, inference);
    const std::vector<Datum> inputs = inputs_of(*model.module, source);
    analysis::interpret(*model.module, inputs, 0,
                        [&](const ir::Node& node, const Datum& value) { checker.see(node, value); });
    checker.finish();
    return checker.complaint().empty() ? fmt::format("ok {}", checker.nodes()) : "wrong " + checker.complaint();
  } catch (const Error& error) {
    return fmt::format("skipped {}", error.what());
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    fmt::print("{}\n", check(line.substr(0, tab), line.substr(tab + 1)));
    std::fflush(stdout);
  }
  return 0;
}
