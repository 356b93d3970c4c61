"""`hookline table`: the layer table in the shell."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence

from hookline.address import select
from hookline.cli.checks import Check, parse_checks
from hookline.cli.model_spec import aside
from hookline.cli.subject import Request
from hookline.errors import ModelRunError
from hookline.looking.layer_table import LayerTable, layer_table

# What a narrow terminal does without, the first one first.
_DISPENSABLE = ("mode", "dtype", "min", "max", "frozen", "nonfinite", "mean", "rms")


def table(request: Request, *, at: Sequence[str] | None, as_json: bool, as_csv: bool, fail_on: str | None) -> int:
    """Print the layer table; return the exit code."""
    checks = parse_checks(fail_on)
    model, said = request.load()
    wanted = None if not at else {target.path for target in select(model, list(at))}
    inputs = request.read(model)
    try:
        with aside():
            found = layer_table(model, *inputs.args, **inputs.kwargs)
    except ModelRunError as error:
        show_partial(error)
        raise
    if wanted is not None:
        found = found.only(wanted)
    if as_json:
        print(json.dumps(found.to_dict() | {"choices": [*said, *inputs.said]}, indent=2))
    elif as_csv:
        print(found.to_csv(), end="")
    else:
        print(*said, *inputs.said, sep="\n")
        print(fitted(found))
    return report_checks(checks, found)


def fitted(found: LayerTable) -> str:
    """Return the table as text, without the columns that the terminal has no room for; says which those are."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    columns = list(found.columns)
    dropped = []
    text = found.text()
    while width is not None and max(map(len, text.splitlines()[: len(found.rows) + 1])) > width:
        column = next((name for name in _DISPENSABLE if name in columns), None)
        if column is None:
            break
        columns.remove(column)
        dropped.append(column)
        text = found.text(columns=columns)
    return text + (f"\nleft out, too narrow: {', '.join(dropped)} (--csv has all)" if dropped else "")


def report_checks(checks: Sequence[Check], found: LayerTable) -> int:
    """Print what fails, to stderr, and return the exit code."""
    failures = [line for check in checks for line in check.failures(found)]
    for line in failures:
        print(line, file=sys.stderr)
    return 1 if failures else 0


def show_partial(error: ModelRunError) -> None:
    """Print the table up to where the model failed, to stderr."""
    if isinstance(error.table, LayerTable) and any(row.shape for row in error.table.rows):
        print(error.table.text(columns=("address", "type", "shape", "dtype")), file=sys.stderr)
