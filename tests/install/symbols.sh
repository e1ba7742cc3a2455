#!/usr/bin/env bash
# usage: symbols.sh LIBRARY LIST [--bless]
# What a library exports is what LIST has: a line that goes or changes breaks programs that were linked against it.
# --bless writes the list anew. Inline functions, which programs have themselves, are left out, and so is what libanfora_runtime.so has
# for the other libraries of its version: that is protected.
set -euo pipefail
library=$1 list=$(dirname "$0")/$2
exported() {
  readelf --dyn-syms --wide "$1" | awk '$7 ~ /^[0-9]+$/ && $5 == "GLOBAL" && $6 == "DEFAULT" { print $4 == "FUNC" ? "T" : "D", $8 }' |
    grep -E '^. (_Z(T[ISV])?N?[KRO]*6anfora|anfora_)' | c++filt |
    sed 's/std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >/std::string/g' | LC_ALL=C sort -u
}
if [ "${3:-}" = --bless ]; then
  exported "$library" >"$list"
elif ! diff -u "$list" <(exported "$library"); then
  echo "these exported symbols changed; $0 $library $2 --bless accepts that"
  exit 1
fi
