"""Operators of ONNX Runtime (domain com.microsoft), which are expanded into those of ONNX before they run."""
import numpy as np

import exact
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


def gated_add(rng):
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    return contrib("GatedAdd", [reals(rng, shape), reals(rng, shape), reals(rng, (*shape[:-1], 1))])


def scaled_silu(rng):
    scale = maybe(rng, lambda: reals(rng, ()))
    return contrib("ScaledSiLU", [reals(rng, (rng.randint(1, 4), 5)), scale], {} if scale is not None else {"alpha": rng.uniform(0.5, 2)})


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


def matmul_bnb4(rng):
    block = rng.choice([16, 32, 64])
    n, k = rng.randint(1, 5), rng.choice([8, 16, 40, 64])
    packed = np.array([rng.randint(0, 255) for _ in range(-(-n * k // 2))], np.uint8)
    return contrib("MatMulBnb4", [reals(rng, (rng.randint(1, 3), k)), packed, reals(rng, (-(-n * k // block),), low=0.01, high=0.1)],
                   {"N": n, "K": k, "block_size": block, "quant_type": rng.randint(0, 1)}, constants=(1, 2), rtol=1e-4, atol=1e-5)


def grouped_attention(rng):
    b, s, groups, size = sizes(rng)
    heads = groups * rng.randint(1, 3)
    packed, prompt = rng.random() < 0.3, rng.random() < 0.4
    past = 0 if prompt else rng.randint(1, 5)
    if not prompt and b > 1:
        s = 1
    rotary = rng.random() < 0.5
    if rotary:
        size = 16
    capacity = past + rng.choice([0, s]) if past else 0  # of the cache that is given
    lengths = [past + s] * b
    attributes = {"num_heads": heads, "kv_num_heads": groups}
    if rotary:
        attributes |= {"do_rotary": 1, "rotary_interleaved": rng.randint(0, 1)}
    if rng.random() < 0.3:
        attributes["local_window_size"] = rng.randint(1, 4)
    if rng.random() < 0.3:
        attributes["scale"] = 0.3
    if rng.random() < 0.3:
        attributes["softcap"] = 5.0
    sinks = rng.random() < 0.2
    if not sinks and rng.random() < 0.2:
        attributes["smooth_softmax"] = 1
    table = lambda: reals(rng, (past + s + 3, size // 2)) if rotary else None
    q, k, v = (reals(rng, (b, s, n * size)) for n in (heads, groups, groups))
    if packed:
        q, k, v = np.concatenate([q, k, v], axis=2), None, None
    cache = lambda: reals(rng, (b, groups, capacity, size)) if past else None
    bias = maybe(rng, lambda: reals(rng, (rng.choice([1, b]), rng.choice([1, heads]), s, past + s)), 20)
    return contrib("GroupQueryAttention",
                   [q, k, v, cache(), cache(), np.array(lengths, np.int32) - 1, np.array(past + s, np.int32),
                    table(), table(), None, bias, reals(rng, (heads,)) if sinks else None], attributes,
                   outputs=3 if past or rng.random() < 0.5 else 1, constants=(6,))


def decoder_masked_attention(rng):
    b, _, heads, size = sizes(rng)
    hidden, cross = heads * size, rng.random() < 0.4
    row = lambda: reals(rng, (b, 1, hidden))
    bias = maybe(rng, lambda: reals(rng, (3 * hidden,)))
    if cross:
        keys = rng.randint(1, 5)
        cache = lambda: reals(rng, (b, heads, keys, size))
        return contrib("DecoderMaskedMultiHeadAttention", [row(), cache(), cache(), None, None, None, None, None, None,
                                                           None, bias], {"num_heads": heads})
    past, capacity = rng.randint(1, 3), 5
    cache = lambda: reals(rng, (b, heads, capacity, size))
    mask = key_mask(rng, b, 1, past + 1, ["none", "keys"])
    return contrib("DecoderMaskedMultiHeadAttention",
                   [row(), row(), row(), mask, None, cache(), cache(), np.array([past], np.int32), None, None, bias],
                   {"num_heads": heads, "past_present_share_buffer": 1}, outputs=3)


def shared_cache_attention(rng):
    """MultiHeadAttention whose cache does not grow."""
    b, _, heads, size = sizes(rng)
    row = lambda: reals(rng, (b, 1, heads * size))
    past, capacity = rng.randint(0, 3), 5
    cache = lambda: reals(rng, (b, heads, capacity, size))
    return contrib("MultiHeadAttention",
                   [row(), row(), row(), maybe(rng, lambda: reals(rng, (3 * heads * size,))), None, None, cache(), cache(),
                    np.array([past], np.int32)], {"num_heads": heads, "unidirectional": rng.randint(0, 1)}, outputs=3)


def quantized_parameters(rng, dtype, dims=()):
    dims = dims or rng.choice([(), (), (), (1,)])  # some operators refuse the vector
    scale = np.array(reals(rng, dims or (1,), low=0.05, high=0.2).reshape(dims), np.float32)
    return scale, np.array(np.abs(data(rng, dims, "int8")), dtype)


def quantize(op):
    def make(rng):
        dtype, x = rng.choice(["int8", "uint8"]), reals(rng, (rng.randint(1, 3), 4))
        by_axis = rng.random() < 0.4
        scale, zero = quantized_parameters(rng, dtype, (4,) if by_axis else ())
        if op == "DequantizeLinear":
            x = octets(rng, dtype, x.shape)
        return contrib(op, [x, scale, zero], {"axis": 1} if by_axis else {})
    return make


def octets(rng, dtype, dims):
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    return np.array([rng.randint(low, high) for _ in range(int(np.prod(dims)))], dtype).reshape(dims)


def quantized_tensor(rng, dtype, dims):
    return [octets(rng, dtype, dims), *quantized_parameters(rng, dtype)]


def quantized_binary(op):
    def make(rng):
        dtype, dims = rng.choice(["int8", "uint8"]), (rng.randint(1, 3), 4)
        return contrib(op, quantized_tensor(rng, dtype, dims) + quantized_tensor(rng, dtype, rng.choice([dims, (4,)])) +
                       list(quantized_parameters(rng, dtype)))
    return make


def quantized_where(rng):
    dtype, dims = rng.choice(["int8", "uint8"]), (rng.randint(1, 3), 4)
    condition = np.array([rng.random() < 0.5 for _ in range(int(np.prod(dims)))]).reshape(dims)
    return contrib("QLinearWhere", [condition] + quantized_tensor(rng, dtype, dims) + quantized_tensor(rng, dtype, dims) +
                   list(quantized_parameters(rng, dtype)), constants=(2, 3, 5, 6, 7, 8))


def quantized_concat(rng):
    dtype, dims = rng.choice(["int8", "uint8"]), [rng.randint(1, 3) for _ in range(3)]
    axis = rng.randint(0, 2)
    inputs = list(quantized_parameters(rng, dtype))
    for _ in range(rng.randint(1, 3)):
        dims[axis] = rng.randint(1, 3)
        inputs += quantized_tensor(rng, dtype, tuple(dims))
    return contrib("QLinearConcat", inputs, {"axis": axis},
                   constants=tuple(i for i in range(len(inputs)) if i < 2 or i % 3 != 2))


def quantized_unary(op, make_attributes=lambda rng: {}):
    def make(rng):
        dtype = rng.choice(["int8", "uint8"])
        x = quantized_tensor(rng, dtype, (rng.randint(1, 3), rng.randint(1, 4), 5))
        return contrib(op, x + list(quantized_parameters(rng, dtype)), make_attributes(rng), constants=(1, 2, 3, 4))
    return make


def quantized_softmax(rng):
    dtype = rng.choice(["int8", "uint8"])
    opset = rng.choice([11, 13])
    scale = np.array(1 / 256, np.float32)
    zero = np.array(0 if dtype == "uint8" else -128, dtype)
    return contrib("QLinearSoftmax", quantized_tensor(rng, dtype, (rng.randint(1, 3), rng.randint(2, 4), 5)) + [scale, zero],
                   {"opset": opset, "axis": rng.choice([1, 2, -1] if opset == 13 else [1, 2])}, constants=(1, 2, 3, 4))


def quantized_pool(op):
    def make(rng):
        dtype = rng.choice(["uint8"] if op == "QLinearAveragePool" else ["int8", "uint8"])
        attributes = {} if op == "NhwcMaxPool" else {"channels_last": rng.randint(0, 1)}
        if op != "QLinearGlobalAveragePool":
            attributes |= {"kernel_shape": [2, 3], "strides": [rng.randint(1, 2), 1], "pads": [0, 1, 1, 1]}
        if op == "QLinearAveragePool":
            attributes["count_include_pad"] = rng.randint(0, 1)
        dims = (rng.randint(1, 2), rng.randint(3, 5), rng.randint(3, 5), rng.randint(3, 5))
        if op == "NhwcMaxPool":
            return contrib(op, [octets(rng, dtype, dims)], attributes)
        return contrib(op, quantized_tensor(rng, dtype, dims) + list(quantized_parameters(rng, dtype)), attributes,
                       constants=(1, 2, 3, 4))
    return make


def quantized_gemm(rng):
    m, k, n = (rng.randint(1, 5) for _ in range(3))
    a, b = rng.randint(0, 1), rng.randint(0, 1)
    dtype, weights = rng.choice([("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
    columns = (n,) if rng.random() < 0.4 else ()
    scale, zero = quantized_parameters(rng, weights, columns)
    bias = maybe(rng, lambda: np.array([rng.randint(-999, 999) for _ in range(n)], np.int32))
    out = list(quantized_parameters(rng, dtype)) if rng.random() < 0.7 else []
    x, x_scale, x_zero = quantized_tensor(rng, dtype, (k, m) if a else (m, k))
    w, alpha = octets(rng, weights, (n, k) if b else (k, n)), rng.choice([1.0, 0.5])

    def oracle():
        left, right = exact.shifted(x, x_zero), exact.shifted(w.T if b else w, zero)
        sums = (left.T if a else left) @ right + (0 if bias is None else bias)
        factor = np.float32(alpha) * x_scale * scale
        return exact.quantized(exact.scaled(sums, factor / out[0]), out[1]) if out else exact.scaled(sums, factor)
    return contrib("QGemm", [x, x_scale, x_zero, w, scale, zero, bias] + out, {"transA": a, "transB": b, "alpha": alpha},
                   constants=(1, 2, 3, 4, 5, 6, 7, 8), oracle=oracle)


def quantized_convolution(rng):
    b, c, m, h = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 4), rng.randint(3, 6)
    last = rng.randint(0, 1)
    x, x_scale, x_zero = quantized_tensor(rng, "uint8", (b, h, h, c) if last else (b, c, h, h))
    w, w_scale = quantized_tensor(rng, "int8", (m, c, 3, 3))[:2]
    y_scale, y_zero = quantized_parameters(rng, "uint8")
    bias = maybe(rng, lambda: np.array([rng.randint(-999, 999) for _ in range(m)], np.int32))

    def oracle():
        image = exact.shifted(np.moveaxis(x, -1, 1) if last else x, x_zero)
        sums = exact.convolution(image, exact.shifted(w), 1) + (0 if bias is None else bias[:, None, None])
        y = exact.quantized(exact.scaled(sums, x_scale * w_scale / y_scale), y_zero)
        return np.moveaxis(y, 1, -1) if last else y
    return contrib("QLinearConv", [x, x_scale, x_zero, w, w_scale, np.array(0, np.int8), y_scale, y_zero, bias],
                   {"channels_last": last, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}, constants=tuple(range(1, 9)),
                   oracle=oracle)


def integer_matmul(rng):
    m, k, n = (rng.randint(1, 5) for _ in range(3))
    dtype, weights = rng.choice([("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
    scale, zero = quantized_parameters(rng, weights, (n,) if rng.random() < 0.4 else ())
    a, a_scale, a_zero = quantized_tensor(rng, dtype, (2, m, k))
    b = octets(rng, weights, (k, n))
    a_zero, zero, bias = maybe(rng, lambda: a_zero), maybe(rng, lambda: zero), maybe(rng, lambda: reals(rng, (n,)))

    def oracle():
        return exact.scaled(exact.shifted(a, a_zero) @ exact.shifted(b, zero), a_scale * scale) + (0 if bias is None else bias)
    return contrib("MatMulIntegerToFloat", [a, b, a_scale, scale, a_zero, zero, bias], constants=(1, 3, 5), oracle=oracle)


def dynamic_quantize_matmul(rng):
    m, k, n = (rng.randint(1, 5) for _ in range(3))
    weights = rng.choice(["int8", "uint8"])
    scale, zero = quantized_parameters(rng, weights, (n,) if rng.random() < 0.4 else ())
    a, b = reals(rng, (2, m, k)), octets(rng, weights, (k, n))
    zero, bias = maybe(rng, lambda: zero), maybe(rng, lambda: reals(rng, (n,)))

    def oracle():
        x, x_scale, x_zero = exact.dynamically_quantized(a)
        return exact.scaled(exact.shifted(x, x_zero) @ exact.shifted(b, zero), x_scale * scale) + (0 if bias is None else bias)
    return contrib("DynamicQuantizeMatMul", [a, b, scale, zero, bias], constants=(1, 2, 3), oracle=oracle)


def quantized_attention(rng):
    b, s, heads, size = sizes(rng)
    hidden, inner = heads * size, rng.choice([4, 6])
    dtype, weights = rng.choice([("uint8", "uint8"), ("uint8", "int8")])
    x, x_scale, x_zero = quantized_tensor(rng, dtype, (b, s, inner))
    scale, zero = quantized_parameters(rng, weights)
    past = rng.randint(1, 3) if rng.random() < 0.3 else 0
    mask = key_mask(rng, b, s, s + past, ["none", "keys", "ends"])
    w, bias = octets(rng, weights, (inner, 3 * hidden)), reals(rng, (3 * hidden,))
    x_scale, scale = x_scale * 0.1, scale * 0.1
    cache = reals(rng, (2, b, heads, past, size)) if past else None
    attributes = {"num_heads": heads, "unidirectional": rng.randint(0, 1)}
    tolerance = {"rtol": 1e-3, "atol": 1e-4}
    floats = contrib("Attention", [exact.scaled(exact.shifted(x, x_zero), x_scale), exact.scaled(exact.shifted(w, zero), scale),
                                   bias, mask, cache], attributes, outputs=2 if past else 1)
    return contrib("QAttention", [x, w, bias, x_scale, scale, mask, x_zero, zero, cache], attributes, outputs=2 if past else 1,
                   constants=(1, 2, 3, 4, 6, 7), oracle=floats, **tolerance)


def quantized_embed_layer_normalization(rng):
    b, s, _, _ = sizes(rng)
    width, dtype = 4, rng.choice(["int8", "uint8"])
    ids = lambda: np.array([[rng.randint(0, 5) for _ in range(s)] for _ in range(b)], np.int32)
    segments = maybe(rng, lambda: ids() % 2)
    tables = [quantized_tensor(rng, dtype, dims) for dims in ((6, width), (6, width), (2, width), (width,), (width,))]
    if segments is None:
        tables[2] = [None, None, None]
    mask = maybe(rng, lambda: np.array([[rng.randint(0, 1) for _ in range(s)] for _ in range(b)], np.int32))
    return contrib("QEmbedLayerNormalization",
                   [ids(), segments, *(t[0] for t in tables), mask, *(t[1] for t in tables), *(t[2] for t in tables)],
                   outputs=2, constants=(2, 3, 4, 5, 6, *range(8, 18)))


TEXTS = ["", "a", "Hello World", "I love computer science !", "a,b;c,,d", "  two  blanks ", "Straße und Öl", "x1y22z333",
         "http://a.b/c?d=e", "été\tà\nla"]


def texts(rng, dims):
    return np.array([rng.choice(TEXTS) for _ in range(int(np.prod(dims)))], dtype=object).reshape(dims)


def tokenizer(rng):
    dims = rng.choice([(rng.randint(1, 4),), (rng.randint(1, 3), rng.randint(1, 3)), (0,), (2, 0)])
    kind = rng.choice([{"separators": [" "]}, {"separators": [",", ";", " "]}, {"separators": [""]}, {"separators": ["\\s+", "[0-9]+"]},
                       {"tokenexp": "[a-z]+"}, {"tokenexp": "\\w"}, {"tokenexp": "."}, {"tokenexp": "a|ab|b*"},
                       {"tokenexp": "(?i)[^ ]+"}])
    characters = kind.get("separators") == [""]
    return contrib("Tokenizer", [texts(rng, dims)], {
        **kind, "mark": rng.randint(0, 1), "mincharnum": 1 if characters else rng.randint(1, 3), "pad_value": rng.choice(["", "#"])})


def murmur_hash(rng):
    dims = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3)))
    dtype = rng.choice(["uint32", "int32", "uint64", "int64", "float32", "float64", "str"])
    x = texts(rng, dims) if dtype == "str" else data(rng, dims, dtype)
    return contrib("MurmurHash3", [x], {"positive": rng.randint(0, 1), "seed": rng.randint(0, 1000)})


def distances(rng):
    dtype, columns = rng.choice(["float32", "float64"]), rng.randint(1, 6)
    return contrib("CDist", [reals(rng, (rng.randint(1, 5), columns), dtype), reals(rng, (rng.randint(1, 5), columns), dtype)],
                   {"metric": rng.choice(["euclidean", "sqeuclidean"])})


def warping(rng):
    dims = (*rng.choice([(), (1,)]), rng.randint(1, 6), rng.randint(1, 6))
    return contrib("DynamicTimeWarping", [reals(rng, dims) if rng.random() < 0.5 else data(rng, dims) // 20])


GENERATORS = {
    "com.microsoft.Tokenizer": tokenizer,
    "com.microsoft.MurmurHash3": murmur_hash,
    "com.microsoft.CDist": distances,
    "com.microsoft.DynamicTimeWarping": warping,
    "com.microsoft.Gelu": elementwise("Gelu", None),
    "com.microsoft.BiasGelu": elementwise("BiasGelu", "always"),
    "com.microsoft.FastGelu": elementwise("FastGelu", "sometimes"),
    "com.microsoft.QuickGelu": quick_gelu,
    "com.microsoft.GatedAdd": gated_add,
    "com.microsoft.ScaledSiLU": scaled_silu,
    "com.microsoft.SkipLayerNormalization": skip_normalization("SkipLayerNormalization", True),
    "com.microsoft.SkipSimplifiedLayerNormalization": skip_normalization("SkipSimplifiedLayerNormalization", False),
    "com.microsoft.EmbedLayerNormalization": embed_layer_normalization,
    "com.microsoft.Attention": packed_attention,
    "com.microsoft.MultiHeadAttention": multi_head_attention,
    "com.microsoft.SharedCacheAttention": shared_cache_attention,
    "com.microsoft.DecoderMaskedMultiHeadAttention": decoder_masked_attention,
    "com.microsoft.GroupQueryAttention": grouped_attention,
    "com.microsoft.RotaryEmbedding": rotary_embedding,
    "com.microsoft.FusedMatMul": fused_matmul,
    "com.microsoft.FusedGemm": fused_gemm,
    "com.microsoft.FusedConv": fused_convolution,
    "com.microsoft.MatMulNBits": matmul_nbits,
    "com.microsoft.MatMulBnb4": matmul_bnb4,
    "com.microsoft.QuantizeLinear": quantize("QuantizeLinear"),
    "com.microsoft.DequantizeLinear": quantize("DequantizeLinear"),
    "com.microsoft.QLinearAdd": quantized_binary("QLinearAdd"),
    "com.microsoft.QLinearMul": quantized_binary("QLinearMul"),
    "com.microsoft.QLinearWhere": quantized_where,
    "com.microsoft.QAttention": quantized_attention,
    "com.microsoft.QEmbedLayerNormalization": quantized_embed_layer_normalization,
    "com.microsoft.QLinearConcat": quantized_concat,
    "com.microsoft.QLinearSigmoid": quantized_unary("QLinearSigmoid"),
    "com.microsoft.QLinearLeakyRelu": quantized_unary("QLinearLeakyRelu", lambda rng: {"alpha": 0.3}),
    "com.microsoft.QLinearSoftmax": quantized_softmax,
    "com.microsoft.QLinearAveragePool": quantized_pool("QLinearAveragePool"),
    "com.microsoft.QLinearGlobalAveragePool": quantized_pool("QLinearGlobalAveragePool"),
    "com.microsoft.NhwcMaxPool": quantized_pool("NhwcMaxPool"),
    "com.microsoft.QGemm": quantized_gemm,
    "com.microsoft.QLinearConv": quantized_convolution,
    "com.microsoft.MatMulIntegerToFloat": integer_matmul,
    "com.microsoft.DynamicQuantizeMatMul": dynamic_quantize_matmul,
}
