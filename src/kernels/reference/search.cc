// Beam search: see src/ops/search.cc for the operators and their state.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "support/element_types.h"

namespace anfora::kernels {
namespace {

constexpr int64_t kMostBeams = 128, kLongestSequence = 4096;  // as ONNX Runtime has it
constexpr float kNever = std::numeric_limits<float>::lowest();
// The score of beams that do not count yet. Not kNever: sums with it still tell tokens apart.
constexpr float kUnlikely = -1e9f;

// The state of a search: inputs or outputs of these operators, one behind the other.
struct State {
  Tensor sequences, beam_scores, hypotheses, hypothesis_scores, hypothesis_counts, done;

  int64_t batches() const { return hypotheses.dim(0); }
  int64_t beams() const { return hypotheses.dim(1); }
  int64_t longest() const { return hypotheses.dim(2); }
  int64_t rows() const { return sequences.dim(0); }
  int64_t length() const { return sequences.dim(1); }
  std::span<const int32_t> sequence(int64_t row) const {
    return sequences.data<int32_t>().subspan(static_cast<size_t>(row * length()), static_cast<size_t>(length()));
  }
};

// Shares the memory of the inputs.
State read_state(const KernelContext& context, size_t first) {
  const auto input = [&](size_t i) -> const Tensor& { return context.input(first + i); };
  const State state{input(0), input(1), input(2), input(3), input(4), input(5)};
  if (state.sequences.rank() != 2 || state.hypotheses.rank() != 3) {
    refuse("sequences of shape {}, hypotheses of shape {}", to_string(input(0).shape()), to_string(input(2).shape()));
  }
  const int64_t batches = state.batches(), beams = state.beams();
  if (beams < 1 || beams > kMostBeams) refuse("{} beams; 1 to {} are allowed", beams, kMostBeams);
  const Shape expected[] = {{checked_multiply(batches, beams), state.length()},
                            {batches, beams},
                            state.hypotheses.shape(),
                            {batches, beams},
                            {batches},
                            {batches}};
  for (size_t i = 0; i < std::size(expected); ++i) {
    if (input(i).shape() == expected[i]) continue;
    refuse("input {} has shape {}, not {}", first + i, to_string(input(i).shape()), to_string(expected[i]));
  }
  if (state.length() < 1 || state.length() > state.longest()) refuse("sequences of {} tokens", state.length());
  const bool fits = std::ranges::all_of(state.hypothesis_counts.data<int32_t>(),
                                        [&](int32_t count) { return count >= 0 && count <= beams; });
  if (!fits) refuse("a count of hypotheses is out of range");
  return state;
}

State allocate_state(KernelContext& context, size_t first, int64_t batches, int64_t beams, int64_t length,
                     int64_t longest) {
  return {context.allocate_output(first, DType::I32, Shape{checked_multiply(batches, beams), length}),
          context.allocate_output(first + 1, DType::F32, Shape{batches, beams}),
          context.allocate_output(first + 2, DType::I32, Shape{batches, beams, longest}),
          context.allocate_output(first + 3, DType::F32, Shape{batches, beams}),
          context.allocate_output(first + 4, DType::I32, Shape{batches}),
          context.allocate_output(first + 5, DType::Bool, Shape{batches})};
}

// The hypotheses of one batch.
struct Hypotheses {
  std::span<int32_t> tokens;  // [beams, longest]
  std::span<float> scores;    // [beams], descending
  int32_t& count;
  int32_t padding;
  float length_penalty;

  float score(float sum, int64_t length) const { return sum / std::pow(static_cast<float>(length), length_penalty); }

