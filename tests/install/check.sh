#!/usr/bin/env bash
# usage: check.sh BUILD SOURCE GENERATOR
# Installs to a new folder, moves it, and from there builds and runs examples/cpp with find_package(anfora); and so the component
# `runtime` alone, with examples/c and what of examples/cpp needs no compiler.
# The environment has no LD_LIBRARY_PATH: the libraries have to find each other by themselves.
set -euo pipefail
build=$1 source=$2 generator=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset LD_LIBRARY_PATH

# install_to NAME [argument of cmake --install…]
install_to() {
  local name=$1; shift
  cmake --install "$build" --prefix "$scratch/first" "$@" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
  mv "$scratch/first" "$scratch/$name"
  if grep -rlI "$build" "$scratch/$name"; then
    echo "these installed files name the build folder"
    exit 1
  fi
}

# build_example FOLDER INSTALLED BUILT
build_example() {
  cmake -S "$source/examples/$1" -B "$scratch/$3" -G "$generator" -DCMAKE_PREFIX_PATH="$scratch/$2" \
    -DCMAKE_BUILD_TYPE=Release >"$scratch/configure.log" || { cat "$scratch/configure.log"; exit 1; }
  cmake --build "$scratch/$3"
}

# expect TEXT COMMAND…
expect() {
  local expected=$1 output; shift
  output=$("$@")
  echo "$output"
  grep -qF "$expected" <<<"$output"
}

install_to moved
"$scratch/moved/bin/anfora" --version
build_example cpp moved example
expect 'output y: f32[1x3] 0.196758 0.311161 0.492081' "$scratch/example/example" "$source/examples/models/mlp.onnx"
expect 'output positive: 3 0 5 2' "$scratch/example/operators" "$source/examples/models/scaled_add.ir" "$scratch/scaled_add.anf"

# The libraries are of one version, or the loader says so.
version=$("$scratch/moved/bin/anfora" --version | sed -n 's/^anfora //p')
nm -D --undefined-only "$(find "$scratch/moved" -name libanfora.so)" >"$scratch/undefined"
if ! grep -qF "internals_of_${version//./_}" "$scratch/undefined"; then
  echo "libanfora.so takes a libanfora_runtime.so of another version"
  exit 1
fi

# Without the compiler.
(cd "$scratch" && moved/bin/anfora compile "$source/examples/models/mlp.onnx" -o mlp.anf)
install_to alone --component runtime
build_example c alone example_c
build_example cpp alone example_cpp
[ ! -e "$scratch/example_cpp/example" ]
expect 'output y: f32[N, 3] 0.196758 0.311161 0.492081' "$scratch/example_c/example" "$scratch/mlp.anf"
expect 'output y: f32[1x3] 0.196758 0.311161 0.492081' "$scratch/example_cpp/compiled" "$scratch/mlp.anf"
expect 'output positive: f32[1x4] 3 3 3 3' "$scratch/example_cpp/compiled" "$scratch/scaled_add.anf"
if "$scratch/example_c/example" "$source/examples/models/mlp.onnx" 2>"$scratch/error"; then exit 1; fi
grep -qF 'this is no compiled model' "$scratch/error"
libdir=$(dirname "$(find "$scratch/alone" -name libanfora_runtime.so)")
for file in "$scratch"/example_c/example "$scratch"/example_cpp/compiled "$libdir"/libanfora_runtime.so; do
  if ldd "$file" | grep -E 'LLVM|libanfora\.so'; then
    echo "$file needs the compiler"
    exit 1
  fi
done
if grep -q '^CMAKE_BUILD_TYPE:STRING=Release' "$build/CMakeCache.txt" && grep -q '^ANFORA_SANITIZE:STRING=$' "$build/CMakeCache.txt"; then
  strip -o "$scratch/small.so" "$libdir/libanfora_runtime.so"
  size=$(stat -c %s "$scratch/small.so")
  if [ "$size" -gt 4000000 ]; then
    echo "libanfora_runtime.so has $size bytes, without symbols: docs/performance.md promises 4 MB"
    exit 1
  fi
fi
if command -v pkg-config >/dev/null; then
  read -ra flags <<<"$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs anfora-runtime)"
  cc -std=c99 "$source/examples/c/main.c" -o "$scratch/by_pkg_config" "${flags[@]}" -Wl,-rpath,"$libdir"
  expect 'output y: f32[N, 3] 0.196758 0.311161 0.492081' "$scratch/by_pkg_config" "$scratch/mlp.anf"
fi
