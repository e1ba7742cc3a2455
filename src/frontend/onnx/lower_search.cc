// BeamSearch and GreedySearch by parts. The decoder, and what runs before the first token, come in two forms:
//
//   GPT-2  decoder(input_ids, position_ids, attention_mask, past…) → logits, present…
//   T5     encoder(encoder_input_ids, encoder_attention_mask [, decoder_input_ids])
//            → [logits, encoder_hidden_states, present self…,] cross…
//          decoder(input_ids [, encoder_input_ids], encoder_attention_mask [, encoder_hidden_states], past self…, cross…)
//            → logits, present self…
//
// GPT-2's first logits are those of the prompt, with no past; its attribute init_decoder may hold a graph for that alone. T5's
// are those of the encoder, or, where it has none, of the decoder with the start token. Then
//
//     rows, state = BeamStart(prompt, …)
//     tokens, parents, go, state = step(logits, state)
//     loop max_length - length - 1 times, while go:
//       logits, present = decoder(tokens, …, past = Gather(present, parents), …)
//       tokens, parents, go, state = step(logits, state)
//     sequences, scores = BeamEnd(state, …)
//
//     step = BeamStep ∘ TopK ∘ (+ beam_scores) ∘ ConstrainTokens ∘ LogSoftmax ∘ last position
//
// What batches have in common with their beams is repeated by Gather(x, rows). A greedy search has one beam a batch: its step is
// ArgMax ∘ ConstrainTokens, its state the sequences and which of them have ended.
#include "frontend/onnx/lower_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "frontend/onnx/import_loop.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"
#include "ir/verify.h"

