#!/usr/bin/env python3
"""Run what fuzz_optimizer wrote in ONNX Runtime: the optimized models compute what the originals do there too.

usage: onnxruntime_check.py FOLDER [--list]

FOLDER is that of `fuzz_optimizer --write`: NAME.before.onnx, NAME.after.onnx and NAME.npz with the inputs (in:x0), the results in
Anfora's reference kernels (out:y0) and their noise (noise:y0), that is by how much rounding alone moves them (noise.h). Both models
are run without ONNX Runtime's own optimizations. Counted and told, but no failure:

  - models that ONNX Runtime refuses as they are, by reason (no kernel for the type, mostly);
  - results equal only within their noise;
  - "otherwise": before and after differ, but it is the original that ONNX Runtime computes otherwise than the reference kernels do:
    constant folding then computes with our kernels what would have been computed with its. Each is listed.

A failure is a result that differs beyond its type's tolerance and its noise, or an optimized model that is refused where the
original runs, unless the reason is in KNOWN. Exits with 1 when there is one, 77 without onnxruntime.
"""
import argparse
import collections
import multiprocessing
import pathlib
import re
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"{missing}: skipped")
    sys.exit(77)

TOLERANCE = {np.dtype(np.float64): (1e-4, 1e-5), np.dtype(np.float32): (1e-4, 1e-5), np.dtype(np.float16): (1e-2, 1e-2)}
FACTOR = 3  # of noise, as in noise.cc
# Why an optimized model may be refused, or differ, though it is right: part of the message, and the reason.
KNOWN = [
    ("right operand cannot broadcast on dim", "MatMul of a matrix and an empty batch of them"),
    ("left operand cannot broadcast on dim", "the same the other way round"),
    ("Size of X.shape[axis:] must be at least 1", "LayerNormalization of rows of nothing"),
    ("Integer division by zero", "a divisor with zeros in it, of which an empty quotient takes none"),
    ("Integer modulo by zero", "the same of a remainder"),
]


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, feeds):
    """The results by name, or the error in one line."""
    try:
        session = session_of(path)
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds))), None
    except Exception as error:  # pylint: disable=broad-except
        return None, " ".join(str(error).split())


def difference(got, want, noise):
    """What differs, and whether it does within the noise."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return "a sequence of another length", False
        return next((d for d in (difference(g, w, None) for g, w in zip(got, want)) if d[0]), ("", True))
    if not isinstance(want, np.ndarray):
        return ("", True) if got == want else (f"{got} instead of {want}", False)
    undecided = noise is not None and noise.size == 0 or noise is not None and np.isinf(noise).all()
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}", undecided
    if want.dtype.kind not in "f":
        wrong = got != want
        allowed = noise is not None and noise.shape == want.shape and not (wrong & (noise == 0)).any()
        return ("", True) if not wrong.any() else (f"{got[wrong][0]} instead of {want[wrong][0]}", allowed)
    finite = np.isfinite(want)
    if not finite.any():
        return "", True
    relative, absolute = TOLERANCE[want.dtype]
    with np.errstate(all="ignore"):
        distance = np.abs(got.astype(np.float64) - want.astype(np.float64))
        allowed = absolute + relative * np.abs(want[finite].astype(np.float64)).max()
        wrong = finite & ~(distance <= allowed)
        if not wrong.any():
            return "", True
        text = f"{got[wrong][0]} instead of {want[wrong][0]}"
        if noise is None or noise.shape != want.shape:
            return text, False
        return text, not (wrong & ~np.isinf(noise) & ~(distance <= allowed + FACTOR * noise)).any()


def reason_of(error):
    """A refusal without what is particular to the model."""
    for pattern in (r"Could not find an implementation for (\w+)", r"Type '.*' of input parameter \(.*\) of operator \((\w+)\)"):
        found = re.search(pattern, error)
        if found:
            return f"no kernel of {found.group(1)} for the type"
    error = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|/\S+|-?\d[\d.,e+-]*", "…", error)
    return error[:110]


def reference_of(stored, output):
    """What the reference kernels give; a list for a sequence; None where it is not stored."""
    if f"out:{output}" in stored.files:
        return stored[f"out:{output}"]
    items = sorted((int(key.split(":")[2]), key) for key in stored.files if key.startswith(f"out:{output}:"))
    return [stored[key] for _, key in items] or None


def check(folder, name, stage):
    """(outcome, reason) of one pair; `stage` is told which model is next."""
    stored = np.load(folder / f"{name}.npz", allow_pickle=True)
    feeds = {key[3:]: stored[key] for key in stored.files if key.startswith("in:")}
    if any(value.dtype.kind == "V" for value in feeds.values()):
        return "not run", "an input of a type that NumPy lacks"
    stage("before")
    want, error = run(folder / f"{name}.before.onnx", feeds)
    if error:
        return "not run", reason_of(error)
    stage("after")
    got, error = run(folder / f"{name}.after.onnx", feeds)
    if error:
        known = next((why for part, why in KNOWN if part in error), None)
        return "known" if known else "refused", known or error[:300]
    outcome = ("same", "")
    for output, value in want.items():
        noise = stored[f"noise:{output}"] if f"noise:{output}" in stored.files else None
        text, within = difference(got[output], value, noise)
        if text and not within:
            reference = reference_of(stored, output)
            otherwise = reference is not None and difference(value, reference, noise)[0]
            return "otherwise" if otherwise else "different", f"{output}: {text}"
        if text:
            outcome = ("noise", text)
    return outcome


def work(folder, pipe):
    """Checks the models whose names come through the pipe."""
    onnxruntime.set_default_logger_severity(4)
    while name := pipe.recv():
        pipe.send(check(folder, name, pipe.send))


def check_all(folder, names):
    """A process of its own does it, and another one goes on where a model crashes it."""
    pipe = process = None
    for name in names:
        if not process or not process.is_alive():
            pipe, other = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, args=(folder, other), daemon=True)
            process.start()
            other.close()
        pipe.send(name)
        stage = ""
        try:
            while isinstance(answer := pipe.recv(), str):
                stage = answer
        except EOFError:
            process.join()
            answer = ("not run" if stage == "before" else "refused", "ONNX Runtime crashes")
        yield name, *answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="also list what was not run")
    options = parser.parse_args()
    names = sorted(path.name[:-len(".before.onnx")] for path in options.folder.glob("*.before.onnx"))
    results = list(check_all(options.folder, names))
    counts = collections.Counter(outcome for _, outcome, _ in results)
    for name, outcome, reason in results:
        if outcome in ("refused", "different", "otherwise") or (options.list and outcome in ("not run", "known")):
            print(f"{outcome}: {name}: {reason}")
    for outcome in ("not run", "known"):
        reasons = collections.Counter(reason for _, o, reason in results if o == outcome)
        for reason, count in reasons.most_common(40):
            print(f"{outcome}: {count:5} {reason}")
    print(f"onnxruntime {onnxruntime.__version__}: {len(names)} models: {counts['same']} the same, {counts['noise']} within the "
          f"noise of rounding, {counts['otherwise']} otherwise, {counts['known']} known, {counts['not run']} not run; "
          f"{counts['refused']} refused, "
          f"{counts['different']} different")
    sys.exit(1 if counts["refused"] or counts["different"] or not names else 0)


if __name__ == "__main__":
    main()
