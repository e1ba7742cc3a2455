#!/usr/bin/env bash
# usage: symbols.sh LIBRARY [--bless]
# What libanfora.so exports is what symbols.txt lists: a line that goes or changes breaks programs that were linked against it.
# --bless writes the list anew. Inline functions, which programs have themselves, are left out.
set -euo pipefail
list=$(dirname "$0")/symbols.txt
exported() {
  nm -D --defined-only "$1" | cut -d' ' -f2- | grep -E '^[^Wu] _Z(T[ISV])?N?[KRO]*6anfora' | c++filt |
    sed 's/std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >/std::string/g' | LC_ALL=C sort -u
}
if [ "${2:-}" = --bless ]; then
  exported "$1" >"$list"
elif ! diff -u "$list" <(exported "$1"); then
  echo "these exported symbols changed; $0 $1 --bless accepts that"
  exit 1
fi
