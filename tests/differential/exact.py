"""Products of 8-bit integers as ONNX defines them: in exact integers, then scaled in f32.

ONNX Runtime is no oracle for these. On processors without VNNI its kernels add pairs of products in 16 bits, which saturate:
255 · 127 + 255 · 127 becomes 32767. What a case expects must not depend on the processor that it runs on.
"""
import numpy as np


def shifted(x, zero=None):
    return x.astype(np.int64) - (0 if zero is None else zero.astype(np.int64))


def columns(parameter, rank=2):
    """A scale or zero point of a matrix, for all of it or by column."""
    return parameter if parameter is None or parameter.size > 1 else parameter.reshape((1,) * rank)


def convolution(x, w, pads):
    """[batch, channels, height, width] by [out, in, height, width], with the same pad on all sides."""
    padded = np.pad(x, [(0, 0), (0, 0), (pads, pads), (pads, pads)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", windows, w)


def scaled(sums, scale):
    return sums.astype(np.float32) * np.asarray(scale, np.float32)


def quantized(values, zero):
    """Rounded values, which are divided by their scale already, around the zero point."""
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(values) + zero.astype(np.float32), limits.min, limits.max).astype(zero.dtype)


def dynamically_quantized(x):
    """DynamicQuantizeLinear: the octets, their scale and their zero point."""
    low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    return quantized(x / scale, zero), scale, zero
