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

#include "ir/queries.h"
#include "passes/attention_operands.h"
#include "passes/tuple_rewriter.h"
#include "rewrite/admission.h"

namespace anfora::passes {

using namespace ir;

namespace {

constexpr std::string_view kCacheRule = "attention-with-past";

Apply* application_of(Node* node, std::string_view op) {
  Apply* apply = node ? node->as_apply() : nullptr;
  return apply && apply->is(op) ? apply : nullptr;
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
  Apply* concat = application_of(attention.input(operand), "Concat");
  if (!concat || concat->graph() != attention.graph() || concat->num_inputs() != 2 || rank_of(concat) != 4 ||
      rank_of(concat->input(0)) != 4 || rank_of(concat->input(1)) != 4)
    return std::nullopt;
  if (axis_of(*concat, 4) != 2) return std::nullopt;
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
  Apply* rotation = application_of(heads, "RotaryEmbedding");
  Node* moved = rotation ? rotation->input(0) : heads;
  const int64_t count = extent_of(heads, 1), size = extent_of(heads, 3);
  if (Apply* transpose = application_of(moved, "Transpose"); transpose && swaps_heads(*transpose)) {
    moved = transpose->input(0);
    if (extent_of(moved, 2) != count) return std::nullopt;
  } else if (extent_of(heads, 2) != 1) {  // those of one row need no transpose
    return std::nullopt;
  }
  Apply* reshape = application_of(moved, "Reshape");
  Node* rows = reshape ? reshape->input(0) : nullptr;
  if (rank_of(rows) != 3 || rank_of(heads) != 4 || !provably_equal(rows->type()->dim(0), heads->type()->dim(0)) ||
      !provably_equal(rows->type()->dim(1), heads->type()->dim(2)))
    return std::nullopt;
  if (count < 1 || size < 1 || extent_of(rows, 2) != count * size) return std::nullopt;
  return SplitHeads{rows, rotation};
}

class Caches : TupleRewriter {
 public:
  using TupleRewriter::TupleRewriter;

  size_t run() {
    if (context_.options.math != rewrite::Promise::Real) return 0;  // its kernels sum in another order
    size_t count = 0;
    std::vector<Apply*> found;
    for (Graph* graph : module_.graphs()) {
      found.clear();
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (node->is("Attention") && node->num_outputs() == 1) found.push_back(node);
      }
      for (Apply* attention : found) count += context_.has_fuel() && take_in(*attention);
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
    if (!keys || !values || keys->concat == values->concat ||
        !provably_equal(keys->past()->type()->dim(2), values->past()->type()->dim(2)))
      return false;

    auto q = split_heads(attention.input(Query)), k = split_heads(keys->added()), v = split_heads(values->added());
    const int64_t heads = extent_of(attention.input(Query), 1), groups = extent_of(keys->added(), 1),
                  size = extent_of(values->added(), 3);
    const bool packed = q && k && v && !v->rotation;
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
    if (why.empty()) why = rewrite::why_not_written(context_.options.has_operator, {&made, 1});
    if (!why.empty()) {
      context_.remarks.refused(kCaches.name, kCacheRule, attention, std::move(why));
      module_.erase_with_dead_operands(made);
      return false;
    }
    context_.applied(kCaches.name, kCacheRule, attention, "keys and values are appended inside");
    replace(*keys->concat, *made, 1);
    replace(*values->concat, *made, 2);
    Node* y = item(*made, 0);
    replace(attention, packed ? by_heads(attention, y, heads, size) : y);
    return true;
  }

  // [batch, sequence, heads · size] as [batch, heads, sequence, size]. Who joins the heads takes it back.
  Node* by_heads(const Apply& attention, Node* rows, int64_t heads, int64_t size) {
    const bool is_one_row = extent_of(&attention, 2) == 1;
    const int64_t shape[] = {0, is_one_row ? heads : 0, is_one_row ? 1 : heads, size};
    Node* split = apply(attention, "Reshape", {rows, integers(shape)});
    if (is_one_row) return split;
    return apply(attention, "Transpose", {split}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  }

  Node* rows_of(const SplitHeads& heads, int64_t count) {
    if (!heads.rotation) return heads.rows;
    std::vector<Node*> operands{heads.rows};
    for (size_t i = 1; i < heads.rotation->num_inputs(); ++i) operands.push_back(heads.rotation->input(i));
    return apply(*heads.rotation, "RotaryEmbedding", operands, heads.rotation->attributes().with("num_heads", count));
  }
};

size_t run_caches(PassContext& context) { return Caches(context).run(); }

}  // namespace

const Pass kCaches{"caches", "KV-cache fusion", "keys and values appended inside their Attention", run_caches};

}  // namespace anfora::passes