namespace anfora::onnx {
namespace {

using ir::Node;
using InputNames = std::span<const std::string_view>;

constexpr std::string_view kBeamSearch = "com.microsoft::BeamSearch", kGreedySearch = "com.microsoft::GreedySearch";
constexpr std::string_view kBeamInputs[] = {
    "input_ids",      "max_length",         "min_length", "num_beams",         "num_return_sequences",
    "length_penalty", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask"};
constexpr std::string_view kGreedyInputs[] = {"input_ids",  "max_length",        "min_length",    "repetition_penalty",
                                              "vocab_mask", "prefix_vocab_mask", "attention_mask"};

// A graph that the search holds.
struct HeldGraph {
  std::string_view attribute;
  GraphFields fields;
  std::vector<ValueInfo> inputs;

  size_t num_outputs() const { return fields.outputs.size(); }
  const ValueInfo* find_input(std::string_view name) const {
    auto found = std::ranges::find(inputs, name, &ValueInfo::name);
    return found == inputs.end() ? nullptr : &*found;
  }
};

using Feeds = std::map<std::string_view, Node*>;  // by the names of a graph's inputs
using Nodes = std::vector<Node*>;

// What a call of the decoder returns.
struct Decoded {
  Node* logits = nullptr;  // [rows, length, vocabulary]
  Nodes present;           // of each layer
};

// What one iteration hands to the next; null: nothing.
struct Carried {
  Node* tokens = nullptr;   // i32[rows, 1], the last of each sequence
  Node* parents = nullptr;  // i64[rows], the row that each continues; null: itself
  Nodes present, state;
  Node *positions = nullptr, *mask = nullptr;  // GPT-2: of the next tokens; of the tokens so far
  Node* scores = nullptr;                      // a sequence of those of each step

  std::vector<Node**> slots() {
    std::vector<Node**> all{&tokens, &parents};
    for (Node*& node : present) all.push_back(&node);
    for (Node*& node : state) all.push_back(&node);
    all.insert(all.end(), {&positions, &mask, &scores});
    std::erase_if(all, [](Node** slot) { return !*slot; });
    return all;
  }
  Nodes values() {
    Nodes nodes;
    for (Node** slot : slots()) nodes.push_back(*slot);
    return nodes;
  }
};

// What a step chooses.
struct TokenChoice {
  Node *tokens, *parents, *go;
  Nodes state;
  Node* scores = nullptr;  // f32[batch, beams, vocabulary]
};

class Search {
 public:
  Search(Importer& importer, Scope& scope, ir::Apply& root, InputNames names);
  virtual ~Search() = default;
  // What takes the place of each result.
  Nodes lower();

 protected:
  enum StateItem { kSequences, kBeamScores, kHypotheses, kHypothesisScores, kHypothesisCounts, kDone, kNumState };

  // The operands of BeamStart that say how many beams there are.
  virtual Node* num_beams() = 0;
  virtual Node* num_results() = 0;
  // The state that is carried, of all that BeamStart gives; the sequences come first.
  virtual Nodes initial_state(const Nodes& all) = 0;
  // The next tokens by the last logits, [rows, vocabulary].
  virtual TokenChoice choose(const Emitter& at, Node* logits, const Nodes& state, Node* prefix_mask) = 0;
  virtual Nodes results(const Nodes& state) = 0;

  Node* none() const { return importer_.module().none(); }
  Node* input(std::string_view name) const;     // none when it is left out
  Node* required(std::string_view name) const;  // throws InvalidModel
  int64_t attribute(std::string_view name, int64_t otherwise) const {
    return root_.attributes().get_int(name, otherwise);
  }
  Node* constrained(const Emitter& at, Node* scores, const Nodes& state, Node* prefix_mask) const;

  Node* int32(int64_t value) const { return importer_.module().scalar(static_cast<int32_t>(value)); }
  static Node* cast(const Emitter& at, Node* x, DType dtype) {
    return at.emit("Cast", {x}, {{"to", static_cast<int64_t>(dtype)}});
  }
  static Node* concat(const Emitter& at, std::initializer_list<Node*> parts, int64_t axis = 0) {
    return at.emit("Concat", parts, {{"axis", axis}});
  }
  // The size of an axis, as a vector of one.
  static Node* size(const Emitter& at, Node* x, int64_t axis) {
    return at.emit("Shape", {x}, {{"start", axis}, {"end", axis + 1}});
  }
  static Node* item(const Emitter& at, Node* tuple, size_t i) {
    return at.importer.module().tuple_item(at.graph, tuple, i);
  }

  Importer& importer_;
  ir::Apply& root_;
  const Emitter outer_;
  const int64_t padding_;
  Node* longest_ = nullptr;  // max_length, as a vector of one

 private:
  std::optional<HeldGraph> held_graph(std::string_view attribute) const;
  HeldGraph required_graph(std::string_view attribute) const;
  Nodes run(const Emitter& at, const HeldGraph& graph, const Feeds& feeds, std::span<Node* const> past);
  Decoded decode(const Emitter& at, const HeldGraph& decoder, Feeds feeds, Nodes past);
  TokenChoice step(const Emitter& at, Node* logits, const Nodes& state, Node* prefix_mask);
  Decoded start_gpt(Node* sequences);
  Decoded start_t5(Node* start_tokens, Node* sequences);
  Node* empty_past(const ValueInfo& input) const;
  Node* start_tokens() const;
  Node* is_word() const;
  Node* repeated(Node* x) const { return outer_.emit("Gather", {x, rows_}); }
  Iteration iterate(const Emitter& body, Carried now);

  Scope& scope_;
  const InputNames names_;
  const size_t num_inputs_;  // without what the graphs capture
  const bool is_gpt_;
  const HeldGraph decoder_;
  Node* rows_ = nullptr;  // of each beam, its batch
  // What the decoder takes in each iteration alike; the second behind the past.
  Feeds constant_feeds_;
  Nodes cross_;
  // GPT-2, before the first token.
  Node *positions_ = nullptr, *mask_ = nullptr;
};

Search::Search(Importer& importer, Scope& scope, ir::Apply& root, InputNames names)
    : importer_(importer),
      root_(root),
      outer_{importer, root.graph(), root.location()},
      padding_(root.attributes().require_int("pad_token_id")),
      scope_(scope),
      names_(names),
      num_inputs_(root.num_inputs() - root.attributes().get_strings(kCaptures).size()),
      is_gpt_(attribute("model_type", 0) == 0),
      decoder_(required_graph("decoder")) {}

std::optional<HeldGraph> Search::held_graph(std::string_view attribute) const {
  const AttributeValue* value = root_.attributes().find(fmt::format("{}{}", attribute, kVerbatimSuffix));
  const auto* bytes = value ? std::get_if<std::string>(value) : nullptr;
  if (!bytes) return std::nullopt;
  HeldGraph graph{attribute, {}, {}};
  graph.fields.read(read_attribute(importer_.context(), *bytes, importer_.source()).graph);
  for (std::string_view input : graph.fields.inputs)
    graph.inputs.push_back(read_value_info(importer_.context(), input));
  if (graph.fields.outputs.empty()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the graph '{}' has no outputs", attribute));
  }
  return graph;
}
HeldGraph Search::required_graph(std::string_view attribute) const {
  if (auto graph = held_graph(attribute)) return *std::move(graph);
  throw Error(ErrorCode::InvalidModel, fmt::format("the attribute '{}' is missing", attribute));
}

Node* Search::input(std::string_view name) const {
  const size_t i = static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
  return i < num_inputs_ ? root_.input(i) : none();
}
Node* Search::required(std::string_view name) const {
  if (Node* node = input(name); node != none()) return node;
  throw Error(ErrorCode::InvalidModel, fmt::format("the input '{}' is missing", name));
}

// The results of a graph, called with what its inputs are named after, and with the past, in order, for the others.
Nodes Search::run(const Emitter& at, const HeldGraph& graph, const Feeds& feeds, std::span<Node* const> past) {
  Nodes arguments;
  size_t num_past = 0;
  for (const ValueInfo& input : graph.inputs) {
    auto feed = feeds.find(input.name);
    if (feed == feeds.end() && num_past == past.size()) {
      throw Error(ErrorCode::Unsupported, fmt::format("the graph '{}' takes '{}'", graph.attribute, input.name))
          .with_hint("buffers that past and present share are for other devices");
    }
    arguments.push_back(feed == feeds.end() ? past[num_past++] : feed->second);
  }
  if (num_past < past.size()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the graph '{}' takes {} of the {} tensors that are its past",
                                                     graph.attribute, num_past, past.size()));
  }
  return importer_.import_graph(graph.fields, at.graph, scope_, arguments).nodes;
}

Decoded Search::decode(const Emitter& at, const HeldGraph& decoder, Feeds feeds, Nodes past) {
  feeds.insert(constant_feeds_.begin(), constant_feeds_.end());
  past.insert(past.end(), cross_.begin(), cross_.end());
  Nodes results = run(at, decoder, feeds, past);
  return {results[0], {results.begin() + 1, results.end()}};
}

Node* Search::constrained(const Emitter& at, Node* scores, const Nodes& state, Node* prefix_mask) const {
  return at.emit(
      "ConstrainTokens",
      {scores, state[kSequences], input("repetition_penalty"), input("vocab_mask"), prefix_mask, input("min_length")},
      {{"eos_token_id", attribute("eos_token_id", -1)},
       {"no_repeat_ngram_size", attribute("no_repeat_ngram_size", 0)}});
}

TokenChoice Search::step(const Emitter& at, Node* logits, const Nodes& state, Node* prefix_mask) {
  Node* last = at.emit("Gather", {logits, at.scalar(-1)}, {{"axis", int64_t{1}}});
  if (int64_t vocabulary = attribute("vocab_size", 0); vocabulary > 0) {  // the rest is padding
    last = at.emit("Slice", {last, at.ints({0}), at.ints({vocabulary}), at.ints({1})});
  }
  return choose(at, cast(at, last, DType::F32), state, prefix_mask);
}

// Where the input is no padding, as 1 and 0.
Node* Search::is_word() const {
  return cast(outer_, outer_.emit("Not", {outer_.emit("Equal", {input("input_ids"), int32(padding_)})}), DType::I32);
}

// [2, rows, heads, 0, size] for an input of [2, rows, heads, length, size].
Node* Search::empty_past(const ValueInfo& input) const {
  const ir::Type* type = input.type;
  auto extent = [&](int axis) -> int64_t {
    const bool is_known = type && type->is_tensor() && type->has_rank() && type->rank() == 5;
    if (auto known = is_known ? type->dim(axis).as_constant() : std::nullopt) return *known;
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the decoder's input '{}' does not say how many heads of which size", input.name));
  };
  const int64_t heads = extent(2), size = extent(4);
  Node* shape = concat(outer_, {outer_.ints({2}), outer_.emit("Shape", {rows_}), outer_.ints({heads, 0, size})});
  return outer_.emit("ConstantOfShape", {shape}, {{"value", Tensor::zeros(type->dtype(), Shape{1})}});
}

Decoded Search::start_gpt(Node* sequences) {
  Node *is_word = this->is_word(), *one = int32(1);
  Node* count = outer_.emit("CumSum", {is_word, outer_.scalar(1)});
  Node* first_positions = repeated(outer_.emit("Mul", {is_word, outer_.emit("Sub", {count, one})}));
  positions_ = repeated(outer_.emit("ReduceSum", {is_word, outer_.ints({1})}));
  mask_ = repeated(input("attention_mask") == none() ? is_word : input("attention_mask"));
  const std::optional<HeldGraph> init = held_graph("init_decoder");
  const HeldGraph& first = init ? *init : decoder_;
  Nodes past;
  for (const ValueInfo& input : first.inputs) {
    if (past.size() + 1 < first.num_outputs() && input.name.starts_with("past_")) past.push_back(empty_past(input));
  }
  return decode(outer_, first, {{"input_ids", sequences}, {"position_ids", first_positions}, {"attention_mask", mask_}},
                std::move(past));
}

// T5: what the sequence of each batch begins with.
Node* Search::start_tokens() const {
  Node* shape = concat(outer_, {size(outer_, required("input_ids"), 0), outer_.ints({1})});
  return outer_.emit("Expand", {int32(root_.attributes().require_int("decoder_start_token_id")), shape});
}

Decoded Search::start_t5(Node* start_tokens, Node* sequences) {
  const HeldGraph encoder = required_graph("encoder");
  Node *ids = input("input_ids"), *mask = input("attention_mask");
  if (mask == none()) {  // padding on the left does not count
    Node* count = outer_.emit("CumSum", {is_word(), outer_.scalar(1)});
    mask = cast(outer_, outer_.emit("Greater", {count, int32(0)}), DType::I32);
  }
  Nodes results =
      run(outer_, encoder,
          {{"encoder_input_ids", ids}, {"encoder_attention_mask", mask}, {"decoder_input_ids", start_tokens}}, {});
  const bool starts_decoder = encoder.find_input("decoder_input_ids");
  const size_t num_past = decoder_.num_outputs() - 1, num_before_cross = starts_decoder ? 2 + num_past : 0;
  if (results.size() != num_before_cross + num_past) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the encoder has {} outputs, the decoder {}: there should be {}", results.size(),
                            decoder_.num_outputs(), num_before_cross + num_past));
  }
  for (Node*& result : results) result = repeated(result);
  const auto cross = results.begin() + static_cast<ptrdiff_t>(num_before_cross);
  cross_.assign(cross, results.end());
  constant_feeds_ = {{"encoder_input_ids", repeated(ids)}, {"encoder_attention_mask", repeated(mask)}};
  if (starts_decoder) {
    constant_feeds_.emplace("encoder_hidden_states", results[1]);
    return {results[0], {results.begin() + 2, cross}};
  }
  Nodes past;  // [rows, heads, 0, size]
  for (Node* x : cross_)
    past.push_back(outer_.emit("Slice", {x, outer_.ints({0}), outer_.ints({0}), outer_.ints({2})}));
  return decode(outer_, decoder_, {{"input_ids", sequences}}, std::move(past));
}

