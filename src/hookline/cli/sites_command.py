"""`hookline sites`: the addresses of a model."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import nn

from hookline.address import Selection, select
from hookline.cli.model_spec import aside
from hookline.cli.subject import Request
from hookline.errors import CommandError
from hookline.intercept.functional import FunctionInfo, FunctionList, functions
from hookline.looking.untouched import untouched
from hookline.table import aligned


@dataclass(frozen=True)
class Site:
    """One place that an address can name."""

    address: str
    type: str
    parameters: int
    also: tuple[str, ...]


def sites(
    request: Request, *, at: Sequence[str] | None, called: bool = False, as_json: bool = False, as_csv: bool = False
) -> int:
    """Print the addresses of a model's modules, or of the functions that they call; return the exit code."""
    model, _ = request.load()
    if called:
        return _functions(request, model, at=at, as_json=as_json, as_csv=as_csv)
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


def _functions(request: Request, model: nn.Module, *, at: Sequence[str] | None, as_json: bool, as_csv: bool) -> int:
    """Print the functions that the modules call in a run."""
    if not request.inputs:
        raise CommandError("--functions needs an --input: what a module calls is known when it runs.")
    inputs = request.read(model)
    paths = {target.path for target in select(model, list(at))} if at else None
    with torch.no_grad(), untouched(model), aside():
        listed = functions(model, *inputs.args, **inputs.kwargs)
    found = FunctionList(info for info in listed if paths is None or info.address.rpartition("/")[0] in paths)
    if as_json:
        print(json.dumps([asdict(info) for info in found], indent=2))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(FunctionInfo.__dataclass_fields__)
        writer.writerows(
            [info.address, info.function, " ".join(info.arguments), info.output, info.calls] for info in found
        )
    else:
        print(found)
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
