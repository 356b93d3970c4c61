"""What putting one place's value from another run does to the outcome (causal tracing)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hookline.address import select
from hookline.capturing import capture
from hookline.editing.calling import called
from hookline.editing.operations import patch
from hookline.editing.session import edit
from hookline.errors import EditError, HookTypeError, MissingExtraError
from hookline.progress import tracked
from hookline.structure import structure_hash
from hookline.table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SiteEffect:
    """The outcome with one place patched.

    Attributes:
        site: the address.
        value: the metric of the corrupted run with the clean value at the site.
        effect: (value - corrupted) / (clean - corrupted): 0 for no effect, 1 for the clean outcome; NaN where the two
            outcomes are equal.
    """

    site: str
    value: float
    effect: float


@dataclass(frozen=True)
class TraceEffect(Sequence[SiteEffect]):
    """The effects, in the order of the sites; prints as a table.

    Attributes:
        clean, corrupted: the metric of the two runs without a patch.
        rows: one for each site.
        model: the hash of the model's structure.
    """

    clean: float
    corrupted: float
    rows: tuple[SiteEffect, ...]
    model: str = ""

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain Python."""
        return asdict(self)

    def save(self, path: str | Path) -> None:
        """Write the result to a JSON file, whole or not at all."""
        path = Path(path)
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(self.to_dict(), indent=2))
        os.replace(new, path)  # noqa: PTH105 - replaces on every platform, in one step

    @classmethod
    def load(cls, path: str | Path) -> TraceEffect:
        """Return the result that `save` wrote.

        Raises:
            EditError: the file is nothing of the kind.
        """
        try:
            data = json.loads(Path(path).read_text())
            rows = tuple(SiteEffect(**row) for row in data.pop("rows"))
            return cls(rows=rows, **data)
        except (ValueError, KeyError, TypeError) as error:
            raise EditError(f"{path} is no result of trace_effect ({type(error).__name__}: {error}).") from error

    def plot(self) -> Figure:
        """Return a matplotlib figure with one bar for each site.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("a plot needs matplotlib: pip install 'hookline[look]'.") from None
        figure = Figure(figsize=(7, 0.9 + 0.26 * len(self)), layout="constrained")
        axes = figure.subplots()
        axes.barh([row.site for row in self], [row.effect for row in self], height=0.7)
        axes.invert_yaxis()
        axes.axvline(0, color="0.4", linewidth=0.8)
        axes.axvline(1, color="0.4", linewidth=0.8, linestyle=":")
        axes.set_xlabel(
            f"effect: 0 is the corrupted outcome ({self.corrupted:.4g}), 1 the clean one ({self.clean:.4g})"
        )
        axes.spines[["top", "right"]].set_visible(False)
        return figure

    def __str__(self) -> str:
        rows = [(row.site, f"{row.value:.4g}", f"{row.effect:+.3f}") for row in self]
        return f"clean {self.clean:.4g}, corrupted {self.corrupted:.4g}\n" + aligned(("site", "value", "effect"), rows)

    __repr__ = __str__


def trace_effect(
    model: nn.Module,
    clean: Any,
    corrupted: Any,
    sites: Any,
    metric: Callable[[Any], Any],
    *,
    resume: str | Path | None = None,
    progress: bool | None = None,
) -> TraceEffect:
    """Patch the value of each site from the clean run into the corrupted run, and return what that does to the outcome.

    Known as causal tracing or activation patching. Source: Meng et al. 2022, "Locating and Editing Factual
    Associations in GPT", section 2.

    Args:
        model: run without autograd, in the mode that it is in.
        clean: the input whose values are put in: a tensor, a tuple of positional arguments, or a dict of keyword ones.
        corrupted: the input of the runs into which they are put, likewise.
        sites: an address, module, class, ..., or a list of these. Each place must give one tensor, of the same shape in
            both runs.
        metric: takes the model's output; returns a number, or a tensor of one.
        resume: a file that has the result so far after each site; sites that are in it already are not run again.
        progress: show a progress bar; None on a terminal only.

    Raises:
        NoMatchError, AddressError: a site names nothing, or is misspelt.
        NeverFiredError: a site was not called.
        EditError: a site's value has another shape in the two runs; the file is of another model or run.
    """
    if not callable(metric):
        raise HookTypeError(f"metric is a function of the model's output, got {type(metric).__name__}.")
    places = [str(target) for target in select(model, sites)]
    with torch.no_grad():
        with capture(model, *places, strict=True) as features:
            outcome = _number(metric, called(model, clean))
        worst = _number(metric, called(model, corrupted))
        result = _begun(resume, TraceEffect(outcome, worst, (), structure_hash(model)))
        known = {row.site for row in result}
        waiting = [place for place in places if place not in known]
        for place in tracked(waiting, "trace_effect", total=len(waiting), show=progress):
            with edit(model, place, patch(features)):
                value = _number(metric, called(model, corrupted))
            spread = outcome - worst
            effect = (value - worst) / spread if spread else float("nan")
            result = TraceEffect(outcome, worst, (*result.rows, SiteEffect(place, value, effect)), result.model)
            if resume is not None:
                result.save(resume)
    order = {place: number for number, place in enumerate(places)}
    rows = sorted((row for row in result if row.site in order), key=lambda row: order[row.site])
    return TraceEffect(outcome, worst, tuple(rows), result.model)


def _begun(resume: str | Path | None, new: TraceEffect) -> TraceEffect:
    """Return the result so far."""
    if resume is None or not Path(resume).exists():
        return new
    old = TraceEffect.load(resume)
    if old.model != new.model or (old.clean, old.corrupted) != (new.clean, new.corrupted):
        raise EditError(
            f"{resume} is the result of another model, input or metric: clean {old.clean:.6g} and corrupted "
            f"{old.corrupted:.6g} there, {new.clean:.6g} and {new.corrupted:.6g} here. Give another file, or remove it."
        )
    return old


def _number(metric: Callable[[Any], Any], output: Any) -> float:
    value = metric(output)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
        raise HookTypeError(f"metric returned a {type(value).__name__}{shape}, which is no number.") from None