Iteration Search::iterate(const Emitter& body, Carried now) {
  Carried next;
  Nodes past = now.present;
  if (now.parents) {
    for (Node*& x : past) x = body.emit("Gather", {x, now.parents}, {{"axis", int64_t{is_gpt_ ? 1 : 0}}});
  }
  Feeds feeds{{"input_ids", now.tokens}};
  if (is_gpt_) {
    Node* ones = body.emit("Expand", {int32(1), body.emit("Shape", {now.tokens})});
    next.mask = concat(body, {now.mask, ones}, 1);
    next.positions = body.emit("Add", {now.positions, int32(1)});
    feeds.insert({{"position_ids", now.positions}, {"attention_mask", next.mask}});
  } else if (const ValueInfo* ids = decoder_.find_input("input_ids")) {
    // A decoder that does not declare one token reads them all.
    const bool reads_one = ids->type && ids->type->is_tensor() && ids->type->has_rank() && ids->type->rank() == 2 &&
                           ids->type->dim(1).as_constant() == 1;
    if (!reads_one) feeds["input_ids"] = now.state[kSequences];
  }
  Decoded decoded = decode(body, decoder_, std::move(feeds), std::move(past));
  if (decoded.present.size() != now.present.size()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the decoder has {} outputs, before the first token {}",
                                                     1 + decoded.present.size(), 1 + now.present.size()));
  }
  const TokenChoice choice = step(body, decoded.logits, now.state, none());
  next.tokens = choice.tokens;
  next.parents = choice.parents;
  next.present = std::move(decoded.present);
  next.state = choice.state;
  if (now.scores) next.scores = body.emit("SequenceInsert", {now.scores, choice.scores});
  return {choice.go, next.values(), {}};
}

