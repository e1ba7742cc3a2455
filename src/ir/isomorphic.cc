// Operands are ordered and main is given, so that a walk from main's result over both modules at once pairs every node
// with the only one it could be equal to. What is paired once must stay paired, in both directions. Two functions of one module are walked
// from their results, and what is around them is paired with itself.
#include "ir/isomorphic.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cctype>
#include <string_view>
#include <vector>

#include "ir/readable.h"

namespace anfora::ir {
namespace {

class Pairing {
 public:
  Pairing(const Module& a, const Module& b, const Comparison& comparison) : a_(a), b_(b), comparison_(comparison) {}

  std::string of_modules() {
    if (!a_.main() || !b_.main()) return a_.main() == b_.main() ? "" : "only one module has a main graph";
    if (comparison_.interface && a_.output_names() != b_.output_names()) return "the names of the results differ";
    return of_graphs(*a_.main(), *b_.main());
  }

  std::string of_functions(const Graph& f, const Graph& g) {
    if (f.parent() != g.parent()) return "the functions are in different places";
    function_ = &f;
    return of_graphs(f, g);
  }

 private:
  std::string of_graphs(const Graph& x, const Graph& y) {
    pair_graphs(x, y);
    while (difference_.empty() && !pending_.empty()) {
      auto [x, y] = pending_.back();
      pending_.pop_back();
      compare_operands(*x, *y);
    }
    return difference_;
  }

  template <class... Args>
  bool differ(fmt::format_string<Args...> format, Args&&... args) {
    if (difference_.empty()) difference_ = fmt::format(format, std::forward<Args>(args)...);
    return false;
  }

  // True when the pair is new; false when it is known or when it does not fit.
  template <class T, class What>
  bool pair(const T* x, const T* y, boost::unordered_flat_map<const T*, const T*>& there,
            boost::unordered_flat_map<const T*, const T*>& back, What what) {
    auto [image, is_new] = there.try_emplace(x, y);
    auto [source, is_new_back] = back.try_emplace(y, x);
    if (image->second != y || source->second != x) return differ("{}: shared on one side only", what());
    return is_new && is_new_back;
  }

  bool pair_graphs(const Graph& x, const Graph& y) {
    auto what = [&] { return fmt::format("@{}", x.name()); };
    if (!pair<Graph>(&x, &y, graphs_, graphs_back_, what)) return difference_.empty();
    const bool is_function = &x == function_;
    if (!is_function && !x.parent() != !y.parent()) return differ("{}: nested on one side only", what());
    if (!is_function && x.parent() && !pair_graphs(*x.parent(), *y.parent())) return false;
    if (x.parameters().size() != y.parameters().size()) {
      return differ("{}: {} parameters against {}", what(), x.parameters().size(), y.parameters().size());
    }
    for (size_t i = 0; i < x.parameters().size(); ++i) {
      const Parameter &p = *x.parameter(i), &q = *y.parameter(i);
      bool named = comparison_.names || (comparison_.interface && &x == a_.main());
      if (named && p.name() != q.name()) {
        return differ("{}: parameter {} is called {} against {}", what(), i, p.name(), q.name());
      }
      if (!same_type(p.type(), q.type())) {
        return differ("{}: parameter {}: {} against {}", what(), i, to_string(p.type()), to_string(q.type()));
      }
      const Value *d = a_.default_of(&p), *e = b_.default_of(&q);
      if (!d != !e || (d && !Tensor::identical(d->tensor(), e->tensor()))) {
        return differ("{}: parameter {}: the defaults differ", what(), i);
      }
      if (p.is_donated() != q.is_donated()) return differ("{}: parameter {}: donated on one side only", what(), i);
      nodes_.emplace(&p, &q);
      nodes_back_.emplace(&q, &p);
    }
    if (!x.return_node() != !y.return_node()) return differ("{}: a result on one side only", what());
    if (x.return_node()) pending_.push_back({x.return_node(), y.return_node()});
    return true;
  }

  bool same_type(const Type* x, const Type* y) {
    return !comparison_.types || !x || !y || x == y || (&a_.context() != &b_.context() && same_text(to_string(x), to_string(y)));
  }

