"""Capture the same with each package and print the table: `python -m benchmarks.peers`."""

from __future__ import annotations

import logging
import sys
import warnings

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.peers.compare import compare


def main() -> int:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    table = Table("package", "version", "time of bare", "time of hookline's", "value true", "output unchanged", "error")
    with warnings.catch_warnings(action="ignore"):
        for result in compare():
            table.add_row(*result.cells())
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
