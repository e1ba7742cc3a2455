"""The command `anfora`, which is part of the extension module."""

from __future__ import annotations

import sys

from anfora import _core


def main() -> None:
    sys.exit(_core.run_command_line(["anfora", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
