// A short way to write the applications that take the place of another one, for rules that are functions.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ir/queries.h"
#include "rewrite/rule.h"

namespace anfora::passes {

class Replacement {
 public:
  using Nodes = std::initializer_list<ir::Node*>;

  Replacement(rewrite::Rewriter& rewriter, ir::Apply& root) : rewriter_(rewriter), root_(root) {}

  // Operands that are left out are null.
  ir::Node* input(size_t i) const;
  int64_t integer(std::string_view attribute) const;
  float number(std::string_view attribute) const;
  bool given(std::string_view attribute) const { return root_.attributes().has(attribute); }

  // An application; a null among the operands is one that is left out.
  ir::Node* apply(std::string_view op, Nodes inputs, const AttributeSet& attributes = {});
  ir::Node* integers(std::initializer_list<int64_t> values);
  // A scalar of the element type of another node.
  ir::Node* scalar_like(const ir::Node* like, double number);
  // [batch, sequence, heads · size] as [batch, heads, sequence, size], and back.
  ir::Node* split_heads(ir::Node* x, int64_t heads);
  ir::Node* joined_heads(ir::Node* x);

 private:
  rewrite::Rewriter& rewriter_;
  ir::Apply& root_;
};

// Whether the element types of all operands are known.
bool is_typed(const ir::Apply& node);
// Whether anybody uses result i.
bool is_result_used(const ir::Apply& node, size_t i);

}  // namespace anfora::passes
