"""What capturing costs, beside the bare model and hooks that people write by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import hookline
from benchmarks.measure import Row, ratio, timed
from benchmarks.models import efficientnet, gpt2, transformer


def by_hand(model: nn.Module, keep: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, torch.Tensor]:
    """Hook every module with PyTorch's hooks; return what they fill."""
    kept: dict[str, torch.Tensor] = {}

    def hook(path):
        def run(_module, _args, output):
            kept[path] = keep(output) if torch.is_tensor(output) else output

        return run

    for path, module in model.named_modules():
        module.register_forward_hook(hook(path))
    return kept


def every_module(name: str, make: Callable[[], tuple[nn.Module, torch.Tensor]], budget: float) -> Iterator[Row]:
    (bare, x), (unsafe, _), (cloning, _), (ours, _) = make(), make(), make(), make()
    by_hand(unsafe, lambda value: value)
    by_hand(cloning, torch.clone)
    with torch.no_grad(), warnings.catch_warnings(action="ignore"), hookline.capture(ours, "**") as features:
        ours(x)
    called = list(features)
    with torch.no_grad(), hookline.capture(ours, called, keep="last"):
        runs = {"bare": bare, "unsafe": unsafe, "cloning": cloning, "ours": ours}
        times = timed({key: lambda model=model: model(x) for key, model in runs.items()}, rounds=31, seconds=0.1)
    name = f"capture of every module's output of {name}, {len(called)} modules"
    yield ratio(name, times["ours"], times["bare"], budget, "bare forward")
    yield ratio(name, times["ours"], times["unsafe"], 1.0, "PyTorch hooks that keep the reference, unsafe")
    yield ratio(name, times["ours"], times["cloning"], 0.8, "PyTorch hooks that clone")


def peak(run: Callable[[], object]) -> int:
    """Return the most bytes of tensors that the allocator held at once during the run, over those before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run()
    del result
    held = highest = 0
    changes = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(changes, key=lambda event: event.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    return highest


def memory() -> Row:
    """Compare with the values alone: what the run holds for a while is in the peak, and has to fit into the 5 %."""
    model, x = efficientnet()
    with torch.no_grad(), warnings.catch_warnings(action="ignore"), hookline.capture(model, "**") as features:
        highest = peak(lambda: model(x))
        values = [value for path in features for value in features.calls(path)]
    # Each memory once: a module that returns its input, or a child's output, adds a value and no bytes.
    captured = sum({torch._C._data_address(value): value.nbytes for value in values}.values())
    share = highest / captured
    return Row("peak memory of that capture", share, 1.05, (share, share), "the bytes of the captured values")


def one_shot() -> Row:
    model, x = transformer()
    with torch.no_grad():
        runs = {"whole": lambda: model(x), "ours": lambda: hookline.features(model, x, at="2")}
        times = timed(runs, rounds=31, seconds=0.05)
    return ratio("features(at= the third of 12 blocks)", times["ours"], times["whole"], 0.30, "the whole forward")


def compiled() -> Row:
    (bare, x), (ours, _) = transformer(), transformer()
    with torch.no_grad(), hookline.capture(ours, *(f"{block}" for block in (0, 3, 6, 9)), keep="last"):
        run_bare, run_ours = torch.compile(bare, fullgraph=True), torch.compile(ours, fullgraph=True)
        times = timed({"bare": lambda: run_bare(x), "ours": lambda: run_ours(x)}, rounds=31, seconds=0.05)
    return ratio("compiled (inductor, fullgraph), 4 sites", times["ours"], times["bare"], 1.10, "compiled bare")


def rows() -> Iterator[Row]:
    yield from every_module("EfficientNet-Lite0", efficientnet, 1.03)
    yield memory()
    yield from every_module("a GPT-2 shape, 32 tokens,", gpt2, 1.10)
    yield one_shot()
    yield compiled()
