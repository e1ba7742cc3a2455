#!/usr/bin/env python3
"""Hold what inference says of whole models against the values: see check_inference.cc.

usage: check.py CHECK_INFERENCE SUITE     the conformance suite
       check.py CHECK_INFERENCE           the models of ANFORA_MODELS that have stored inputs; 77 without them

Prints one line a model whose types, dimensions or tracked elements disagree with the values, and exits with status 1
when there is one.
"""
import csv
import os
import pathlib
import subprocess
import sys

DEFAULT_MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/models"
SKIPPED = 77


def suite_cases(suite):
    for folder in sorted(suite.iterdir()):
        if (folder / "test_data_set_0").is_dir():
            yield folder / "model.onnx", folder / "test_data_set_0"


def stored_models(root):
    for inputs in sorted((root / "small").glob("*.in*.npz")):
        yield inputs.with_name(inputs.name.split(".in")[0] + ".onnx"), inputs
    with open(root / "public/MANIFEST.tsv", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["ref_saved"] == "yes":
                model = root / "public" / row["file"]
                yield model, model.with_suffix(".npz")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if len(sys.argv) == 3:
        models = list(suite_cases(pathlib.Path(sys.argv[2])))
    else:
        root = pathlib.Path(os.environ.get("ANFORA_MODELS") or DEFAULT_MODELS)
        if not (root / "small").is_dir():
            print(f"no models in {root}: skipped; ANFORA_MODELS names the folder")
            sys.exit(SKIPPED)
        models = list(stored_models(root))
    lines = "".join(f"{model}\t{inputs}\n" for model, inputs in models)
    done = subprocess.run([sys.argv[1]], input=lines, text=True, stdout=subprocess.PIPE)
    answers = done.stdout.splitlines()
    counts = {"ok": 0, "skipped": 0, "wrong": 0}
    for (model, _), answer in zip(models, answers):
        counts[answer.split(" ", 1)[0]] += 1
        if answer.startswith("wrong"):
            print(f"{model}: {answer.removeprefix('wrong ')}")
    if len(answers) < len(models):
        print(f"{models[len(answers)][0]}: the check ended here with status {done.returncode}")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    sys.exit(1 if counts["wrong"] or len(answers) < len(models) else 0)


if __name__ == "__main__":
    main()
