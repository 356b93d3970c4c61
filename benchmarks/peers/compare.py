"""The same capture by every adapter: time beside the bare forward, truth beside a deep copy taken at the site."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

import torch

from benchmarks.measure import timed
from benchmarks.peers.adapters import ADAPTERS, Adapter, Run
from benchmarks.peers.network import network, sites


@dataclass(frozen=True)
class Result:
    """What one package did.

    Attributes:
        name: the package.
        version: of it; empty, if it is not installed.
        of_bare: its time over that of the bare forward, or None where it raised.
        of_ours: its time over hookline's, likewise.
        true: how many values were still true after the run, of how many.
        unchanged: whether the model returned bit for bit what it returns alone; None, if the model was not called.
        error: what it raised, in short.
    """

    name: str
    version: str
    of_bare: float | None = None
    of_ours: float | None = None
    true: tuple[int, int] | None = None
    unchanged: bool | None = None
    error: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the texts of its row of the table."""
        times = [f"{ratio:.2f}" if ratio is not None else "" for ratio in (self.of_bare, self.of_ours)]
        true = f"{self.true[0]} of {self.true[1]}" if self.true else ""
        unchanged = "" if self.unchanged is None else "yes" if self.unchanged else "NO"
        return (self.name, self.version, *times, true, unchanged, self.error)


def compare(adapters: Sequence[Adapter] = ADAPTERS, *, rounds: int = 21, seconds: float = 0.1) -> list[Result]:
    """Return a result for each adapter; those that work are timed in turn, in one run.

    The first one that works is the one that `of_ours` divides by.
    """
    with torch.no_grad():
        checked = [_check(adapter) for adapter in adapters]
        bare, x = network()
        runs = {result.name: lambda run=run: run(x) for result, run in checked if run is not None}
        times = timed({"bare": lambda: bare(x), **runs}, rounds=rounds, seconds=seconds)
    ours = times[next(iter(runs))] if runs else []
    results = []
    for result, run in checked:
        if run is None:
            results.append(result)
            continue
        its = times[result.name]
        of_bare, of_ours = _median(its, times["bare"]), _median(its, ours)
        results.append(Result(result.name, result.version, of_bare, of_ours, result.true, result.unchanged))
    return results


def _check(adapter: Adapter) -> tuple[Result, Run | None]:
    """Return what the adapter got right, with the run that is to be timed."""
    version = ""
    try:
        version = metadata.version(adapter.package)
        model, x = network()
        paths = sites(model)
        outputs: list[torch.Tensor] = []
        run = adapter.prepare(model, paths)
        handle = model.register_forward_hook(lambda _module, _args, output: outputs.append(output.detach().clone()))
        values = dict(run(x))
        handle.remove()
        copies, output = _copies(paths)
        same = [path in values and torch.equal(values[path], copies[path]) for path in paths]
    except metadata.PackageNotFoundError:
        return Result(adapter.name, "", error="not installed"), None
    except Exception as error:
        text = (str(error).strip().splitlines() or [""])[-1]
        return Result(adapter.name, version, error=f"{type(error).__name__}: {text}"[:80]), None
    unchanged = torch.equal(outputs[-1], output) if outputs else None
    return Result(adapter.name, version, true=(sum(same), len(same)), unchanged=unchanged), run


def _copies(paths: Sequence[str]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return deep copies taken when each module returned, and the output of the model."""
    (model, x), copies = network(), {}
    for path in paths:
        model.get_submodule(path).register_forward_hook(
            lambda _module, _args, output, path=path: copies.update({path: output.clone()})
        )
    output = model(x)
    return copies, output


def _median(over: list[float], under: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(over, under, strict=True))
