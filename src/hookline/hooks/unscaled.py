"""Gradients without the factor by which a loss was scaled."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from torch import Tensor

from hookline.errors import HookTypeError
from hookline.intercept.gradient import GradientCall


def unscaled(function: Callable[..., Any], scale: Any) -> Callable[..., Any]:
    """Return the hook `function` on gradients of a scaled loss: it sees them divided, and gives them as if it were not.

    Args:
        function: called as `function(call)`.
        scale: a `torch.amp.GradScaler` (anything with `get_scale()`, asked each time), or a number.

    Raises:
        HookTypeError: `scale` is neither.
    """
    if not isinstance(scale, Real) and not hasattr(scale, "get_scale"):
        raise HookTypeError(f"unscale is a GradScaler or a number, got {type(scale).__name__}: {scale!r:.80}.")

    def run(call: GradientCall) -> Tensor | None:
        by = float(scale if isinstance(scale, Real) else scale.get_scale())
        scaled = call.grad
        call.grad = shown = scaled.div(by)
        returned = function(call)
        new = call.grad if returned is None else returned
        call.grad = scaled
        # Not times what it was divided by: for a gradient that is kept that would change the last bits.
        return None if new is shown else new.mul(by) if isinstance(new, Tensor) else new

    run.__wrapped__ = function  # type: ignore[attr-defined]  # for notes and listings
    return run
