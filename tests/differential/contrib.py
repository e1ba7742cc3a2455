"""Operators of ONNX Runtime (domain com.microsoft), which are expanded into those of ONNX before they run."""
import numpy as np

from case import Case, data, reals

DOMAIN = "com.microsoft"


def contrib(op, inputs, attributes=None, outputs=1, **more):
    return Case(op, inputs, attributes or {}, outputs=outputs, domain=DOMAIN, **more)


def maybe(rng, make, percent=50):
    return make() if rng.randint(1, 100) <= percent else None


def sizes(rng):
    """Batch, sequence, heads, size of a head."""
    return rng.randint(1, 3), rng.randint(1, 5), rng.randint(1, 3), rng.choice([2, 4, 8])


def elementwise(op, bias):
    def make(rng):
        x = reals(rng, tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4))))
        inputs = [x] + ([reals(rng, x.shape[-1:])] if bias == "always" or bias and rng.random() < 0.5 else [])
        return contrib(op, inputs)
    return make


def quick_gelu(rng):
    return contrib("QuickGelu", [reals(rng, (rng.randint(1, 4), 5))], {"alpha": rng.uniform(0.5, 2)})


def skip_normalization(op, beta):
    def make(rng):
        b, s, _, _ = sizes(rng)
        width = rng.choice([3, 4, 8])
        row = lambda: reals(rng, (width,))
        skip = reals(rng, rng.choice([(b, s, width), (1, s, width), (s, width)]))
        optional = [maybe(rng, row)] if beta else []
        inputs = [reals(rng, (b, s, width)), skip, row(), *optional, maybe(rng, row)]
        return contrib(op, inputs, {} if rng.random() < 0.5 else {"epsilon": 1e-3})
    return make


def embed_layer_normalization(rng):
    b, s, _, _ = sizes(rng)
    width = 4
    ids = lambda: np.array([[rng.randint(0, 5) for _ in range(s)] for _ in range(b)], np.int32)
    segments = maybe(rng, lambda: ids() % 2)
    table = lambda rows: reals(rng, (rows, width))
    mask = maybe(rng, lambda: np.array([[rng.randint(0, 1) for _ in range(s)] for _ in range(b)], np.int32))
    positions = maybe(rng, ids)
    return contrib("EmbedLayerNormalization",
                   [ids(), segments, table(6), table(6), table(2) if segments is not None else None,
                    reals(rng, (width,)), reals(rng, (width,)), mask, positions], outputs=2,
                   constants=(2, 3, 4, 5, 6))


def key_mask(rng, batch, queries, keys, kinds):
    kind = rng.choice(kinds)
    bits = lambda *dims: np.array([rng.randint(0, 3) > 0 for _ in range(int(np.prod(dims)))], np.int32).reshape(dims)
    if kind == "keys":
        return bits(batch, keys)
    if kind == "column":  # no mask
        return bits(batch, 1)
    if kind == "pairs":
        return bits(batch, queries, keys)
    ends = np.array([rng.randint(1, keys) for _ in range(batch)], np.int32)
    if kind == "ends":
        return ends
    return np.concatenate([ends, np.array([rng.randint(0, e - 1) for e in ends], np.int32)]) if kind == "ranges" else None


def packed_attention(rng):
    b, s, heads, size = sizes(rng)
    hidden, inner = heads * size, rng.choice([4, 6])
    past = rng.randint(1, 3) if rng.random() < 0.4 else 0
    attributes = {"num_heads": heads}
    total = 3 * hidden
    if not past and rng.random() < 0.3:
        attributes["qkv_hidden_sizes"] = [hidden, hidden, hidden * 2]
        total = 4 * hidden
    if rng.random() < 0.4:
        attributes["unidirectional"] = 1
    if rng.random() < 0.3:
        attributes["scale"] = 0.3
    if rng.random() < 0.3:
        attributes["mask_filter_value"] = -500.0
    mask = key_mask(rng, b, s, s + past, ["none", "keys", "column", "pairs", "ends", "ranges"])
    return contrib("Attention",
                   [reals(rng, (b, s, inner)), reals(rng, (inner, total)), reals(rng, (total,)), mask,
                    reals(rng, (2, b, heads, past, size)) if past else None,
                    maybe(rng, lambda: reals(rng, (rng.choice([1, b]), rng.choice([1, heads]), s, s + past)), 30)],
                   attributes, outputs=2 if past else 1, constants=(1, 2))


