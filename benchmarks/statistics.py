"""What streaming statistics cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.measure import Row, ratio, timed
from benchmarks.models import efficientnet
from hookline.capturing import capture
from hookline.capturing.statistics import StatsAccumulator, stats

BUDGET = 3.0


def every_site() -> Iterator[Row]:
    bare, photo = efficientnet()
    by_hand, captured = efficientnet()[0], efficientnet()[0]
    gathered: dict[str, StatsAccumulator] = {}

    def update(path, _module, _args, output):
        if path not in gathered:
            gathered[path] = stats()
        gathered[path].update(output)

    for path, module in by_hand.named_modules():
        module.register_forward_hook(partial(update, path))

    def first_photo():
        gathered.clear()
        by_hand(photo)

    with torch.inference_mode():
        first_photo()
        sites = [path or "." for path in gathered]
        with capture(captured, *sites, reduce=stats):
            runs = {"bare": bare, "first": first_photo, "later": by_hand, "capture": captured}
            runs = {name: run if run is first_photo else partial(run, photo) for name, run in runs.items()}
            times = timed(runs, rounds=21)
    name = f"stats over {len(sites)} sites, per channel, {torch.get_num_threads()} thread(s)"
    yield ratio(f"{name}: PyTorch's hooks, first photo", times["first"], times["bare"], BUDGET, "bare forward")
    yield ratio(f"{name}: PyTorch's hooks, later photo", times["later"], times["bare"], BUDGET, "bare forward")
    yield ratio(f"{name}: capture, later photo", times["capture"], times["bare"], BUDGET, "bare forward")


def rows() -> Iterator[Row]:
    yield from every_site()