Nodes Search::lower() {
  if (int64_t model = attribute("model_type", 0); model != 0 && model != 1) {
    throw Error(ErrorCode::Unsupported, fmt::format("model_type is {}; 0 (GPT-2) and 1 (T5) are supported", model));
  }
  for (size_t i = names_.size(); i < num_inputs_; ++i) {
    if (root_.input(i) != none()) throw Error(ErrorCode::Unsupported, fmt::format("input {} is given", i));
  }
  Node* prompt = is_gpt_ ? required("input_ids") : start_tokens();
  Node* begin =
      outer_.emit("BeamStart", {prompt, required("max_length"), num_beams(), num_results(), input("min_length")},
                  {{"pad_token_id", padding_}}, 1 + kNumState);
  rows_ = item(outer_, begin, 0);
  Nodes all;
  for (size_t i = 0; i < kNumState; ++i) all.push_back(item(outer_, begin, 1 + i));
  longest_ = size(outer_, all[kHypotheses], 2);
  const Nodes state = initial_state(all);

  Decoded decoded = is_gpt_ ? start_gpt(state[kSequences]) : start_t5(prompt, state[kSequences]);
  const TokenChoice first = step(outer_, decoded.logits, state, input("prefix_vocab_mask"));
  Carried carried{first.tokens, first.parents, std::move(decoded.present), first.state, positions_, mask_};
  if (root_.num_outputs() > 2) carried.scores = outer_.emit("SequenceConstruct", {first.scores});

  LoopSpec spec{outer_, "search"};
  spec.condition = first.go;
  Node* steps = outer_.emit("Sub", {longest_, size(outer_, state[kSequences], 1)});
  spec.trip_count = outer_.emit("Squeeze", {outer_.emit("Sub", {steps, outer_.ints({1})}), outer_.ints({0})});
  spec.initial = carried.values();
  spec.body = [&](const Emitter& body, Node*, Node*, std::span<Node* const> values) {
    Carried now = carried;
    for (size_t i = 0; Node * *slot : now.slots()) *slot = values[i++];
    return iterate(body, std::move(now));
  };
  Node* loop = build_loop(spec);
  for (size_t i = 0; Node * *slot : carried.slots()) *slot = item(outer_, loop, i++);

  Nodes results = this->results(carried.state);
  if (carried.scores) {  // zeros for the steps that were not needed
    Node* scores =
        outer_.emit("ConcatFromSequence", {carried.scores}, {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}});
    Node* missing = outer_.emit("Sub", {steps, size(outer_, scores, 0)});
    Node* pads = concat(outer_, {outer_.ints({0, 0, 0, 0}), missing, outer_.ints({0, 0, 0})});
    results.push_back(outer_.emit("Pad", {scores, pads}));
  }
  if (root_.num_outputs() > results.size()) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("there are {} results, not {}", results.size(), root_.num_outputs()));
  }
  results.resize(root_.num_outputs());
  return results;
}

