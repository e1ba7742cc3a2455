"""The modules of ONNX Runtime in which programs look for exceptions and classes.

They import by absolute names: also as ``onnxruntime.capi`` they give the classes of ``anfora.onnxruntime``.
"""

from anfora.onnxruntime.capi import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
