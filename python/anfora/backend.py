"""An ONNX backend (``onnx.backend.base``).

    import anfora.backend
    import onnx.backend.test

    tests = onnx.backend.test.BackendTest(anfora.backend, __name__)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

import anfora


class AnforaRep(BackendRep):
    """A model that was prepared."""

    def __init__(self, executable: anfora.Executable) -> None:
        self._executable = executable

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, also by name as attributes.

        Args:
            inputs: by position, by name, or the one array that the model takes.
        """
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        names = [info.name for info in self._executable.outputs]
        results: tuple[Any, ...] = namedtupledict("Outputs", names)(*self._executable.run(inputs))
        return results


class AnforaBackend(Backend):
    """Runs models and single nodes on the CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether there is a kernel for every node."""
        try:
            return cls.supports_device(device) and not anfora.load(model).compile(optimize=False)._core.missing_kernels()
        except anfora.Error:
            return False

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.partition(":")[0] == "CPU"

    @classmethod
    def prepare(
        cls, model: anfora._model.ModelLike, device: str = "CPU", *, threads: int = 0, optimize: bool = True, **kwargs: Any
    ) -> AnforaRep:
        """Compiles a model; for the options see :meth:`anfora.Model.compile`.

        Raises:
            anfora.UnsupportedError: there is no such device.
        """
        if not cls.supports_device(device):
            raise anfora.UnsupportedError(f"there is no device '{device}'", hint="use CPU")
        return AnforaRep(anfora.load(model).compile(threads=threads, optimize=optimize))

    @classmethod
    def run_model(cls, model: anfora._model.ModelLike, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs a node whose inputs are these arrays.

        Args:
            outputs_info: numpy's element type and the shape of each output; inferred by default.
            kwargs: ``opset_version``: of the node's domain, the newest by default; ``opset_imports``: several.
        """
        helper = onnx.helper
        given = [(name, np.asarray(array)) for name, array in zip((n for n in node.input if n), inputs)]
        taken = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given]
        if outputs_info is None:
            made = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        else:
            made = [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
                for name, (dtype, shape) in zip(node.output, outputs_info)
            ]
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        imports = kwargs.get("opset_imports") or [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(helper.make_graph([node], "node", taken, made), opset_imports=imports)
        return cls.run_model(model, [array for _, array in given], device)


is_compatible = AnforaBackend.is_compatible
prepare = AnforaBackend.prepare
run_model = AnforaBackend.run_model
run_node = AnforaBackend.run_node
supports_device = AnforaBackend.supports_device