// Results: sequences, their scores, the scores of all tokens.
class BeamSearch : public Search {
 public:
  BeamSearch(Importer& importer, Scope& scope, ir::Apply& root) : Search(importer, scope, root, kBeamInputs) {}

 private:
  Node* num_beams() override { return required("num_beams"); }
  Node* num_results() override { return required("num_return_sequences"); }
  Nodes initial_state(const Nodes& all) override { return all; }

  TokenChoice choose(const Emitter& at, Node* logits, const Nodes& state, Node* prefix_mask) override {
    const AttributeSet last_axis{{"axis", int64_t{-1}}};
    Node* scores = constrained(at, at.emit("LogSoftmax", {logits}, last_axis), state, prefix_mask);
    Node* beam_scores = state[kBeamScores];
    Node* shape = concat(at, {at.emit("Shape", {beam_scores}), size(at, scores, 1)});
    scores = at.emit("Add", {at.emit("Reshape", {scores, shape}), at.emit("Unsqueeze", {beam_scores, at.ints({2})})});
    Node* num_candidates = at.emit("Mul", {size(at, beam_scores, 1), at.ints({2})});
    Node* best = at.emit("TopK", {at.emit("Reshape", {scores, at.ints({0, -1})}), num_candidates}, last_axis, 2);
    Node *indices = item(at, best, 1), *vocabulary = size(at, scores, 2);
    Nodes operands{item(at, best, 0), at.emit("Mod", {indices, vocabulary}), at.emit("Div", {indices, vocabulary})};
    operands.insert(operands.end(), state.begin(), state.end());
    operands.push_back(required("length_penalty"));
    Node* next = at.emit("BeamStep", operands,
                         {{"eos_token_id", attribute("eos_token_id", -1)},
                          {"pad_token_id", padding_},
                          {"early_stopping", attribute("early_stopping", 0)}},
                         3 + kNumState);
    TokenChoice choice{item(at, next, 0), item(at, next, 1), item(at, next, 2), {}, scores};
    for (size_t i = 0; i < kNumState; ++i) choice.state.push_back(item(at, next, 3 + i));
    return choice;
  }

