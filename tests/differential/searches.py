"""Searches that hold a decoder as a graph (domain com.microsoft)."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from case import Case

I32, F32 = TensorProto.INT32, TensorProto.FLOAT
HEADS, SIZE, WORDS = 2, 3, 23
WIDTH = HEADS * SIZE
START, END, PADDING = 1, 4, 0


class Graph:
    """A graph under construction; every method that adds a node returns the name of its result."""

    def __init__(self, rng, name, ends=True):
        self.rng, self.name, self.nodes, self.constants = rng, name, [], []
        self.ends = ends  # whether END is likely

    def add(self, op, *inputs, **attributes):
        names = [x if isinstance(x, str) else self.constant(np.array(x, dtype=np.int64)) for x in inputs]
        self.nodes.append(helper.make_node(op, names, [f"{op}_{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(value, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *dims):
        count = int(np.prod(dims))
        return self.constant(np.array([self.rng.uniform(-1, 1) for _ in range(count)], dtype=np.float32).reshape(dims))

    def finish(self, inputs, outputs):
        for name, value in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value[0]], [name]))
        return helper.make_graph(
            self.nodes, self.name, [helper.make_tensor_value_info(name, dtype, dims) for name, (dtype, dims) in inputs.items()],
            [helper.make_tensor_value_info(name, F32, dims) for name, (_, dims) in outputs.items()], self.constants)

    def heads(self, x):
        """[B, length, WIDTH] as [B, HEADS, length, SIZE]."""
        return self.add("Transpose", self.add("Reshape", x, [0, 0, HEADS, SIZE]), perm=[0, 2, 1, 3])

    def mean(self, x, mask=None):
        """Of [B, HEADS, length, SIZE] over the positions that count, as [B, 1, WIDTH]."""
        if mask:
            x = self.add("Mul", x, self.add("Unsqueeze", self.add("Cast", mask, to=F32), [1, 3]))
        return self.add("Reshape", self.add("ReduceMean", x, [2]), [0, 1, WIDTH])

    def logits(self, *summands):
        x = summands[0]
        for y in summands[1:]:
            x = self.add("Add", x, y)
        weights = self.weights(WIDTH, WORDS)
        ending = np.zeros(WORDS, dtype=np.float32)
        ending[END] = self.rng.choice([-4, 2, 6]) if self.ends else -100
        return self.add("Add", self.add("MatMul", self.add("Tanh", x), weights), self.constant(ending))


def past(batch, length):
    return (F32, [batch, HEADS, length, SIZE])


def gpt_decoder(rng, layers, name, ends):
    g = Graph(rng, name, ends)
    words = g.add("Gather", g.weights(WORDS, WIDTH), "input_ids")
    x = g.add("Add", words, g.add("Gather", g.weights(40, WIDTH), "position_ids"))
    dims = [2, "batch", HEADS, "past", SIZE]
    inputs = {"input_ids": (I32, ["batch", "length"]), "position_ids": (I32, ["batch", "length"]),
              "attention_mask": (I32, ["batch", "all"])}
    presents, means = {}, []
    for layer in range(layers):
        inputs[f"past_{layer}"] = (F32, dims)
        parts = [g.add("Unsqueeze", g.heads(g.add("MatMul", x, g.weights(WIDTH, WIDTH))), [0]) for _ in range(2)]
        present = g.add("Concat", f"past_{layer}", g.add("Concat", *parts, axis=0), axis=3)
        presents[f"present_{layer}"] = (present, [2, "batch", HEADS, "all", SIZE])
        for part in range(2):
            means.append(g.mean(g.add("Gather", present, part, axis=0), "attention_mask"))
    return g.finish(inputs, {"logits": (g.logits(x, *means), ["batch", "length", WORDS]), **presents})


def named(role, kind, layers):
    return [f"{role}_{part}_{kind}_{layer}" for layer in range(layers) for part in ("key", "value")]


def t5_encoder(rng, layers, starts_decoder):
    g = Graph(rng, "encoder")
    hidden = g.add("Gather", g.weights(WORDS, WIDTH), "encoder_input_ids")
    inputs = {"encoder_input_ids": (I32, ["batch", "length"]), "encoder_attention_mask": (I32, ["batch", "length"])}
    cross = {name: (g.heads(g.add("MatMul", hidden, g.weights(WIDTH, WIDTH))), ["batch", HEADS, "length", SIZE])
             for name in named("present", "cross", layers)}
    if not starts_decoder:
        return g.finish(inputs, cross)
    inputs["decoder_input_ids"] = (I32, ["batch", 1])
    x = g.add("Gather", g.weights(WORDS, WIDTH), "decoder_input_ids")
    own = {name: (g.heads(g.add("MatMul", x, g.weights(WIDTH, WIDTH))), ["batch", HEADS, 1, SIZE])
           for name in named("present", "self", layers)}
    mean = g.mean(g.heads(hidden), "encoder_attention_mask")
    return g.finish(inputs, {"logits": (g.logits(x, mean), ["batch", 1, WORDS]),
                             "encoder_hidden_states": (hidden, ["batch", "length", WIDTH]), **own, **cross})


def t5_decoder(rng, layers, takes_hidden, takes_ids, takes_sequence):
    g = Graph(rng, "decoder")
    words = g.add("Gather", g.weights(WORDS, WIDTH), "input_ids")
    x = g.add("ReduceMean", words, [1]) if takes_sequence else words
    inputs = {"input_ids": (I32, ["batch", "tokens" if takes_sequence else 1])}
    summands = [x]
    if takes_ids:
        inputs["encoder_input_ids"] = (I32, ["batch", "length"])
        summands.append(g.add("ReduceMean", g.add("Gather", g.weights(WORDS, WIDTH), "encoder_input_ids"), [1]))
    inputs["encoder_attention_mask"] = (I32, ["batch", "length"])
    if takes_hidden:
        inputs["encoder_hidden_states"] = (F32, ["batch", "length", WIDTH])
        summands.append(g.mean(g.heads("encoder_hidden_states"), "encoder_attention_mask"))
    presents = {}
    for name in named("past", "self", layers):
        inputs[name] = past("batch", "past")
        present = g.add("Concat", name, g.heads(g.add("MatMul", x, g.weights(WIDTH, WIDTH))), axis=2)
        presents[name.replace("past", "present")] = (present, ["batch", HEADS, "all", SIZE])
        summands.append(g.mean(present))
    for name in named("past", "cross", layers):
        inputs[name] = past("batch", "length")
        summands.append(g.mean(name, "encoder_attention_mask"))
    return g.finish(inputs, {"logits": (g.logits(*summands), ["batch", 1, WORDS]), **presents})


def mask(rng, *dims):
    allowed = np.array([rng.random() < 0.8 for _ in range(int(np.prod(dims)))], dtype=np.int32).reshape(dims)
    allowed[..., 8:16] = 1
    return allowed


def constraints(rng, ids):
    """repetition_penalty, vocab_mask, prefix_vocab_mask and attention_mask, some of them."""
    optional = [np.array(rng.choice([1.0, 1.3, 0.7]), dtype=np.float32), mask(rng, WORDS), mask(rng, len(ids), WORDS),
                np.array([[rng.random() < 0.8 for _ in row] for row in ids], dtype=np.int32)]
    return [x if rng.random() < 0.4 else None for x in optional]


def tokens(rng):
    attributes = {"eos_token_id": END, "pad_token_id": PADDING}
    if rng.random() < 0.3:
        attributes["no_repeat_ngram_size"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        attributes["vocab_size"] = WORDS
    return attributes


def gpt_graphs(rng, layers, ends=True):
    decoders = ["decoder", "init_decoder"] if rng.random() < 0.2 else ["decoder"]
    return {"model_type": 0, **{name: gpt_decoder(rng, layers, name, ends) for name in decoders}}


def t5_graphs(rng, layers):
    starts_decoder = rng.random() < 0.6
    takes_hidden = starts_decoder and rng.random() < 0.5
    return {"model_type": 1, "decoder_start_token_id": START, "encoder": t5_encoder(rng, layers, starts_decoder),
            "decoder": t5_decoder(rng, layers, takes_hidden, rng.random() < 0.5, rng.random() < 0.3)}


def some(rng, first, last):
    return tuple(i for i in range(first, last) if rng.random() < 0.5)


def number(value, dtype=np.int32):
    return np.array(value, dtype=dtype)


def prompt(rng):
    """Some of it padded on the left."""
    batch, length = rng.randint(1, 3), rng.randint(1, 5)
    ids = np.array([[rng.randint(5, WORDS - 1) for _ in range(length)] for _ in range(batch)], dtype=np.int32)
    for row in ids:
        row[:rng.choice([0, 0, rng.randint(0, length - 1)])] = PADDING
    return ids


def beam_search(rng):
    ids, layers, is_t5 = prompt(rng), rng.randint(1, 2), rng.random() < 0.5
    longest = rng.randint(3, 9) + (0 if is_t5 else ids.shape[1])
    beams, outputs = rng.randint(1, 4), rng.randint(1, 3)
    # ONNX Runtime leaves the scores of steps undefined that a search which ends early does not make.
    least = longest - 1 if outputs == 3 else rng.randint(0, longest - 1)
    attributes = {**tokens(rng), "early_stopping": rng.randint(0, 1), **(t5_graphs if is_t5 else gpt_graphs)(rng, layers)}
    inputs = [ids, number(longest), number(least), number(beams), number(rng.randint(1, beams)),
              number(rng.choice([0.0, 0.5, 1.0, 2.0]), np.float32), *constraints(rng, ids)]
    return Case("BeamSearch", inputs, attributes, outputs, "com.microsoft", some(rng, 1, 7))


def greedy_search(rng):
    """Of several batches the first may end at once, the others do not: ONNX Runtime leaves undefined what is behind the end of all."""
    ids = prompt(rng)
    longest = rng.randint(3, 9) + ids.shape[1]
    penalty, allowed, allowed_first, attention = constraints(rng, ids)
    least = rng.randint(0, longest - 1)
    if len(ids) > 1 and rng.random() < 0.5:
        least, allowed = 0, None
        allowed_first = np.ones((len(ids), WORDS), dtype=np.int32)
        allowed_first[0] = np.arange(WORDS) == END
    inputs = [ids, number(longest), number(least), penalty, allowed, allowed_first, attention]
    attributes = {**tokens(rng), **gpt_graphs(rng, rng.randint(1, 2), ends=False)}
    return Case("GreedySearch", inputs, attributes, 1, "com.microsoft", some(rng, 1, 4))


GENERATORS = {
    "com.microsoft.BeamSearch": beam_search,
    "com.microsoft.GreedySearch": greedy_search,
}
