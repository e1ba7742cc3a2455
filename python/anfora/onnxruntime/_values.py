"""Values as ONNX Runtime names and holds them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._values import element_type, numpy_dtype
from ._errors import InvalidArgument, NotImplemented


class Element(NamedTuple):
    """An element type."""

    number: int  #: in ONNX: TensorProto.DataType
    name: str  #: in "tensor(float)"
    dtype: str  #: in Anfora's types


_ELEMENTS = [
    Element(1, "float", "f32"),
    Element(2, "uint8", "u8"),
    Element(3, "int8", "i8"),
    Element(4, "uint16", "u16"),
    Element(5, "int16", "i16"),
    Element(6, "int32", "i32"),
    Element(7, "int64", "i64"),
    Element(8, "string", "string"),
    Element(9, "bool", "bool"),
    Element(10, "float16", "f16"),
    Element(11, "double", "f64"),
    Element(12, "uint32", "u32"),
    Element(13, "uint64", "u64"),
    Element(14, "complex64", "c64"),
    Element(15, "complex128", "c128"),
    Element(16, "bfloat16", "bf16"),
    Element(17, "float8e4m3fn", "f8e4m3fn"),
    Element(18, "float8e4m3fnuz", "f8e4m3fnuz"),
    Element(19, "float8e5m2", "f8e5m2"),
    Element(20, "float8e5m2fnuz", "f8e5m2fnuz"),
    Element(21, "uint4", "u4"),
    Element(22, "int4", "i4"),
    Element(23, "float4e2m1", "f4e2m1"),
    Element(24, "float8e8m0", "f8e8m0"),
    Element(25, "uint2", "u2"),
    Element(26, "int2", "i2"),
    Element(27, "float6e2m3", "f6e2m3"),
    Element(28, "float6e3m2", "f6e3m2"),
]
_BY_NUMBER = {element.number: element for element in _ELEMENTS}
_BY_DTYPE = {element.dtype: element for element in _ELEMENTS}

_TENSOR = re.compile(r"(\w+)\[[^\]]*\]")
_KEYS = re.compile(r"map\(tensor\((\w+)\), ")


def type_name(type: str) -> str:
    """A type as ONNX Runtime writes it: ``"seq(f32[*])"`` is ``"seq(tensor(float))"``."""

    def tensor(match: re.Match[str]) -> str:
        element = _BY_DTYPE.get(match[1])
        return f"tensor({element.name if element else match[1]})"

    return _KEYS.sub(r"map(\1,", _TENSOR.sub(tensor, type)).replace("opt(", "optional(")


def types_and_shapes(tensors: str) -> list[dict[str, list[int]]]:
    """``"f32[2x4], i64[]"`` as ``[{"float": [2, 4]}, {"int64": []}]``."""
    return [
        {_BY_DTYPE[dtype].name: [int(size) for size in sizes.split("x") if size]}
        for dtype, sizes in re.findall(r"(\w+)\[([^\]]*)\]", tensors)
    ]


def as_onnxruntime_gives(value: Any) -> Any:
    """A result in ONNX Runtime's form: 8-bit floats are their bits. It has no arrays of bf16 and 4-bit types, here they are."""
    if isinstance(value, np.ndarray) and value.dtype.name.startswith("float8"):
        return value.view(np.uint8)
    return value


def element_of(type: Any) -> np.dtype[Any]:
    """The numpy element type for a number of ONNX's, or for what numpy takes as one."""
    if not isinstance(type, int):
        dtype: np.dtype[Any] = np.dtype(type)
        return dtype
    if type not in _BY_NUMBER:
        raise InvalidArgument(f"there is no element type {type}")
    return numpy_dtype(_BY_NUMBER[type].dtype)


