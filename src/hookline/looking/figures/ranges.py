"""One range of values for all cells of a picture."""

from __future__ import annotations

import torch
from torch import Tensor

from hookline.errors import HookTypeError
from hookline.looking.figures.sheet import Scale, Theme
from hookline.looking.layer_table import number
from hookline.looking.report.sample import value_range


def scale_of(
    values: Tensor, limits: tuple[float, float] | None, theme: Theme, *, masked: bool = False
) -> tuple[Scale, list[str]]:
    """Return how values become colours, and what is to be said of it.

    Args:
        values: float32, all that is drawn.
        limits: the range, to lock it over several pictures; None for the 0.5 to 99.5 percentile of finite values.
        theme: of the ground.
        masked: whether exact zeros are masked.

    Raises:
        HookTypeError: the limits are not two numbers, the smaller first.
    """
    if limits is None:
        low, high, rule = value_range(values)
    else:
        try:
            low, high = (float(each) for each in limits)
        except (TypeError, ValueError):
            raise HookTypeError(f"limits= takes two numbers (low, high), got {limits!r:.80}.") from None
        if not low < high:
            raise HookTypeError(f"limits= takes the smaller number first, got {limits!r}.")
        rule = "as given"
    signed = low < 0
    if signed and limits is not None:
        low, high = -max(-low, high), max(-low, high)
        rule += ", symmetric about 0"
    below, above = int((values < low).sum()), int((values > high).sum())
    said = [f"range: {number(low)} to {number(high)}, {rule}; {below} values below it, {above} above"]
    said.append("colours: " + ("diverging, 0 in the middle" if signed else "sequential") + ", one range for all cells")
    other = [
        f"{count} {name}"
        for name, count in (
            ("NaN", int(values.isnan().sum())),
            ("+inf", int((values == torch.inf).sum())),
            ("-inf", int((values == -torch.inf).sum())),
        )
        if count
    ]
    if other:
        said.append(f"not finite: {', '.join(other)}; magenta, with an x where there is room")
    return Scale(low, high, signed, theme, masked), said
