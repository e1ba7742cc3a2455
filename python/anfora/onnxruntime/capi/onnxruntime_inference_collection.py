"""Sessions and their values, under the name of ONNX Runtime's module."""

from anfora.onnxruntime._session import InferenceSession, IOBinding
from anfora.onnxruntime._values import OrtDevice, OrtValue

Session = InferenceSession

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]
