#!/usr/bin/env bash
# DOCS/rules.md is what the rules say.
# usage: rules.sh [--write] ANFORA DOCS CHECKED
#   CHECKED   how each rule is checked, which rules_test --table writes
set -euo pipefail
write=false
if [ "$1" = --write ]; then write=true; shift; fi
document=$2/rules.md
generate() { "$1" rules --markdown --checks "$3" --fired "$2/rules-fired.tsv"; }
if $write; then
  generate "$@" > "$document.new"
  mv "$document.new" "$document"
elif ! diff -u --label "$document" --label rules "$document" <(generate "$@"); then
  echo "Write it anew: make docs" >&2
  exit 1
fi
