"""anfora.runtime: compiled models in a process that has no compiler."""
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import anfora
from anfora import runtime

MODEL = pathlib.Path(__file__).parents[2] / "examples/models/mlp.onnx"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("compiled") / "mlp.anf"
    anfora.load(MODEL).compile(threads=1).save(path)
    return path


def run_apart(program: str, *arguments: object) -> str:
    """What another process prints."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, timeout=60).stdout


def test_neither_the_compiler_nor_llvm_is_loaded(compiled: pathlib.Path) -> None:
    if not pathlib.Path("/proc/self/maps").exists():
        pytest.skip("no /proc")
    told = run_apart(
        """
        import sys
        from anfora import runtime
        import numpy as np
        run = runtime.load(sys.argv[1])
        y = run(np.ones((2, 4), np.float32))
        import anfora
        assert anfora.Executable is runtime.Executable and anfora.Error is runtime.Error and anfora.__version__
        files = {line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if "/" in line}
        anfora_files = sorted(name.partition(".")[0] for name in files if "anfora" in name or name.startswith(("_core.", "_runtime.")))
        print(y.shape, "anfora._core" in sys.modules, any("LLVM" in name for name in files), *anfora_files)
        """,
        compiled,
    )
    assert told.split() == ["(2,", "3)", "False", "False", "_runtime", "libanfora_runtime"]


def test_runs_what_was_compiled(compiled: pathlib.Path) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    run = runtime.load(compiled, threads=1)
    expected = anfora.load(MODEL).compile(threads=1)
    np.testing.assert_array_equal(run(x), expected(x))
    assert [repr(info) for info in run.inputs + run.outputs] == [repr(info) for info in expected.inputs + expected.outputs]
    assert run.inputs[0].shape == ["N", 4] and run.inputs[0].dtype == "f32"
    out = np.empty((3, 3), np.float32)
    assert run.run([x], out=[out])[0] is out


def test_the_compiler_may_come_later(compiled: pathlib.Path) -> None:
    """Both have one library: classes, exceptions and executables are the same."""
    run_apart(
        """
        import sys
        from anfora import runtime
        import numpy as np
        x = np.ones((2, 4), np.float32)
        early = runtime.load(sys.argv[1])
        y = early(x)
        import anfora
        late = anfora.load(sys.argv[2]).compile(threads=1)
        assert type(late) is type(early) and (late(x) == y).all() and (early(x) == y).all()
        for run in early, late:
            try:
                run(np.ones((2, 5), np.float32))
                raise SystemExit("no error")
            except runtime.InvalidArgumentError as error:
                assert "'x'" in str(error)
        with open("/proc/self/maps") as maps:
            assert len({line.split()[-1] for line in maps if "libanfora" in line}) == 1
        """,
        compiled,
        MODEL,
    )


def test_kernels_of_a_program(tmp_path: pathlib.Path) -> None:
    path, source = tmp_path / "scaled.anf", tmp_path / "scaled.ir"
    source.write_text("graph @main(%x: f32[4]) { %y = runtime::Scale(%x) return %y }")
    run_apart(
        """
        import sys
        import anfora
        anfora.register_operator("runtime::Scale", "(x: T[...]) -> T[...]", scale=3.0)
        anfora.register_kernel("runtime::Scale")(lambda x, *, scale: x)
        anfora.load(sys.argv[2]).compile().save(sys.argv[1])
        """,
        path,
        source,
    )
    with pytest.raises(runtime.NotFoundError, match="no kernel is registered for runtime::Scale"):
        runtime.load(path)
    told = run_apart(
        """
        import sys
        from anfora import runtime
        import numpy as np

        @runtime.register_kernel("runtime::Scale")
        def scale(x, *, scale):
            return x * np.float32(scale)

        assert "anfora._core" not in sys.modules
        print(runtime.load(sys.argv[1])(np.ones(4, np.float32)).tolist())
        """,
        path,
    )
    assert told.strip() == "[3.0, 3.0, 3.0, 3.0]"


def test_errors(tmp_path: pathlib.Path, compiled: pathlib.Path) -> None:
    with pytest.raises(runtime.NotFoundError):
        runtime.load(tmp_path / "nowhere.anf")
    with pytest.raises(runtime.InvalidModelError, match="no compiled model"):
        runtime.load(MODEL)
    with pytest.raises(runtime.InvalidArgumentError, match="no input 'z'"):
        runtime.load(compiled)(z=np.ones((1, 4), np.float32))


def test_every_public_name_is_there() -> None:
    for name in anfora.__all__:
        assert getattr(anfora, name) is not None
    assert set(anfora.__all__) <= set(dir(anfora))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        anfora.nothing


def test_ctrl_c_ends_a_run_after_another_thread_began(tmp_path: pathlib.Path) -> None:
    """The first run, and the import before it, are of a thread that gets no signals."""
    endless = tmp_path / "endless.ir"
    endless.write_text(
        "graph @main(%x: i64[]) { return call @loop(%x) }\n"
        "graph @loop(%i) { return call Switch(Less(%i, 0), @done, @more)() }\n"
        "graph @more() in @loop { return call @loop(Add(%i, 1)) }\n"
        "graph @done() in @loop { return %i }\n"
    )
    told = run_apart(
        """
        import signal, sys, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def first():
            import anfora, numpy as np
            global run
            run = anfora.load(sys.argv[1]).compile()
            run(np.array(-1))

        thread = threading.Thread(target=first)
        thread.start()
        thread.join()
        timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
        timer.start()
        import numpy as np
        try:
            run(np.array(1))
        except KeyboardInterrupt:
            print("interrupted")
        """,
        endless,
    )
    assert told == "interrupted\n"
