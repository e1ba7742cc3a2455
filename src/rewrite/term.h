// The syntax tree of a rule: terms (patterns and results share one form) and expressions. docs/rule-language.md
// has the grammar; rewrite/parse_rules.h makes these from text.
//
// Variables are slots of a Match, numbered when the rule is read:
//
//     Concat{axis=a}(Relu(x)...)  =>  Relu(Concat{axis=a}(x...))        lists[0] = x, quantities[0] = a
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/operator.h"
#include "rewrite/quantity.h"

namespace anfora::rewrite {

struct Function;

struct Expression {
  enum class Kind : uint8_t {
    Literal,
    Quantity,  // an attribute variable
    Node,      // a variable of a pattern; None where an optional operand is absent
    NodeList,  // a variable within a repeated pattern
    Call,
    List,  // [a, b, …], which splices lists
    And,   // the next three decide with one operand where they can, known or not
    Or,
    Not,
  };
  Kind kind = Kind::Literal;
  size_t position = 0;
  Quantity literal;
  int slot = -1;
  const Function* function = nullptr;
  std::vector<Expression> operands;
};

// {name=…}: in a pattern a fresh variable binds the attribute's value, anything else must equal it. In a result, the value.
struct AttributeTerm {
  std::string name;
  int binds = -1;  // slot of quantities; −1: compares with `value`
  Expression value;
  bool optional = false;  // {alpha=e?}, in a result: left out where the value is not known
};

struct Term {
  enum class Kind : uint8_t {
    Wildcard,  // _
    Variable,  // x; x? when the operand may be absent
    Number,    // a constant all of whose elements are this; in a result, a scalar constant
    None,      // an operand that is left out
    Apply,
    Either,    // (s | t), in a pattern: the operands are what it may be
    Item,      // t.1, the result of that number of an application with several
    Computed,  // in a result: an expression that gives a node, a tensor or a list of integers
    Around,    // V(t), in a result: what the pattern has around a term, around operands[0]
    Tuple,     // (t, u, …), in a result: what the results of an application become, as many as it has
    Folded,    // folded(t, dtype), in a result: the constant that operands[0] is; its element type is `value`
  };
  Kind kind = Kind::Wildcard;
  size_t position = 0;
  bool repeated = false;  // t...: any number of operands, all of that form
  bool optional = false;  // x?

  int slot = -1;             // of nodes, or of lists when `in_list`; an application's own name; what is Around
  bool in_list = false;      // a variable within a repeated term
  double number = 0;         // of a Number
  bool approximate = false;  // ~number
  int64_t index = 0;         // of an Item, whose application is operands[0], and its operator TupleGetItem
  int inside = -1;           // of what is Around: the slot of the node in the middle

  // Of an Apply. Several operators: a class, F:unary(x), of which operator slot `operator_slot` gets the one that is there.
  // In a result of such a rule `operators` is empty, and the slot tells.
  std::vector<const ir::Operator*> operators;
  int operator_slot = -1;
  bool flattened = false;  // Add*(…): the operands of a whole tree of the associative operator, in any order
  // F:_(…): in a pattern, with any number of results, of which an operand is the first; in a result, with as many as that.
  bool any_results = false;
  std::vector<AttributeTerm> attributes;
  int rest = -1;  // ..a: slot of attribute sets, for the attributes that are not named; −1: they have their defaults
  bool is_of_group = false;  // of a result: it has as many results as the group that the rule replaces
  size_t num_results = 0;    // of an application that a result names: how many of them the rule asks for; 0: one
  std::vector<Term> operands;
  Expression value;  // of a Computed, and the element type of what is Folded
};

}  // namespace anfora::rewrite