  // Of two types, up to the names of the symbols that inference made.
  bool same_text(std::string_view x, std::string_view y) {
    for (;;) {
      const std::string_view word = next_word(x), other = next_word(y);
      if (word.empty() || other.empty()) return word.empty() && other.empty();
      if (is_generated(word) && is_generated(other)) {
        const auto image = symbols_.try_emplace(std::string(word), other).first;
        const auto source = symbols_back_.try_emplace(std::string(other), word).first;
        if (image->second != other || source->second != word) return false;
      } else if (word != other) {
        return false;
      }
    }
  }
  static std::string_view next_word(std::string_view& text) {
    const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    size_t length = static_cast<size_t>(std::ranges::find_if_not(text, is_letter) - text.begin());
    if (length == 0 && !text.empty()) length = 1;
    const std::string_view word = text.substr(0, length);
    text.remove_prefix(length);
    return word;
  }

  bool is_around(const Node& x) const {
    const Graph* graph = constant_function(&x) ? constant_function(&x) : x.graph();
    return function_ && graph && !graph->is_inside(function_);
  }

  void compare_operands(const Apply& x, const Apply& y) {
    for (size_t i = 0; i < x.num_inputs() && difference_.empty(); ++i) compare(*x.input(i), *y.input(i), i, x);
  }

  bool compare(const Node& x, const Node& y, size_t index, const Apply& user) {
    auto what = [&] { return fmt::format("@{}: operand {} of {}", user.graph()->name(), index, describe(user)); };
    if (is_around(x)) return &x == &y || differ("{}: {} against {}", what(), describe(x), describe(y));
    if (x.kind() != y.kind()) return differ("{}: {} against {}", what(), describe(x), describe(y));
    if (!same_type(x.type(), y.type())) {
      return differ("{}: {} against {}", what(), to_string(x.type()), to_string(y.type()));
    }
    if (x.is_value()) return compare_values(*x.as_value(), *y.as_value(), what);
    if (comparison_.names && x.name() != y.name()) return differ("{}: {} against {}", what(), x.name(), y.name());
    if (x.is_parameter()) {  // paired with its graph
      auto image = nodes_.find(&x);
      if (image != nodes_.end() && image->second == &y) return true;
      return differ("{}: {} against {}", what(), describe(x), describe(y));
    }
    const Apply &f = *x.as_apply(), &g = *y.as_apply();
    if (f.op().qualified != g.op().qualified || f.num_outputs() != g.num_outputs() ||
        f.num_inputs() != g.num_inputs()) {
      return differ("{}: {} of {} operands against {} of {}", what(), describe(f), f.num_inputs(), describe(g),
                    g.num_inputs());
    }
    if (!(f.attributes() == g.attributes())) return differ("{}: attributes of {} differ", what(), describe(f));
    if (!pair<Node>(&x, &y, nodes_, nodes_back_, what)) return difference_.empty();
    auto image = graphs_.find(f.graph());
    if (image == graphs_.end() || image->second != g.graph()) {
      return differ("{}: {} is in @{} against @{}", what(), describe(f), f.graph()->name(), g.graph()->name());
    }
    pending_.push_back({&f, &g});
    return true;
  }

  template <class What>
  bool compare_values(const Value& x, const Value& y, What what) {
    if (x.is_graph() && y.is_graph()) return pair_graphs(*x.function(), *y.function());
    if (x.is_none() && y.is_none()) return true;
    if (x.is_type() && y.is_type() && to_string(x.described()) == to_string(y.described())) return true;
    if (x.is_tensor() && y.is_tensor() && Tensor::identical(x.tensor(), y.tensor())) return true;
    return differ("{}: constants differ", what());
  }

  const Module &a_, &b_;
  const Comparison comparison_;
  const Graph* function_ = nullptr;  // what is compared, where it is not the modules
  std::string difference_;
  boost::unordered_flat_map<const Node*, const Node*> nodes_, nodes_back_;
  boost::unordered_flat_map<const Graph*, const Graph*> graphs_, graphs_back_;
  boost::unordered_flat_map<std::string, std::string> symbols_, symbols_back_;  // that inference made
  std::vector<std::pair<const Apply*, const Apply*>> pending_;
};

}  // namespace

std::string difference(const Module& a, const Module& b, const Comparison& comparison) {
  return Pairing(a, b, comparison).of_modules();
}

bool isomorphic(const Graph& f, const Graph& g) { return Pairing(f.module(), g.module(), {}).of_functions(f, g).empty(); }

}  // namespace anfora::ir
