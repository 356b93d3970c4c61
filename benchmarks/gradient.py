"""What hooks on gradients cost."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import torch
from torch import nn

import hookline
from benchmarks.measure import Row, added, timed
from benchmarks.models import transformer

THEIRS = "PyTorch's full backward hooks"
WIDTH = 48  # small: what is measured is what the hooks add


def step(put_on: Callable[[nn.Module], object]) -> Callable[[], None]:
    """Return a forward and backward pass of a model with those hooks on each of its modules."""
    model, x = transformer(width=WIDTH)
    x.requires_grad_()
    for module in model.modules():
        put_on(module)

    def run() -> None:
        model(x).sum().backward()

    return run


def nothing(module, *gradients) -> None: ...


def hooks() -> Iterator[Row]:
    runs = {
        "bare": step(lambda module: None),
        "theirs": step(lambda module: module.register_full_backward_hook(nothing)),
        "full": step(lambda module: hookline.register_full_backward_hook(module, nothing)),
        "pre": step(lambda module: hookline.register_full_backward_pre_hook(module, nothing)),
        "group": step(lambda module: hookline.Hooks(module).gradient(".", lambda call: None)),
    }
    times = timed(runs, rounds=31, seconds=0.05)
    for name, run, budget in (
        ("full backward hook on each module of 12 blocks", "full", 0.7),
        ("full backward pre hook on each", "pre", 0.35),
        ("Hooks.gradient on each output", "group", 0.35),
    ):
        yield added(name, times[run], times["theirs"], times["bare"], budget, THEIRS)


def live_bytes() -> int:
    return sum(
        tensor.untyped_storage().nbytes() for tensor in gc.get_objects() if type(tensor) in (torch.Tensor, nn.Parameter)
    )


def memory() -> Row:
    model, x = transformer(width=WIDTH)
    for module in model.modules():
        hookline.register_full_backward_hook(module, nothing)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    after: list[int] = []
    for count in range(101):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        if count in (0, 100):
            gc.collect()
            after.append(live_bytes())
    growth = after[1] / after[0]
    return Row("bytes of tensors after 100 training steps", growth, 1.0, (growth, growth), "those after 1 step")


def rows() -> Iterator[Row]:
    yield from hooks()
    yield memory()