  Nodes results(const Nodes& state) override {
    Nodes operands = state;
    operands.insert(operands.end(), {num_results(), required("length_penalty")});
    Node* end = outer_.emit("BeamEnd", operands, {{"pad_token_id", padding_}}, 2);
    return {item(outer_, end, 0), item(outer_, end, 1)};
  }
};

// The result: sequences.
class GreedySearch : public Search {
 public:
  GreedySearch(Importer& importer, Scope& scope, ir::Apply& root) : Search(importer, scope, root, kGreedyInputs) {}

 private:
  enum { kEnded = kSequences + 1 };  // bool[rows, 1]

  Node* num_beams() override { return int32(1); }
  Node* num_results() override { return int32(1); }
  Nodes initial_state(const Nodes& all) override {
    return {all[kSequences], outer_.emit("Unsqueeze", {all[kDone], outer_.ints({1})})};
  }

  TokenChoice choose(const Emitter& at, Node* logits, const Nodes& state, Node* prefix_mask) override {
    Node* scores = constrained(at, logits, state, prefix_mask);
    Node* best = cast(at, at.emit("ArgMax", {scores}, {{"axis", int64_t{-1}}}), DType::I32);
    Node* ended = at.emit("Or", {state[kEnded], at.emit("Equal", {best, int32(attribute("eos_token_id", -1))})});
    Node* tokens = at.emit("Where", {ended, int32(padding_), best});
    Node* all_ended = at.emit("ReduceMin", {cast(at, ended, DType::I32)}, {{"keepdims", int64_t{0}}});
    return {
        tokens, nullptr, at.emit("Equal", {all_ended, int32(0)}), {concat(at, {state[kSequences], tokens}, 1), ended}};
  }

