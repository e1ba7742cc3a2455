#!/usr/bin/env bash
# A document is what the declarations say.
# usage: generated.sh ANFORA COMMAND DOCUMENT      for example: generated.sh build/release/anfora operators docs/ops.md
set -euo pipefail
if ! diff -u --label "$3" --label declarations "$3" <("$1" "$2" --markdown); then
  echo "Write it anew: $1 $2 --markdown > $3" >&2
  exit 1
fi
