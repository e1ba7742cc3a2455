// Keys and values that are appended to those of earlier tokens belong to Attention, which returns them appended:
//
//     k' = Concat(past keys, k)                           (y, k', v') = Attention(q, k, v, mask, past keys, past values)
//     v' = Concat(past values, v)                 →
//     y  = Attention(q, k', v', mask)
//
// That takes the place of three results at once, which no rule does. Then heads may be split inside, as the rules of
// attention.rules do it where nothing is appended:
//
//     q = Transpose(Reshape(x))  [batch, heads, sequence, size]      →       x  [batch, sequence, heads · size]
//
// It is done for what is stored, behind all rules, which know the attention of one result. Who else reads the appended keys and
// values are results of the model: those that the mask or another attention is computed of would make a cycle. Linear.
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/infer.h"
#include "passes/expand.h"
#include "passes/pass.h"
#include "rewrite/admission.h"

namespace anfora::passes {

using namespace ir;

namespace {

constexpr std::string_view kPass = "caches";
constexpr std::string_view kRule = "attention-with-past";

enum Input { Query, Key, ValueOf, Mask };

Apply* as(Node* node, std::string_view op) {
  Apply* apply = node ? node->as_apply() : nullptr;
  return apply && apply->is(op) ? apply : nullptr;
}

bool same_dim(const Node* a, const Node* b, int axis) {
  return provably_equal(a->type()->dim(axis), b->type()->dim(axis));
}

// What is appended to what: new and earlier keys or values, by heads.
struct Appended {
  Apply* concat;
  Node* past() const { return concat->input(0); }
  Node* added() const { return concat->input(1); }
};

// The results of a graph may be one tuple of them.
bool is_result(Apply& user) { return user.as(Primitive::MakeTuple) && user.graph()->result() == &user; }

std::optional<Appended> appended(const Apply& attention, size_t operand) {
  Apply* concat = as(attention.input(operand), "Concat");
  if (!concat || concat->graph() != attention.graph() || concat->num_inputs() != 2 || rank_of(concat) != 4 ||
      rank_of(concat->input(0)) != 4 || rank_of(concat->input(1)) != 4)
    return std::nullopt;
  const int64_t axis = concat->attributes().get_int("axis", 0);
  if (axis != 2 && axis != -2) return std::nullopt;
  size_t others = 0;
  for (const Use& use : concat->uses()) {
    if (use.user == &attention && use.index() == operand) continue;
    if (!is_result(*use.user)) return std::nullopt;
    ++others;
  }
  return others > 0 ? std::optional(Appended{concat}) : std::nullopt;
}

// Whether [batch, heads, sequence, size] becomes [batch, sequence, heads, size], or the other way round.
bool swaps_heads(const Apply& transpose) {
  return transpose.attributes().get_ints("perm", {}) == std::vector<int64_t>{0, 2, 1, 3};
}

// Heads in front of the sequence, [batch, heads, sequence, size], as they are made of rows of all heads.
struct SplitHeads {
  Node* rows;       // [batch, sequence, heads · size]
  Apply* rotation;  // a RotaryEmbedding of the heads; null: none
};

std::optional<SplitHeads> split_heads(Node* heads) {
  Apply* rotation = as(heads, "RotaryEmbedding");
  Apply* transpose = as(rotation ? rotation->input(0) : heads, "Transpose");
  Apply* reshape = transpose ? as(transpose->input(0), "Reshape") : nullptr;
  if (!reshape || !swaps_heads(*transpose)) return std::nullopt;
  Node* rows = reshape->input(0);
  if (rank_of(rows) != 3 || rank_of(reshape) != 4 || !same_dim(rows, reshape, 0) || !same_dim(rows, reshape, 1))
    return std::nullopt;
  const int64_t count = extent_of(reshape, 2), size = extent_of(reshape, 3);
  if (count < 1 || size < 1 || extent_of(rows, 2) != count * size) return std::nullopt;
  return SplitHeads{rows, rotation};
}

class Caches {
 public:
  Caches(Module& module, const PassOptions& options, rewrite::Remarks& remarks)
      : module_(module), options_(options), remarks_(remarks), inference_(module) {}

  size_t run() {
    if (options_.math != rewrite::Promise::Real) return 0;  // its kernels sum in another order
    size_t count = 0;
    std::vector<Apply*> found;
    for (Graph* graph : module_.graphs()) {
      found.clear();
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (node->is("Attention") && node->num_outputs() == 1) found.push_back(node);
      }
      for (Apply* attention : found) count += take_in(*attention);
    }
    return count;
  }

