"""The gradient of each operator against finite differences.

operators_test.py ANFORA: for each case of *.txt, also with sizes that are known when it runs only, the derivative along a random
direction is that of central differences, of the gradient and of the gradient's gradient.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

STEP, TOLERANCE = 1e-5, 2e-6
COARSE = 2e-3, 1e-2  # where something is computed in f32


def anfora(*arguments):
    done = subprocess.run([ANFORA, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def run(model, inputs, folder):
    np.savez(folder / "in.npz", **inputs)
    anfora("run", model, "--input", folder / "in.npz", "--output", folder / "out.npz", "--math", "exact")
    return dict(np.load(folder / "out.npz"))


def difference(model, inputs, direction, output, folder, step):
    """Of the sum of an output, along the direction."""
    moved = [run(model, {k: np.asarray(v + s * direction[k]) for k, v in inputs.items()}, folder)[output].sum() for s in (step, -step)]
    return (moved[0] - moved[1]) / (2 * step)


def check(model, inputs, output, folder, random, suffix=".grad", accuracy=(STEP, TOLERANCE)):
    """The gradients of an output; what is wrong, or nothing."""
    made = folder / f"{output}-gradients.ir"
    anfora("grad", model, "--of", output, "-o", made)
    found = run(made, inputs, folder)
    wrong = []
    step, tolerance = accuracy
    # What is differentiated may be what an operator means, which is compared here, and computes in all digits where a kernel does not.
    value = run(model, inputs, folder)[output]
    if not np.allclose(found[output], value, rtol=1e-5, atol=1e-5):
        wrong.append(f"{output} is {found[output]} instead of {value}")
    for name in inputs:
        if not np.issubdtype(inputs[name].dtype, np.floating):
            continue
        gradient = found[name + suffix]
        if gradient.shape != inputs[name].shape:
            wrong.append(f"{name}{suffix} has the shape {gradient.shape}")
            continue
        direction = {k: np.zeros_like(v) for k, v in inputs.items()}
        direction[name] = random.uniform(-1, 1, gradient.shape)
        expected, got = difference(made, inputs, direction, output, folder, step), float((gradient * direction[name]).sum())
        if not abs(got - expected) <= tolerance * max(1, abs(expected)):
            wrong.append(f"d {output} / d {name} is {got} instead of {expected}")
    return made, wrong


def text_of(parameters, expression, sizes):
    declared = ", ".join(f"{name}: f64[{', '.join(sizes(n) for n in shape)}]" for name, shape, _ in parameters)
    call, dot, index = expression.rpartition("[") if re.search(r"\)\{?[^(]*\}?\[\d+\]$|\)\[\d+\]$", expression) else (expression, "", "")
    value = f"  %t = {call or expression}\n  %r = %t[{index}\n" if dot else f"  %r = {expression}\n"
    return f'module {{ outputs = ["loss"] }}\ngraph @main({declared}) {{\n{value}  return ReduceSum(Sin(Add(Mul(%r, f64[] 1.7), f64[] 0.3))){{keepdims=0}}\n}}\n'


def cases():
    for line in [line for file in sorted(Path(__file__).parent.glob("*.txt")) for line in file.read_text().splitlines()]:
        if not line or line.startswith("#"):
            continue
        left, expression = line.split(" | ")
        parameters = []
        for name, sizes, low, high in re.findall(r"(%\w+): f64\[([\d, ]*)\](?: in (-?[\d.]+?)\.\.(-?[\d.]+))?", left):
            parameters.append((name, [int(n) for n in sizes.split(",") if n.strip()], (float(low or -1), float(high or 1))))
        yield expression, parameters


def main():
    random = np.random.default_rng(1)
    failed = count = 0
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for expression, parameters in cases():
            if not expression.startswith(only):
                continue
            inputs = {p[1:]: np.asarray(random.uniform(*bounds, shape)) for p, shape, bounds in parameters}
            for kind, sizes in (("", str), (" of any sizes", lambda n: str(n) if n == 1 else f"D{n}")):
                count += 1
                model = folder / "case.ir"
                accuracy = COARSE if "{to=1}" in expression or "ai.onnx.ml" in expression else (STEP, TOLERANCE)
                model.write_text(text_of(parameters, expression, sizes))
                try:
                    made, wrong = check(model, inputs, "loss", folder, random, accuracy=accuracy)
                    if not wrong and not kind:
                        wrong = check(made, inputs, f"{parameters[0][0][1:]}.grad", folder, random, ".grad.grad", accuracy)[1]
                except RuntimeError as error:
                    wrong = [str(error)]
                failed += bool(wrong)
                for text in wrong:
                    print(f"{expression}{kind}: {text}")
    print(f"{count} cases, {failed} failed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    ANFORA = sys.argv[1]
    sys.exit(main())
