"""`hookline look`: a report of one run, as a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hookline.address import select
from hookline.cli.checks import parse_checks
from hookline.cli.choices import Order
from hookline.cli.inputs import Inputs
from hookline.cli.model_spec import aside
from hookline.cli.output_file import output_file, writable_folder
from hookline.cli.png_files import save_pictures
from hookline.cli.subject import Request
from hookline.cli.table_command import report_checks, show_partial
from hookline.errors import CommandError, ModelRunError
from hookline.looking.report import Report
from hookline.looking.report import look as look_at
from hookline.looking.report.observation import observe

_SHOWN = 8


def look(
    request: Request,
    *,
    at: Sequence[str] | None,
    output: Path,
    png: Path | None,
    order: Order,
    item: int,
    labels: Path | None,
    size: str,
    fail_on: str | None,
    as_json: bool,
) -> int:
    """Write the report, and print what was found; return the exit code."""
    checks = parse_checks(fail_on)
    names = _labels(labels) if labels is not None else []
    folder = writable_folder(png) if png is not None else None
    with output_file(output) as file:
        model, said = request.load()
        inputs = request.read(model)
        report = looked_at(
            model,
            inputs,
            at=list(at) if at else None,
            choices=said,
            order=order.value,
            item=item,
            labels=names,
            size=size,
            title=request.model,
        )
        file.write(report.html)
    if as_json:
        print(json.dumps(_as_dict(report), indent=2))
    else:
        print(*report.choices, sep="\n")
        print_findings(report)
        print(written(report, output))
    if folder is not None:
        # The same numbers again: the run before left buffers and random numbers as they were.
        paths = {target.path for target in select(model, list(at))} if at else None
        with aside():
            seen = observe(model, inputs.args, inputs.kwargs, paths)
        number = save_pictures(folder, seen, item=item, order=order.value, tokens=inputs.tokens)
        print(f"pictures: {number} in {folder}", file=sys.stderr if as_json else sys.stdout)
    return report_checks(checks, report.table)


def looked_at(model: nn.Module, inputs: Inputs, *, choices: Sequence[str], **options: Any) -> Report:
    """Return the report of one run; when the model fails, print the layer table up to there."""
    try:
        with aside():
            return look_at(
                model,
                *inputs.args,
                kwargs=inputs.kwargs,
                photo=_photo(inputs.photos, options.get("item", 0)),
                tokens=inputs.tokens,
                choices=[*choices, *inputs.said],
                **options,
            )
    except ModelRunError as error:
        show_partial(error)
        raise


def print_findings(report: Report) -> None:
    """Print the first findings, and how many more there are."""
    found = report.findings
    print(f"{len(found)} findings" + (":" if found else ""))
    for finding in found[:_SHOWN]:
        print(f"  {finding}")
    if len(found) > _SHOWN:
        print(f"  and {len(found) - _SHOWN} more in the report")


def written(report: Report, output: Path) -> str:
    """Return the line that says where the report is."""
    return f"report: {output} ({len(report.html.encode()) / 1e6:.1f} MB), open it in a browser"


def _labels(file: Path) -> list[str]:
    """Return the names of the classes, one a line."""
    if not file.is_file():
        raise CommandError(f"there is no file {str(file)!r}.")
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise CommandError(f"{str(file)!r} is not UTF-8 text: byte {error.start}.") from error


def _photo(photos: Tensor | None, item: int) -> Tensor | None:
    if photos is None:
        return None
    if item >= len(photos):
        raise CommandError(f"--item {item}: there are {len(photos)} photos, from 0 to {len(photos) - 1}.")
    return photos[item]


def _as_dict(report: Report) -> dict[str, Any]:
    findings = [asdict(finding) for finding in report.findings]
    return report.table.to_dict() | {"findings": findings, "choices": list(report.choices)}
