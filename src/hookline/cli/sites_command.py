"""`hookline sites`: the addresses of a model."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hookline.address import Selection, select
from hookline.cli.subject import Request
from hookline.table import aligned


@dataclass(frozen=True)
class Site:
    """One place that an address can name."""

    address: str
    type: str
    parameters: int
    also: tuple[str, ...]


def sites(request: Request, *, at: Sequence[str] | None, as_json: bool, as_csv: bool) -> int:
    """Print the addresses of a model's modules; return the exit code."""
    model, _ = request.load()
    selection = select(model, list(at)) if at else select(model, lambda _path, _module: True)
    found = [*_sites(selection)]
    if as_json:
        print(json.dumps([asdict(site) for site in found], indent=2))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(Site.__dataclass_fields__)
        writer.writerows([site.address, site.type, site.parameters, " ".join(site.also)] for site in found)
    else:
        rows = [(site.address, site.type, site.parameters, ", ".join(site.also)) for site in found]
        print(aligned(("address", "type", "parameters", "also"), rows))
    return 0


def _sites(selection: Selection) -> list[Site]:
    return [
        Site(
            str(target),
            type(target.module).__name__,
            sum(each.numel() for each in target.module.parameters(recurse=False)),
            target.paths[1:],
        )
        for target in selection
    ]