def at_address(address: int, type: Any, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Memory of the caller's as an array."""
    dtype = element_of(type)
    count = int(np.prod(shape, dtype=np.int64))
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.ctypeslib.as_array(memory).view(dtype).reshape(tuple(shape))


def require_cpu(device: str) -> None:
    if device.lower() != "cpu":
        raise RuntimeError(f"there is no device '{device}', only the CPU")


class OrtDevice:
    """The CPU."""

    def __init__(self, name: str = "cpu", device_id: int = 0) -> None:
        require_cpu(name)
        self._device_id = device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        return OrtDevice(ort_device_name, device_id)

    @staticmethod
    def cpu() -> int:
        return 0

    def device_id(self) -> int:
        return self._device_id

    def device_type(self) -> int:
        return 0

    def device_vendor_id(self) -> int:
        return 0

    def device_mem_type(self) -> int:
        return 0


class OrtValue:
    """A tensor, a sequence, a map, or an optional without a value. Made by the ``ortvalue_from_…`` methods and by runs.

    A tensor shares its memory with the array that it was made of.
    """

    __slots__ = ("_data", "_type")

    def __init__(self, data: Any, type: str = "") -> None:
        self._data = data
        self._type = type.removeprefix("optional(").removesuffix(")") if type.startswith("optional(") else type
        if isinstance(data, np.ndarray):
            self._type = f"tensor({_BY_DTYPE[element_type(data.dtype)].name})"

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray[Any, Any], device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A tensor that shares the array's memory; of one that is not contiguous, a copy."""
        require_cpu(device_type)
        if not isinstance(numpy_obj, np.ndarray):
            raise RuntimeError(f"a numpy array is needed, not a {type(numpy_obj).__name__}")
        return cls(np.asarray(numpy_obj, numpy_dtype(element_type(numpy_obj.dtype)), order="C"))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray[Any, Any], /, onnx_element_type: int) -> OrtValue:
        """The array's memory as elements of another type of the same size: uint16 as bf16 (16)."""
        dtype = element_of(onnx_element_type)
        if onnx_element_type in (21, 22, 23, 25, 26, 27, 28):
            raise NotImplemented(f"packed elements of {dtype.name} cannot be read", hint=f"give an array of {dtype.name}")
        if dtype.itemsize != data.dtype.itemsize:
            raise RuntimeError(f"elements have {data.dtype.itemsize} bytes, those of {dtype.name} {dtype.itemsize}")
        return cls(np.asarray(data, order="C").view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: object = None,
    ) -> OrtValue:
        """A tensor whose elements are undefined. ``element_type`` is numpy's, or ONNX's number."""
        require_cpu(device_type)
        return cls(np.empty(tuple(shape), element_of(element_type)))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A tensor that shares the memory of an object with ``__dlpack__``."""
        return cls(np.asarray(np.from_dlpack(data), order="C"))

    def _tensor(self) -> np.ndarray[Any, Any]:
        if not isinstance(self._data, np.ndarray):
            raise RuntimeError(f"the value is {self._type or 'none'}, no tensor")
        return self._data

    def numpy(self) -> np.ndarray[Any, Any]:
        """The tensor's memory as an array; for the element types, see :meth:`InferenceSession.run`."""
        array: np.ndarray[Any, Any] = as_onnxruntime_gives(self._tensor())
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if copy:
            return np.array(array, dtype)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def update_inplace(self, data: np.ndarray[Any, Any] | OrtValue) -> None:
        """Copies elements of the same type and number into this tensor's memory."""
        source = data._tensor() if isinstance(data, OrtValue) else data
        if not isinstance(source, np.ndarray):
            raise TypeError("data must be a numpy.ndarray or an OrtValue")
        target = self._tensor()
        if source.size != target.size or source.dtype != target.dtype:
            mine, theirs = (f"{array.dtype}{list(array.shape)}" for array in (target, source))
            raise RuntimeError(f"the data is {theirs}, the value {mine}")
        np.copyto(target, source.reshape(target.shape))

    def shape(self) -> list[int]:
        return list(self._tensor().shape)

    def data_type(self) -> str:
        """``"tensor(float)"``, ``"seq(tensor(float))"``."""
        return self._type

    def element_type(self) -> int:
        """ONNX's number."""
        return _BY_DTYPE[element_type(self._tensor().dtype)].number

    def tensor_size_in_bytes(self) -> int:
        return self._tensor().nbytes

    def data_ptr(self) -> int:
        return self._tensor().ctypes.data

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return self._data is not None

    def is_tensor(self) -> bool:
        return isinstance(self._data, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return self._type.startswith("seq(tensor(")
