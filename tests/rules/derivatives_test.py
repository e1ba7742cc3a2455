#!/usr/bin/env python3
"""Rules that are not tagged [kinks] keep derivatives, also where a subgradient is chosen: at ties of Max, at 0 of Relu.

usage: derivatives_test.py build/release/tests/rules/rule_pairs build/release/anfora [--only TEXT] [--verbose]

rule_pairs writes random instances of each rule, before and after. Both are differentiated as they are, by their inputs of floats, and
evaluated where arguments are small integers, so that they meet each other, 0 and the bounds of Clip. Needs the Python package.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import anfora

DRAWS = 12
TOLERANCE = {"f64": 1e-9, "f32": 1e-3, "f16": 5e-2}


def gradient_of(path):
    """An executable with the gradients behind the outputs, and how many outputs there are; None where there is no gradient."""
    model = anfora.load(path)
    outputs = len(model.outputs)
    try:
        differentiated = model.optimize(passes=["decompose", "differentiate"])
    except anfora.Error:
        return None
    return differentiated.compile(threads=1, optimize=False), outputs


def drawn(info, random):
    shape = [size if isinstance(size, int) else 2 for size in info.shape]
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(info.dtype)
    if dtype:
        return random.integers(-2, 3, shape).astype(dtype)
    if info.dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0, 2, shape).astype(np.dtype(info.dtype.replace("i", "int").replace("uint", "uint").replace("u8", "uint8")))


def difference(before, after, random):
    """What is different at some point, or nothing."""
    (one, outputs), (other, _) = before, after
    infos = {info.name: info for info in [*one.inputs, *other.inputs]}
    for _ in range(DRAWS):
        values = {name: drawn(info, random) for name, info in infos.items()}
        with np.errstate(all="ignore"):
            results = [executable.run([values[info.name] for info in executable.inputs])[outputs:] for executable in (one, other)]
        if len(results[0]) != len(results[1]):
            return f"{len(results[0])} gradients, and {len(results[1])}"
        for a, b in zip(*results):
            if not np.isfinite(a).all() or not np.isfinite(b).all():
                continue
            tolerance = TOLERANCE.get({"float64": "f64", "float32": "f32"}.get(str(a.dtype), "f16"))
            if not np.allclose(a, b, rtol=tolerance, atol=tolerance):
                return f"at {({k: v.ravel()[:6].tolist() for k, v in values.items()})}: {a.ravel()[:6].tolist()}, and {b.ravel()[:6].tolist()}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rule_pairs")
    parser.add_argument("anfora")
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    listed = json.loads(subprocess.run([options.anfora, "rules", "--json"], capture_output=True, text=True, check=True).stdout)
    random = np.random.default_rng(0)
    wrong, compared, without = [], set(), set()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.rule_pairs, folder, "--only", options.only], check=True, capture_output=True)
        for path in sorted(pathlib.Path(folder).glob("*.before.onnx")):
            rule = path.name.split(".")[0]
            try:
                pair = gradient_of(path), gradient_of(path.with_name(path.name.replace(".before.", ".after.")))
                if None in pair:
                    without.add(rule)
                    continue
                found = difference(*pair, random)
            except (anfora.Error, TypeError) as error:
                without.add(rule)
                if options.verbose:
                    print(f"{rule}: {error}")
                continue
            compared.add(rule)
            if found:
                wrong.append((rule, found))
    tagged = {rule["name"] for rule in (listed if isinstance(listed, list) else listed["rules"]) if rule.get("kinks")}
    failed = sorted({rule for rule, _ in wrong} - tagged)
    for rule, found in wrong:
        if rule in failed:
            print(f"{rule}: {found}")
    print(f"{len(compared)} rules compared, {len(without - compared)} without a gradient, {len(tagged)} tagged; {len(failed)} change a derivative")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
