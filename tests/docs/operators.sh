#!/usr/bin/env bash
# docs/ops.md is what the declarations say.
# usage: operators.sh ANFORA DOCUMENT
set -euo pipefail
if ! diff -u --label "$2" --label declarations "$2" <("$1" operators --markdown); then
  echo "Write it anew: $1 operators --markdown > $2" >&2
  exit 1
fi
