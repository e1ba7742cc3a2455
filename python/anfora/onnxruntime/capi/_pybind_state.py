"""The same as ``onnxruntime_pybind11_state``."""

from anfora.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
