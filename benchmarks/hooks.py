"""What groups of hooks and addresses cost."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator

import torch
from torch import nn

import hookline
from benchmarks.engine import THEIRS, post
from benchmarks.measure import Row, added, timed
from benchmarks.models import Pass
from hookline.address.match import matcher


def read_output(call) -> None:
    call.output  # noqa: B018 - what is measured


def after() -> Row:
    bare, theirs, ours, x = Pass(), Pass(), Pass(), torch.zeros(1)
    theirs.register_forward_hook(post)
    hookline.Hooks(ours).after(".", read_output)
    times = timed({"bare": lambda: bare(x), "theirs": lambda: theirs(x), "ours": lambda: ours(x)}, rounds=41)
    return added("Hooks.after that reads call.output", times["ours"], times["theirs"], times["bare"], 0.8, THEIRS)


def other_scope() -> Row:
    bare, theirs, ours, x = Pass(), Pass(), Pass(), torch.zeros(1)
    theirs.register_forward_hook(post)
    thread = threading.Thread(target=lambda: hookline.Hooks(ours, scope="context").after(".", read_output))
    thread.start()
    thread.join()
    times = timed({"bare": lambda: bare(x), "theirs": lambda: theirs(x), "ours": lambda: ours(x)}, rounds=41)
    return added("a context-scoped hook of another thread", times["ours"], times["theirs"], times["bare"], 0.4, THEIRS)


def disabled() -> Row:
    bare, ours, x = Pass(), Pass(), torch.zeros(1)
    hooks = hookline.Hooks(ours)
    hooks.after(".", read_output)
    hooks.disable()
    same = type(ours) is Pass and vars(ours).keys() == vars(bare).keys()
    times = timed({"bare": lambda: bare(x), "ours": lambda: ours(x)})
    spread = sorted(a / b for a, b in zip(times["ours"], times["bare"], strict=True))
    name = f"a disabled group: module as if unhooked: {same}"
    return Row(name, 1.0 if same else float("inf"), 1.0, (spread[6], spread[18]), "unhooked")


def matching() -> Row:
    paths = [f"layers.{i}.block.{j}.conv" for i in range(1000) for j in range(100)]
    seconds = []
    for pattern in ("layers.*.block.?.conv", "**.conv", "layers.1*.**", "**.block.**.conv"):
        begun = time.perf_counter()
        sum(map(bool, map(matcher(pattern), paths)))
        seconds.append(time.perf_counter() - begun)
    return Row("matching a glob on 100,000 paths, seconds", max(seconds), 0.3, (min(seconds), max(seconds)), "a second")


def selecting() -> Row:
    """Select in a model of 100,000 modules; like all else here without the garbage collector, which may double it."""
    model = nn.ModuleList(nn.ModuleList(nn.Identity() for _ in range(100)) for _ in range(1000))
    seconds = timed({"select": lambda: hookline.select(model, "*.5")}, rounds=9)["select"]
    low, middle, high = statistics.quantiles(seconds, n=4)
    return Row("selecting by a glob among 100,000 modules, seconds", middle, 0.3, (low, high), "a second")


def rows() -> Iterator[Row]:
    yield after()
    yield other_scope()
    yield disabled()
    yield matching()
    yield selecting()
