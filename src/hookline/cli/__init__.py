"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hookline._version import __version__
from hookline.errors import HooklineError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0; 1 when a check that was asked for failed; 2 for a mistake in what the command was given.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"hookline {__version__}")
        return 0
    try:
        from hookline.cli.app import app  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        print("hookline: the command line needs typer and rich: pip install 'hookline[cli]'.", file=sys.stderr)
        return 2
    try:
        app(_joined(arguments), prog_name="hookline")
    except HooklineError as error:
        print(f"hookline: {error}", file=sys.stderr)
        return 2
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _joined(arguments: list[str]) -> list[str]:
    """Return the arguments with `look diff` as the one name of a command that it is."""
    return ["look diff", *arguments[2:]] if arguments[:2] == ["look", "diff"] else arguments
