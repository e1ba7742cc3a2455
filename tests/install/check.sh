#!/usr/bin/env bash
# usage: check.sh BUILD SOURCE GENERATOR
# Installs to a new folder, moves it, and from there builds and runs examples/cpp with find_package(anfora).
# The environment has no LD_LIBRARY_PATH: the libraries have to find each other by themselves.
set -euo pipefail
build=$1 source=$2 generator=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset LD_LIBRARY_PATH

cmake --install "$build" --prefix "$scratch/first" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
mv "$scratch/first" "$scratch/moved"
if grep -rlI "$build" "$scratch/moved"; then
  echo "these installed files name the build folder"
  exit 1
fi

"$scratch/moved/bin/anfora" --version
cmake -S "$source/examples/cpp" -B "$scratch/example" -G "$generator" -DCMAKE_PREFIX_PATH="$scratch/moved" \
  -DCMAKE_BUILD_TYPE=Release >"$scratch/configure.log" || { cat "$scratch/configure.log"; exit 1; }
cmake --build "$scratch/example"
output=$("$scratch/example/example" "$source/examples/models/mlp.onnx")
echo "$output"
grep -qF 'output y: f32[1x3] 0.196758 0.311161 0.492081' <<<"$output"
output=$("$scratch/example/operators" "$source/examples/models/scaled_add.ir")
grep -qF 'output positive: 3 0 5 2' <<<"$output"