def multi_head_attention(rng):
    b, s, heads, size = sizes(rng)
    hidden = heads * size
    past = rng.randint(1, 3) if rng.random() < 0.3 else 0
    cross = not past and rng.random() < 0.3
    keys = s if past else rng.randint(1, 5)
    value_size = size if past else rng.choice([size, 2 * size])
    if cross:  # keys and values split into heads
        k, v = reals(rng, (b, heads, keys, size)), reals(rng, (b, heads, keys, size))
        value_size = size
    else:
        k, v = reals(rng, (b, keys, hidden)), reals(rng, (b, keys, heads * value_size))
    attributes = {"num_heads": heads}
    if rng.random() < 0.3:
        attributes["unidirectional"] = 1
    if rng.random() < 0.3:
        attributes["scale"] = 0.4
    cache = lambda: reals(rng, (b, heads, past, size)) if past else None
    return contrib("MultiHeadAttention",
                   [reals(rng, (b, s, hidden)), k, v,
                    maybe(rng, lambda: reals(rng, (2 * hidden + heads * value_size,))) if not cross else None,
                    key_mask(rng, b, s, keys + past, ["none", "none", "keys", "pairs"]),
                    maybe(rng, lambda: reals(rng, (rng.choice([1, b]), rng.choice([1, heads]), s, keys + past)), 30),
                    cache(), cache()], attributes, outputs=3 if past else 1)


def rotary_embedding(rng):
    b, s, heads, _ = sizes(rng)
    size = rng.choice([4, 8])
    rotated = rng.choice([0, size, 4])
    half = (rotated or size) // 2
    longest = s + 4
    x = reals(rng, (b, heads, s, size) if rng.random() < 0.5 else (b, s, heads * size))
    positions = np.array([rng.randint(0, 3)]) if rng.random() < 0.5 else \
        np.array([[rng.randint(0, longest - 1) for _ in range(s)] for _ in range(b)])
    attributes = {"interleaved": rng.randint(0, 1)}
    if rotated:
        attributes |= {"rotary_embedding_dim": rotated, "num_heads": heads}
    return contrib("RotaryEmbedding", [x, positions.astype(np.int64), reals(rng, (longest, half)),
                                       reals(rng, (longest, half))], attributes)


def fused_matmul(rng):
    batch = tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 2)))
    m, k, n = (rng.randint(1, 4) for _ in range(3))
    attributes = {"alpha": rng.choice([1.0, 0.5])}

    def operand(name, rows, columns):
        dims = [rows, columns]
        if rng.random() < 0.4:
            attributes[f"trans{name}"] = 1
            dims = [columns, rows]
        dims = [*batch, *dims]
        if batch and rng.random() < 0.4:  # the first of the two before the batch
            attributes[f"transBatch{name}"] = 1
            dims = [dims[-2], *batch, dims[-1]]
        return reals(rng, tuple(dims))
    return contrib("FusedMatMul", [operand("A", m, k), operand("B", k, n)], attributes)


def fused_gemm(rng):
    m, k, n = (rng.randint(1, 4) for _ in range(3))
    a, b = rng.randint(0, 1), rng.randint(0, 1)
    activation, parameters = rng.choice([("Relu", {}), ("Tanh", {}), ("Sigmoid", {}),
                                         ("LeakyRelu", {"activation_alpha": 0.2})])
    return contrib("FusedGemm", [reals(rng, (k, m) if a else (m, k)), reals(rng, (n, k) if b else (k, n)),
                                 maybe(rng, lambda: reals(rng, (n,)))],
                   {"transA": a, "transB": b, "alpha": 0.5, "beta": 2.0, "activation": activation, **parameters})


