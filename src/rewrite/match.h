// Matching: the values of a rule's variables for which its pattern is the graph at a root.
#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>
#include <vector>

#include "rewrite/term.h"
#include "support/function_ref.h"

namespace anfora::rewrite {

// How many slots of each kind a rule has; counted when it is read.
struct SlotCounts {
  int nodes = 0, lists = 0, quantities = 0, operators = 0, attribute_sets = 0;
};

struct Match {
  explicit Match(const SlotCounts& counts)
      : nodes(counts.nodes),
        absent(counts.nodes),
        lists(counts.lists),
        quantities(counts.quantities),
        operators(counts.operators),
        attribute_sets(counts.attribute_sets) {}

  boost::container::small_vector<ir::Node*, 8> nodes;  // null: not bound, or an optional operand that is absent
  boost::container::small_vector<bool, 8> absent;      // the latter
  boost::container::small_vector<Nodes, 1> lists;
  boost::container::small_vector<Quantity, 4> quantities;
  boost::container::small_vector<const ir::Operator*, 1> operators;
  boost::container::small_vector<std::optional<AttributeSet>, 1> attribute_sets;  // empty: not bound
  // The applications that the pattern names, the root first.
  boost::container::small_vector<ir::Apply*, 8> applications;
  size_t group_size = 0;  // how many applications match a rule of a group
};

// Finds bindings one after the other, in a fixed order, until `accept` takes one: operands of commutative operators are
// tried in both orders, choices in their order, repeated terms with the
// fewest operands first. False: none was taken.
// Attribute expressions of the pattern are evaluated by `evaluate`.
bool for_each_match(const Term& pattern, ir::Apply& root, Match& match,
                    FunctionRef<Quantity(const Expression&)> evaluate, FunctionRef<bool()> accept);

// The same of the readers of an operand, in the graph of the root and none that has matched; where there are very many, none is tried.
bool for_each_reader(const Term& pattern, ir::Node& operand, Match& match,
                     FunctionRef<Quantity(const Expression&)> evaluate, FunctionRef<bool()> accept);

// Whether all elements of a constant are that number: exactly as its type has it, or approximately.
bool is_splat(const ir::Node* node, double number, bool approximate = false);
// The one number that all elements of a constant are; empty: they differ, or are no real numbers.
std::optional<double> splat_value(const ir::Node* node);

}  // namespace anfora::rewrite
