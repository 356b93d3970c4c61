"""What edits cost, against hooks that are written by hand."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

import hookline
from benchmarks.measure import Row, added, ratio, timed
from benchmarks.models import transformer

BLOCKS = 12


def twelve() -> Row:
    """Compare the same arithmetic: a channel is put to 0 in the output of each block."""
    bare, x = transformer(width=12)
    theirs, _ = transformer(width=12)
    ours, _ = transformer(width=12)

    def ablate(module, args, output):
        output = output.clone()
        output[..., 7] = 0
        return output

    for block in theirs:
        block.register_forward_hook(ablate)
    hookline.edit(ours, {f"{block}": hookline.zero[..., 7] for block in range(BLOCKS)})
    with torch.no_grad():
        times = timed(
            {"bare": lambda: bare(x), "theirs": lambda: theirs(x), "ours": lambda: ours(x)}, rounds=61, seconds=0.03
        )
    name = "12 edits on a 12-block model"
    return added(name, times["ours"], times["theirs"], times["bare"], 1.0, "PyTorch hooks by hand")


def sixteen() -> Row:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(8))).eval()
    x = torch.randn(1, 64)
    plans = [{"3": hookline.zero[..., channel]} for channel in range(16)]

    def one_by_one() -> None:
        for plan in plans:
            with hookline.edit(model, plan):
                model(x)

    with torch.no_grad():
        times = timed({"one by one": one_by_one, "sweep": lambda: hookline.sweep(model, x, plans)})
    return ratio("a sweep of 16 ablations", times["sweep"], times["one by one"], 0.5, "16 runs")


def rows() -> Iterator[Row]:
    yield twelve()
    yield sixteen()