  // Enters a sequence in front of those that are worse; the last one drops out where all have a place already.
  void add(std::span<const int32_t> sequence, float sum) {
    const float score_of_sequence = score(sum, std::ssize(sequence));
    const auto longest = static_cast<int64_t>(tokens.size() / scores.size());
    int64_t at = count;
    if (at == std::ssize(scores)) {
      if (!(score_of_sequence > scores.back())) return;
      --at;
    } else {
      ++count;
    }
    for (; at > 0 && score_of_sequence > scores[at - 1]; --at) {
      scores[at] = scores[at - 1];
      std::copy_n(&tokens[(at - 1) * longest], longest, &tokens[at * longest]);
    }
    scores[at] = score_of_sequence;
    std::span<int32_t> place = tokens.subspan(static_cast<size_t>(at * longest), static_cast<size_t>(longest));
    std::ranges::fill(std::ranges::copy(sequence, place.begin()).out, place.end(), padding);
  }
};

Hypotheses hypotheses_of(State& state, int64_t batch, int32_t padding, float length_penalty) {
  const auto beams = static_cast<size_t>(state.beams()), tokens = beams * static_cast<size_t>(state.longest());
  return {state.hypotheses.data<int32_t>().subspan(static_cast<size_t>(batch) * tokens, tokens),
          state.hypothesis_scores.data<float>().subspan(static_cast<size_t>(batch) * beams, beams),
          state.hypothesis_counts.data<int32_t>()[batch], padding, length_penalty};
}

template <class T>
void copy(const Tensor& from, Tensor& to) {
  std::ranges::copy(from.data<T>(), to.data<T>().begin());
}

void beam_start(KernelContext& context) {
  const Tensor& prompt = context.input(0);
  if (prompt.rank() != 2) refuse("input_ids have shape {}, not [batch, length]", to_string(prompt.shape()));
  const int64_t batches = prompt.dim(0), length = prompt.dim(1);
  const int64_t longest = integer(context.input(1)), beams = integer(context.input(2)),
                kept = integer(context.input(3));
  const Tensor* given_least = context.optional_input(4);
  const int64_t least = given_least ? integer(*given_least) : 0;
  if (length < 1) refuse("there are no input_ids");
  if (longest <= length) refuse("max_length is {}, but input_ids have {} already", longest, length);
  if (longest > kLongestSequence) refuse("max_length is {}; no more than {} are allowed", longest, kLongestSequence);
  if (least >= longest) refuse("min_length is {}, max_length {}", least, longest);
  if (beams < 1 || beams > kMostBeams) refuse("num_beams is {}; 1 to {} are allowed", beams, kMostBeams);
  if (kept < 1 || kept > beams) refuse("num_return_sequences is {} of {} beams", kept, beams);
  const auto padding = static_cast<int32_t>(context.attributes().get_int("pad_token_id", -1));

  const std::span<int64_t> rows = context.allocate_output(0, DType::I64, Shape{batches * beams}).data<int64_t>();
  State state = allocate_state(context, 1, batches, beams, length, longest);
  for (int64_t row = 0; row < batches * beams; ++row) {
    rows[row] = row / beams;
    std::copy_n(prompt.data<int32_t>().data() + rows[row] * length, length,
                state.sequences.data<int32_t>().data() + row * length);
    state.beam_scores.data<float>()[row] = row % beams == 0 ? 0 : kUnlikely;
  }
  std::ranges::fill(state.hypotheses.data<int32_t>(), padding);
  std::ranges::fill(state.hypothesis_scores.data<float>(), 0.0f);
  std::ranges::fill(state.hypothesis_counts.data<int32_t>(), 0);
  std::ranges::fill(state.done.data<bool>(), false);
}

// The last tokens of earlier occurrences of the n - 1 tokens that the sequence ends by, with what followed.
template <class F>
void for_each_repetition(std::span<const int32_t> sequence, size_t n, F&& f) {
  if (n == 0 || n > sequence.size()) return;
  const std::span<const int32_t> prefix = sequence.last(n - 1);
  for (size_t i = 0; i + n <= sequence.size(); ++i) {
    if (std::ranges::equal(prefix, sequence.subspan(i, n - 1))) f(sequence[i + n - 1]);
  }
}

void constrain_tokens(KernelContext& context) {
  const Tensor &scores = context.input(0), &sequences = context.input(1);
  if (scores.rank() != 2 || sequences.rank() != 2 || scores.dim(0) != sequences.dim(0)) {
    refuse("scores of shape {} and sequences of shape {}", to_string(scores.shape()), to_string(sequences.shape()));
  }
  const int64_t rows = scores.dim(0), words = scores.dim(1), length = sequences.dim(1);
  const Tensor *penalty_input = context.optional_input(2), *mask = context.optional_input(3),
               *prefix_mask = context.optional_input(4), *least = context.optional_input(5);
  const float penalty = penalty_input ? static_cast<float>(number(*penalty_input)) : 1;
  if (!(penalty > 0)) refuse("repetition_penalty is {}", penalty);
  auto refuse_mask = [&](std::string_view name, const Tensor& tensor) {
    refuse("{} has shape {}; there are {} tokens and {} beams", name, to_string(tensor.shape()), words, rows);
  };
  if (mask && mask->shape() != Shape{words}) refuse_mask("vocab_mask", *mask);
  if (prefix_mask && (prefix_mask->rank() != 2 || prefix_mask->dim(1) != words || prefix_mask->dim(0) < 1 ||
                      rows % prefix_mask->dim(0) != 0)) {
    refuse_mask("prefix_vocab_mask", *prefix_mask);
  }
  const int64_t rows_per_prefix = prefix_mask ? rows / prefix_mask->dim(0) : 1;
  const int64_t n = context.attributes().get_int("no_repeat_ngram_size", 0);
  const int64_t eos = context.attributes().get_int("eos_token_id", -1);

  float* to = context.allocate_output(0, DType::F32, scores.shape()).data<float>().data();
  std::ranges::copy(scores.data<float>(), to);
  std::vector<int32_t> distinct;
  for (int64_t row = 0; row < rows; ++row, to += words) {
    const std::span<const int32_t> sequence =
        sequences.data<int32_t>().subspan(static_cast<size_t>(row * length), static_cast<size_t>(length));
    auto is_word = [&](int64_t token) { return token >= 0 && token < words; };
    if (penalty != 1) {
      distinct.assign(sequence.begin(), sequence.end());
      std::ranges::sort(distinct);
      distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
      for (int32_t token : distinct) {
        if (is_word(token)) to[token] = to[token] < 0 ? to[token] * penalty : to[token] / penalty;
      }
    }
    for_each_repetition(sequence, static_cast<size_t>(std::max<int64_t>(n, 0)), [&](int32_t token) {
      if (is_word(token)) to[token] = kNever;
    });
    auto exclude = [&](const int32_t* allowed) {
      for (int64_t token = 0; token < words; ++token) {
        if (allowed[token] == 0) to[token] = kNever;
      }
    };
    if (mask) exclude(mask->data<int32_t>().data());
    if (prefix_mask) exclude(prefix_mask->data<int32_t>().data() + row / rows_per_prefix * words);
    if (least && length < integer(*least) && is_word(eos)) to[eos] = kNever;
  }
}

void beam_step(KernelContext& context) {
  enum { Scores, Tokens, Beams, FirstState, LengthPenalty = FirstState + 6 };
  const State before = read_state(context, FirstState);
  const int64_t batches = before.batches(), beams = before.beams(), candidates = 2 * beams;
  for (size_t i : {Scores, Tokens, Beams}) {
    if (context.input(i).shape() == Shape{batches, candidates}) continue;
    refuse("{} beams of {} batches have candidates of shape {}", beams, batches, to_string(context.input(i).shape()));
  }
  if (before.length() == before.longest()) refuse("the sequences have {} tokens already", before.length());
  const std::span<const float> scores = context.input(Scores).data<float>();
  const std::span<const int64_t> tokens = context.input(Tokens).data<int64_t>();
  const std::span<const int64_t> parents = context.input(Beams).data<int64_t>();
  const auto length_penalty = static_cast<float>(number(context.input(LengthPenalty)));
  const int64_t eos = context.attributes().get_int("eos_token_id", -1);
  const auto padding = static_cast<int32_t>(context.attributes().get_int("pad_token_id", -1));
  const bool early_stopping = context.attributes().get_int("early_stopping", 0) == 1;

  const std::span<int32_t> next_tokens =
      context.allocate_output(0, DType::I32, Shape{before.rows(), 1}).data<int32_t>();
  const std::span<int64_t> next_rows = context.allocate_output(1, DType::I64, Shape{before.rows()}).data<int64_t>();
  bool& go = context.allocate_output(2, DType::Bool, {}).data<bool>()[0];
  State after = allocate_state(context, 3, batches, beams, before.length() + 1, before.longest());
  copy<int32_t>(before.hypotheses, after.hypotheses);
  copy<float>(before.hypothesis_scores, after.hypothesis_scores);
  copy<int32_t>(before.hypothesis_counts, after.hypothesis_counts);
  copy<bool>(before.done, after.done);
  const std::span<float> beam_scores = after.beam_scores.data<float>();
  const std::span<bool> done = after.done.data<bool>();
  // The beams of a batch that is done go on as padding behind the first row of all.
  std::ranges::fill(next_tokens, padding);
  std::ranges::fill(next_rows, 0);
  std::ranges::fill(beam_scores, 0.0f);
  for (int64_t batch = 0; batch < batches; ++batch) {
    if (done[batch]) continue;
    const int64_t first_row = batch * beams;
    Hypotheses hypotheses = hypotheses_of(after, batch, padding, length_penalty);
    int64_t chosen = 0;
    for (int64_t rank = 0; rank < candidates && chosen < beams; ++rank) {
      const int64_t candidate = batch * candidates + rank, row = first_row + normalize_index(parents[candidate], beams);
      if (eos >= 0 && tokens[candidate] == eos) {
        if (rank < beams) hypotheses.add(before.sequence(row), scores[candidate]);
        continue;
      }
      beam_scores[first_row + chosen] = scores[candidate];
      next_tokens[first_row + chosen] = static_cast<int32_t>(tokens[candidate]);
      next_rows[first_row + chosen] = row;
      ++chosen;
    }
    if (chosen < beams) refuse("{} of {} candidates end", candidates - chosen, candidates);
    if (hypotheses.count < beams) continue;
    if (!early_stopping) {
      // ONNX Runtime takes `candidates` scores from the place of the batch's beams on, not from that of its candidates.
      const float best =
          std::ranges::max(scores.subspan(static_cast<size_t>(first_row), static_cast<size_t>(candidates)));
      if (hypotheses.scores.back() < hypotheses.score(best, before.length())) continue;
    }
    done[batch] = true;
  }
  int32_t* to = after.sequences.data<int32_t>().data();
  for (int64_t row = 0; row < before.rows(); ++row) {
    to = std::ranges::copy(before.sequence(next_rows[row]), to).out;
    *to++ = next_tokens[row];
  }
  go = std::ranges::count(done, false) > 0;
}

void beam_end(KernelContext& context) {
  State state = read_state(context, 0);
  for (Tensor* changed : {&state.hypotheses, &state.hypothesis_scores, &state.hypothesis_counts}) {
    *changed = changed->clone();
  }
  const int64_t kept = integer(context.input(6)), beams = state.beams(), longest = state.longest();
  const auto length_penalty = static_cast<float>(number(context.input(7)));
  const auto padding = static_cast<int32_t>(context.attributes().get_int("pad_token_id", -1));
  if (kept < 1 || kept > beams) refuse("num_return_sequences is {} of {} beams", kept, beams);
  int32_t* to = context.allocate_output(0, DType::I32, Shape{state.batches(), kept, longest}).data<int32_t>().data();
  float* scores = nullptr;
  if (context.num_outputs() > 1) {
    scores = context.allocate_output(1, DType::F32, Shape{state.batches(), kept}).data<float>().data();
  }
  for (int64_t batch = 0; batch < state.batches(); ++batch) {
    Hypotheses hypotheses = hypotheses_of(state, batch, padding, length_penalty);
    for (int64_t row = batch * beams; !state.done.data<bool>()[batch] && row < (batch + 1) * beams; ++row) {
      hypotheses.add(state.sequence(row), state.beam_scores.data<float>()[row]);
    }
    to = std::copy_n(hypotheses.tokens.begin(), kept * longest, to);
    if (scores) scores = std::copy_n(hypotheses.scores.begin(), kept, scores);
  }
}

}  // namespace

void register_search(KernelRegistry& registry) {
  registry.add("BeamStart", beam_start);
  registry.add("ConstrainTokens", constrain_tokens);
  registry.add("BeamStep", beam_step);
  registry.add("BeamEnd", beam_end);
}

}  // namespace anfora::kernels