def fused_convolution(rng):
    activation, parameters = rng.choice([("Relu", []), ("Tanh", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.5]),
                                         ("HardSigmoid", [0.3, 0.4])])
    b, c, m, h = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 4), rng.randint(3, 6)
    z = maybe(rng, lambda: reals(rng, (b, m, h, h)), 30) if activation == "Relu" else None
    attributes = {"activation": activation, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    if parameters:
        attributes["activation_params"] = parameters
    return contrib("FusedConv", [reals(rng, (b, c, h, h)), reals(rng, (m, c, 3, 3)),
                                 reals(rng, (m,)) if z is not None else maybe(rng, lambda: reals(rng, (m,))), z],
                   attributes)


def matmul_nbits(rng):
    bits, block = rng.choice([4, 4, 8]), rng.choice([16, 32])
    n, k = rng.randint(1, 5), rng.choice([16, 32, 40, 64])
    blocks = -(-k // block)
    octets = lambda *dims: np.array([rng.randint(0, 255) for _ in range(int(np.prod(dims)))], np.uint8).reshape(dims)
    zeros = rng.choice([None, octets(n, -(-blocks * bits // 8)), reals(rng, (n, blocks), low=0, high=8)])
    return contrib("MatMulNBits", [reals(rng, (rng.randint(1, 3), k)), octets(n, blocks, block * bits // 8),
                                   reals(rng, (n, blocks), low=0.01, high=0.1), zeros, None,
                                   maybe(rng, lambda: reals(rng, (n,)), 30)],
                   {"N": n, "K": k, "bits": bits, "block_size": block}, constants=(1, 2, 3), rtol=1e-3, atol=1e-3)


def quantized_parameters(rng, dtype, dims=()):
    scale = np.array(reals(rng, dims or (1,), low=0.05, high=0.2).reshape(dims), np.float32)
    return scale, np.array(np.abs(data(rng, dims, "int8")), dtype)


def quantize(op):
    def make(rng):
        dtype, x = rng.choice(["int8", "uint8"]), reals(rng, (rng.randint(1, 3), 4))
        by_axis = rng.random() < 0.4
        scale, zero = quantized_parameters(rng, dtype, (4,) if by_axis else ())
        if op == "DequantizeLinear":
            x = np.abs(data(rng, x.shape, "int8")).astype(dtype)
        return contrib(op, [x, scale, zero], {"axis": 1} if by_axis else {})
    return make


def quantized_binary(op):
    def make(rng):
        dtype, dims = rng.choice(["int8", "uint8"]), (rng.randint(1, 3), 4)
        inputs = []
        for shape in (dims, dims):
            inputs += [np.abs(data(rng, shape, "int8")).astype(dtype), *quantized_parameters(rng, dtype)]
        return contrib(op, inputs + list(quantized_parameters(rng, dtype)))
    return make


GENERATORS = {
    "com.microsoft.Gelu": elementwise("Gelu", None),
    "com.microsoft.BiasGelu": elementwise("BiasGelu", "always"),
    "com.microsoft.FastGelu": elementwise("FastGelu", "sometimes"),
    "com.microsoft.QuickGelu": quick_gelu,
    "com.microsoft.SkipLayerNormalization": skip_normalization("SkipLayerNormalization", True),
    "com.microsoft.SkipSimplifiedLayerNormalization": skip_normalization("SkipSimplifiedLayerNormalization", False),
    "com.microsoft.EmbedLayerNormalization": embed_layer_normalization,
    "com.microsoft.Attention": packed_attention,
    "com.microsoft.MultiHeadAttention": multi_head_attention,
    "com.microsoft.RotaryEmbedding": rotary_embedding,
    "com.microsoft.FusedMatMul": fused_matmul,
    "com.microsoft.FusedGemm": fused_gemm,
    "com.microsoft.FusedConv": fused_convolution,
    "com.microsoft.MatMulNBits": matmul_nbits,
    "com.microsoft.QuantizeLinear": quantize("QuantizeLinear"),
    "com.microsoft.DequantizeLinear": quantize("DequantizeLinear"),
    "com.microsoft.QLinearAdd": quantized_binary("QLinearAdd"),
    "com.microsoft.QLinearMul": quantized_binary("QLinearMul"),
}
