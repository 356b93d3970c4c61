"""One run of a model, observed: the layer table, and the tensors of the modules that were asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hookline.address import Address
from hookline.address.paths import places
from hookline.capturing.session import capture
from hookline.looking.layer_table import LayerRow, LayerTable, run, table_of
from hookline.looking.report.channel_flags import channel_flags
from hookline.looking.report.site import Site, sources_of
from hookline.looking.untouched import untouched
from hookline.looking.watch import Watch

# What is kept of a run in memory: past it the oldest values move to files.
_MEMORY = "4 GiB"


@dataclass(frozen=True)
class Observation:
    """What one run has shown.

    Attributes:
        table: the layer table.
        sites: the modules that were asked for and called, in execution order.
        output: what the model returned.
    """

    table: LayerTable
    sites: list[Site]
    output: Any


def observe(
    model: nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any], paths: Collection[str] | None = None
) -> Observation:
    """Run the model once, without gradients, and leave it as it was.

    Args:
        model: the model.
        inputs: its positional arguments.
        kwargs: its keyword arguments.
        paths: the modules whose tensors are kept; None for all.

    Raises:
        ModelRunError: the model failed; the error has the layer table up to there.
    """
    watch = Watch(model)
    with torch.no_grad(), untouched(model), watch.on():
        wanted = [
            place.module
            for place in places(model)
            if (place.paths[0] or ".") not in watch.refused and (paths is None or (place.paths[0] or ".") in paths)
        ]
        features = capture(model, wanted, budget=_MEMORY)
        try:
            output = run(watch, inputs, dict(kwargs))
        finally:
            features.remove()
    table = table_of(watch)
    rows: dict[str, list[LayerRow]] = {}
    for row in table.rows:
        rows.setdefault(row.path, []).append(row)
    sites = []
    for path, of_path in rows.items():
        address = str(Address().at("" if path == "." else path))
        if address in features:
            sources = sources_of(path, features.calls(address))
            flags = [channel_flags(source.tensor, watch.seen[path].module) for source in sources]
            sites.append(Site(path, of_path, sources, flags))
    return Observation(table, sites, output)
