"""Time alternatives in turn, in one run, so that a change of the machine's speed meets them all alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One measured ratio beside its budget.

    Attributes:
        name: what was measured.
        ratio: the median over the rounds.
        budget: what it is to be at most.
        spread: the quartiles over the rounds.
        of: what the ratio is of.
    """

    name: str
    ratio: float
    budget: float
    spread: tuple[float, float]
    of: str

    @property
    def met(self) -> bool:
        return self.ratio <= self.budget


def timed(runs: dict[str, Run], *, rounds: int = 25, seconds: float = 0.01) -> dict[str, list[float]]:
    """Return for each run its seconds a call in each round; each is repeated for some `seconds` a round."""
    counts = {name: _repeats(run, seconds) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in runs.items():
                times[name].append(_seconds(run, counts[name]))
            gc.collect()
    finally:
        gc.enable()
    return times


def ratio(name: str, over: list[float], under: list[float], budget: float, of: str) -> Row:
    """Return the row of the ratio of two series, pair by pair."""
    return _row(name, [a / b for a, b in zip(over, under, strict=True)], budget, of)


def added(name: str, ours: list[float], theirs: list[float], bare: list[float], budget: float, of: str) -> Row:
    """Return the row of what ours adds to the bare time, over what theirs adds."""
    return _row(name, [(a - c) / (b - c) for a, b, c in zip(ours, theirs, bare, strict=True)], budget, of)


def _row(name: str, ratios: list[float], budget: float, of: str) -> Row:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Row(name, middle, budget, (low, high), of)


def _repeats(run: Run, seconds: float) -> int:
    run()
    count = 1
    while (took := _seconds(run, count) * count) < seconds / 2:
        count = max(2 * count, int(count * seconds / 2 / max(took, 1e-9)))
    return max(1, round(count * seconds / took))


def _seconds(run: Run, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begun) / count