 private:
  bool take_in(Apply& attention) {
    const AttributeSet& attributes = attention.attributes();
    // Where nothing is past, causality is by other positions.
    if (attention.num_inputs() > Mask + 1 || rank_of(attention.input(Query)) != 4 ||
        attributes.get_int("is_causal", 0) != 0 || attributes.get_int("left_window_size", -1) != -1 ||
        attributes.get_int("right_window_size", -1) != -1)
      return false;
    auto keys = appended(attention, Key), values = appended(attention, ValueOf);
    if (!keys || !values || keys->concat == values->concat || !same_dim(keys->past(), values->past(), 2)) return false;

    Apply* joined = joined_heads(attention);
    auto q = split_heads(attention.input(Query)), k = split_heads(keys->added()), v = split_heads(values->added());
    const bool packed = joined && q && k && v && !v->rotation;
    const int64_t heads = extent_of(attention.input(Query), 1), groups = extent_of(keys->added(), 1);
    AttributeSet made_with = attributes;
    std::array<Node*, 3> attended{attention.input(Query), keys->added(), values->added()};
    if (packed) {
      made_with = made_with.with("q_num_heads", heads).with("kv_num_heads", groups);
      attended = {rows_of(*q, heads), rows_of(*k, groups), v->rows};
    }
    Node* mask = attention.has_input(Mask) ? attention.input(Mask) : module_.none();
    Node* inputs[] = {attended[0], attended[1], attended[2], mask, keys->past(), values->past()};
    Apply* made = module_.apply(attention.graph(), attention.op(), inputs, made_with, 3, attention.location());
    std::string why = rewrite::why_not_typed(inference_, *made);
    if (why.empty()) why = rewrite::why_not_written(options_.has_operator, {&made, 1});
    if (!why.empty()) {
      remarks_.refused(kPass, kRule, attention, std::move(why));
      module_.erase_with_dead_operands(made);
      return false;
    }
    remarks_.applied(kPass, kRule, attention, "keys and values are appended inside");
    replace(*keys->concat, item(*made, 1));
    replace(*values->concat, item(*made, 2));
    Node* y = item(*made, 0);
    if (packed) {
      const int64_t shape[] = {0, 0, heads, extent_of(joined, 3)};
      Node* extents = module_.constant(Tensor::vector<int64_t>(shape));
      replace(*joined, apply(*joined, "Reshape", {y, extents}));
    } else {
      replace(attention, y);
    }
    return true;
  }

  // The transpose that is the only user of an attention by heads, [batch, sequence, heads, size]; null: there is none.
  static Apply* joined_heads(Apply& attention) {
    if (!attention.has_one_use()) return nullptr;
    Apply* user = (*attention.uses().begin()).user;
    const bool joins =
        user->is("Transpose") && user->graph() == attention.graph() && extent_of(user, 3) > 0 && swaps_heads(*user);
    return joins ? user : nullptr;
  }

  Node* rows_of(const SplitHeads& heads, int64_t count) {
    if (!heads.rotation) return heads.rows;
    std::vector<Node*> operands{heads.rows};
    for (size_t i = 1; i < heads.rotation->num_inputs(); ++i) operands.push_back(heads.rotation->input(i));
    return apply(*heads.rotation, "RotaryEmbedding", operands, heads.rotation->attributes().with("num_heads", count));
  }

  Node* item(Apply& several, size_t i) {
    Node* made = module_.tuple_item(several.graph(), &several, i);
    inference_.infer(*made->as_apply());
    return made;
  }

  Apply* apply(const Apply& old, std::string_view op, std::span<Node* const> inputs,
               const AttributeSet& attributes = {}) {
    Apply* made = module_.apply(old.graph(), module_.context().get_operator(op), inputs, attributes, 1, old.location());
    inference_.infer(*made);
    return made;
  }
  Apply* apply(const Apply& old, std::string_view op, std::initializer_list<Node*> inputs) {
    return apply(old, op, std::span<Node* const>(inputs.begin(), inputs.size()));
  }

  void replace(Apply& old, Node* by) {
    module_.replace(&old, by);
    module_.erase_with_dead_operands(&old);
  }

  Module& module_;
  const PassOptions& options_;
  rewrite::Remarks& remarks_;
  analysis::Inference inference_;
};

}  // namespace

size_t append_to_caches(Module& module, const PassOptions& options, rewrite::Remarks& remarks) {
  return Caches(module, options, remarks).run();
}

}  // namespace anfora::passes
