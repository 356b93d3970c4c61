"""Charts: histograms, and statistics over depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hookline.errors import CallsError
from hookline.looking.figures.sheet import Sheet, Theme
from hookline.looking.layer_table import number
from hookline.looking.report.histogram import BINS, histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def distribution(value: Tensor, title: str, said: list[str], *, theme: Theme) -> Figure:
    """Return a histogram: exact zeros have a bar of their own, what is not finite is counted beside."""
    found = histogram(value)
    if found is None:
        raise CallsError(f"{title}: there are no real values to count.")
    said = [*said, f"{value.numel()} values in {BINS} equal bins between the smallest and the largest finite one"]
    said.append(f"exact zeros: {found['zeros']} ({found['zeros'] / value.numel():.1%}), the bar on the left")
    said.append(f"not finite: {found['nan']} NaN, {found['positive_infinity']} +inf, {found['negative_infinity']} -inf")
    sheet = Sheet(640, 260, title, said, theme, bar=False)
    zeros = sheet.axes(50, 0, 36, 230)
    bins = sheet.axes(110, 0, 520, 230)
    top = max([found["zeros"], *found["counts"], 1]) * 1.05
    zeros.bar([0], [found["zeros"]], color=sheet.muted, width=0.8)
    zeros.set_xticks([0], ["= 0"])
    zeros.set_xlim(-0.6, 0.6)
    if found["counts"]:
        edges = torch.linspace(found["low"], found["high"], BINS + 1).tolist()
        width = (edges[1] - edges[0]) or 1.0
        bins.bar([edge + width / 2 for edge in edges[:-1]], found["counts"], width=width * 0.92, color=sheet.accent)
    for axes in (zeros, bins):
        axes.set_ylim(0, top)
        axes.spines[["top", "right"]].set_visible(False)
    bins.set_yticks([])
    bins.spines["left"].set_visible(False)
    return sheet.figure


def depth(sites: Sequence[tuple[str, Tensor]], title: str, said: list[str], *, theme: Theme) -> Figure:
    """Return mean, standard deviation and rms of the values of each place, in their order.

    Args:
        sites: the address and the values of each place, float32.
        title: what it is.
        said: what was chosen before.
        theme: of the ground.
    """
    means, stds, rms, other = [], [], [], 0
    for _, value in sites:
        finite = value[value.isfinite()].double()
        other += value.numel() - finite.numel()
        means.append(finite.mean().item() if finite.numel() else float("nan"))
        stds.append(finite.std(correction=0).item() if finite.numel() else float("nan"))
        rms.append(finite.square().mean().sqrt().item() if finite.numel() else float("nan"))
    said = [*said, f"of the finite values of {len(sites)} places, in the order in which they were captured"]
    said.append(f"{other} values are not finite" if other else "all values are finite")
    finite_rms = [each for each in rms if each == each]  # noqa: PLR0124 - NaN
    logarithmic = bool(finite_rms) and min(finite_rms) > 0 and max(finite_rms) > 100 * min(finite_rms)
    if logarithmic:
        said.append("the scale of rms and std is logarithmic: they differ by more than a factor of 100")
    width = max(480, min(1000, 24 * len(sites)))
    room = 12 + 5 * max(len(address) for address, _ in sites)  # for the addresses, which stand upright
    sheet = Sheet(width + 60, 290 + room, title, said, theme, bar=False)
    upper, lower = sheet.axes(60, 24, width, 130), sheet.axes(60, 198, width, 80)
    places = range(len(sites))
    style: dict[str, Any] = {"marker": "o", "markersize": 3, "linewidth": 1.2}
    upper.plot(places, rms, color=sheet.accent, label="rms", **style)
    upper.plot(places, stds, color=sheet.muted, label="standard deviation", linestyle="--", **style)
    if logarithmic:
        upper.set_yscale("log")
    else:
        upper.set_ylim(bottom=0)
    lower.axhline(0, color=sheet.muted, linewidth=0.6)
    lower.plot(places, means, color=sheet.accent, label="mean", **style)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            fontsize=7, frameon=False, labelcolor=sheet.ink, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=2
        )
        axes.set_xlim(-0.5, len(sites) - 0.5)
    upper.set_xticks([])
    step = max(1, -(-len(sites) * 11 // width))
    lower.set_xticks(list(places)[::step], [address for address, _ in sites][::step], rotation=90)
    return sheet.figure


def bars(value: Tensor, title: str, said: list[str], *, theme: Theme) -> Figure:
    """Return one bar for each value of a vector, from 0."""
    count = value.numel()
    said = [*said, f"{count} values, bars from 0, from {number(float(value.min()))} to {number(float(value.max()))}"]
    other = int((~value.isfinite()).sum())
    if other:
        said.append(f"{other} values are not finite: magenta")
    sheet = Sheet(760, 240, title, said, theme, bar=False)
    axes = sheet.axes(50, 0, 700, 220)
    axes.bar(range(count), value.nan_to_num(0.0, 0.0, 0.0).tolist(), width=0.85, color=sheet.accent)
    for position in (~value.isfinite()).nonzero().flatten().tolist():
        axes.axvspan(position - 0.5, position + 0.5, color="#ff00a8", linewidth=0)
    axes.axhline(0, color=sheet.muted, linewidth=0.6)
    axes.set_xlim(-0.5, count - 0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return sheet.figure
