"""Run the benchmarks: `python -m benchmarks [NAME ...] [--json FILE] [--strict]`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

NAMES = ("engine", "hooks", "gradient", "functions", "capture", "statistics", "editing", "freezing", "look")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all, if none is given")
    parser.add_argument("--json", metavar="FILE", help="write the rows there, too")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a budget is missed")
    arguments = parser.parse_args(argv)
    # Not choices=: with nargs="*" argparse holds the empty list against them.
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    arguments.names = arguments.names or list(NAMES)
    return arguments


def main() -> int:
    arguments = parse()
    torch.set_num_threads(1)
    rows = []
    for name in arguments.names:
        table = Table("measured", "ratio", "quartiles", "budget", "", "of", title=name)
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            rows.append(row)
            low, high = row.spread
            verdict = "met" if row.met else "MISSED"
            table.add_row(
                row.name, f"{row.ratio:.3f}", f"{low:.3f} to {high:.3f}", f"{row.budget:.2f}", verdict, row.of
            )
        Console(width=160).print(table)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=2))
    return int(arguments.strict and not all(row.met for row in rows))


if __name__ == "__main__":
    sys.exit(main())
