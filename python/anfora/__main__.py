"""The command `anfora`, which lies in the package."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "anfora"
    if not program.exists():
        sys.exit("anfora: the command is not part of this installation; `pip install .` in a clone brings it")
    os.execv(program, ["anfora", *sys.argv[1:]])


if __name__ == "__main__":
    main()
