#!/usr/bin/env bash
# usage: empty_root.sh WHEEL MODEL [PYTHON]     (as root)
# Optimizes and runs a model in a root directory that has nothing but PYTHON, numpy, the wheel and the libraries that these name
# of the system: no shell, no /tmp, no /proc, no variable. PYTHON has numpy. Prints times and sizes.
set -euo pipefail
wheel=$1 model=$2 python=${3:-python3}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

read -r binary library site <<<"$("$python" -c '
import os, sys, sysconfig, numpy
print(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), os.path.dirname(os.path.dirname(numpy.__file__)))')"
mkdir -p "$root/packages" "$root$(dirname "$binary")" "$root$(dirname "$library")"
cp "$binary" "$root$binary"
cp -r "$library" "$root$(dirname "$library")"
rm -rf "$root$library"/{test,site-packages,idlelib,ensurepip}
cp -r "$site"/numpy "$site"/numpy.libs "$root/packages"
"$python" -m zipfile -e "$wheel" "$root/packages"
cp "$model" "$root/model.onnx"
# The libraries of the system that something names and that are not in the wheel.
{ echo "$binary"; find "$root" -name '*.so*' -type f; } | xargs ldd 2>/dev/null | grep -o '/[^ ]*\.so[^ ]*' | sort -u |
  while read -r file; do
    case $file in "$root"* | *:) continue ;; esac
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
  done
du -shc "$root"/packages/anfora* | tail -1 | cut -f1 | sed 's/^/the package, unpacked: /'
ls -sh "$wheel" | sed 's/ .*//; s/^/the wheel: /'

cat >"$root/program.py" <<'PROGRAM'
import time; begin = time.perf_counter()
import anfora; imported = time.perf_counter()
import numpy; began = time.perf_counter()
model = anfora.optimize("/model.onnx"); optimized = time.perf_counter()
run = model.compile(); compiled = time.perf_counter()
inputs = [numpy.ones([size if isinstance(size, int) else 1 for size in info.shape], info.dtype.replace("f32", "float32")
                     .replace("i64", "int64")) for info in run.inputs]
outputs = run.run(inputs); ran = time.perf_counter()
outputs = run.run(inputs); again = time.perf_counter()
model.save("/small.onnx")
print(*(f"{output.dtype}{list(output.shape)}" for output in outputs))
print(f"import {(imported - begin) * 1e3:.1f} ms (numpy {(began - imported) * 1e3:.1f} ms), optimize {optimized - began:.2f} s, "
      f"compile {compiled - optimized:.2f} s, first run {(ran - compiled) * 1e3:.1f} ms, second {(again - ran) * 1e3:.1f} ms")
PROGRAM
for _ in 1 2; do env -i PYTHONPATH=/packages "$(command -v chroot)" "$root" "$binary" /program.py; done
env -i PYTHONPATH=/packages "$(command -v chroot)" "$root" "$binary" -m anfora info /small.onnx
