"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hookline._version import __version__

_HELP = """\
usage: hookline [--version | --help]

Hooks for PyTorch models. This version has no commands yet: use it from Python, as the README shows.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 for a mistake in the arguments."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"hookline {__version__}")
        return 0
    if arguments in ([], ["--help"], ["-h"]):
        print(_HELP, end="")
        return 0
    print(f"hookline: no such command: {' '.join(arguments)}\n{_HELP}", end="", file=sys.stderr)
    return 2
