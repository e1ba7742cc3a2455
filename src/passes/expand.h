// What the files of the pass `expand` share: the rules of each, and a short way to write the operators that they make.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/queries.h"
#include "rewrite/rule.h"

namespace anfora::passes {

std::span<const rewrite::Rule> attention_expansions();          // expand_attention.cc
std::span<const rewrite::Rule> grouped_attention_expansions();  // expand_grouped_attention.cc
std::span<const rewrite::Rule> normalization_expansions();      // expand_normalization.cc
std::span<const rewrite::Rule> product_expansions();            // expand_product.cc
std::span<const rewrite::Rule> nchwc_expansions();              // expand_nchwc.cc
std::span<const rewrite::Rule> quantized_expansions();          // expand_quantized.cc

// The application that is expanded, and what takes its place.
class Expansion {
 public:
  using Nodes = std::initializer_list<ir::Node*>;

  Expansion(rewrite::Rewriter& rewriter, ir::Apply& root) : rewriter_(rewriter), root_(root) {}

  // Whether the element types of all operands are known.
  bool is_typed() const;
  // Operands that are left out are null.
  ir::Node* input(size_t i) const;
  int64_t integer(std::string_view attribute) const;
  float number(std::string_view attribute) const;
  bool given(std::string_view attribute) const { return root_.attributes().has(attribute); }
  // Whether anybody uses result i.
  bool is_used(size_t i) const;

  // An application; a null among the operands is one that is left out.
  ir::Node* apply(std::string_view op, Nodes inputs, const AttributeSet& attributes = {});
  ir::Apply* apply_several(std::string_view op, Nodes inputs, size_t results, const AttributeSet& attributes = {});
  ir::Node* item(ir::Apply* several, size_t i);
  ir::Node* integers(std::initializer_list<int64_t> values);
  // A scalar of the element type of another node.
  ir::Node* scalar_like(const ir::Node* like, double number);
  // Parts of a tensor along an axis.
  std::vector<ir::Node*> split(ir::Node* x, int64_t axis, ir::Node* sizes, size_t count);
  // [batch, sequence, heads · size] as [batch, heads, sequence, size], and back.
  ir::Node* split_heads(ir::Node* x, int64_t heads);
  ir::Node* joined_heads(ir::Node* x);
  // How many elements x has along an axis, as a vector of one.
  ir::Node* extent(ir::Node* x, int64_t axis);
  // Numbers from 0 below a size, a vector of one.
  ir::Node* numbers_below(ir::Node* size);
  // x + y, either of which may be null.
  ir::Node* sum(ir::Node* x, ir::Node* y);
  // The activation that ONNX Runtime's fusions name; null: not known.
  ir::Node* activation(std::string_view name, ir::Node* x, std::optional<float> alpha, std::optional<float> beta);
  // What the root is, a convolution with a bias, a sum and an activation behind it, by these weights.
  ir::Node* fused_convolution(ir::Node* weights);

  // What takes the root's place: the first of these, or all of them where the root has several results. Null among them: a
  // result that nobody uses.
  ir::Node* result(Nodes results);

 private:
  rewrite::Rewriter& rewriter_;
  ir::Apply& root_;
};

// Queries, keys and values by heads, [batch, heads, sequence, size]; several heads of queries may share one of keys.
struct Heads {
  ir::Node *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t heads = 0, groups = 0;  // of queries; of keys and values
  ir::Node* scale = nullptr;
  float cap = 0;              // of the scores; 0: none
  ir::Node* bias = nullptr;   // added to the scores, which it broadcasts to; null: none
  ir::Node* sinks = nullptr;  // a score of its own, a scalar or one for each head, that takes part in the softmax alone
};
ir::Node* attention_in_parts(Expansion& e, const Heads& h);  // attention_parts.cc

// A scale or zero point of one element may be a vector.
ir::Node* dequantized(Expansion& e, ir::Node* x, ir::Node* scale, ir::Node* zero);  // expand_quantized.cc

// What quantized matrices stand for, multiplied: (a − zero of a) (b − zero of b) · scale of a · scale of b.
ir::Node* integer_product(Expansion& e, ir::Node* a, ir::Node* b, ir::Node* scale_a, ir::Node* scale_b,
                          ir::Node* zero_a,
                          ir::Node* zero_b);  // expand_quantized.cc


}  // namespace anfora::passes