  Nodes results(const Nodes& state) override {
    Node* missing = outer_.emit("Sub", {longest_, size(outer_, state[kSequences], 1)});
    return {
        outer_.emit("Pad", {state[kSequences], concat(outer_, {outer_.ints({0, 0, 0}), missing}), int32(padding_)})};
  }
};

std::unique_ptr<Search> make_search(Importer& importer, Scope& scope, ir::Apply& root) {
  if (root.op().qualified == kBeamSearch) return std::make_unique<BeamSearch>(importer, scope, root);
  return std::make_unique<GreedySearch>(importer, scope, root);
}

void lower_search(ir::Module& module, ir::Apply& root) {
  const std::string place(root.location() ? root.location()->file : "model");
  try {
    size_t bytes = 0;
    for (const auto& [name, value] : root.attributes()) {
      if (auto* text = std::get_if<std::string>(&value)) bytes += text->size();
    }
    ExpansionBudget budget(bytes);
    Importer importer(module, {nullptr, nullptr, &budget}, place);
    const Opsets opsets(module.metadata().opsets.begin(), module.metadata().opsets.end());
    Scope scope(importer, root.graph(), nullptr, {&opsets}, place);
    const std::vector<std::string> captured = root.attributes().get_strings(kCaptures);
    if (captured.size() > root.num_inputs()) throw Error(ErrorCode::InvalidModel, "more captured names than operands");
    for (size_t i = 0; i < captured.size(); ++i) {
      scope.define(captured[i], root.input(root.num_inputs() - captured.size() + i));
    }
    const Nodes results = make_search(importer, scope, root)->lower();
    importer.forget_types();
    module.replace(&root, results.size() == 1 ? results[0] : module.make_tuple(root.graph(), results));
    module.erase_with_dead_operands(&root);
  } catch (Error& error) {
    error.at_node(ir::describe(root)).at_location(root.location() ? to_string(*root.location()) : place);
    throw;
  }
}

std::vector<ir::Apply*> searches(const ir::Module& module) {
  std::vector<ir::Apply*> found;
  for (const ir::Graph* graph : module.graphs()) {
    for (ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->primitive() != ir::Primitive::Operation) continue;
      if (node->op().qualified == kBeamSearch || node->op().qualified == kGreedySearch) found.push_back(node);
    }
  }
  return found;
}

}  // namespace

bool has_searches(const ir::Module& module) { return !searches(module).empty(); }

size_t lower_searches(ir::Module& module) {
  const std::vector<ir::Apply*> found = searches(module);
  for (ir::Apply* node : found) lower_search(module, *node);
  if (found.empty()) return 0;
  ir::verify_or_throw(module, ErrorCode::InvalidModel);  // the graphs are read only now
  analysis::infer_types(module);
  return found.size();
}

}  // namespace anfora::onnx
