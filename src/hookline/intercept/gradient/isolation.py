"""Autograd functions that set a call apart from what else is done with its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hookline.intercept.gradient.undisturbed import undisturbed

Received = Callable[[list["Tensor | None"]], "list[Tensor | None]"]


class Isolate(torch.autograd.Function):
    """Hand tensors on as they are, and all their gradients, together, back through a function.

    What comes out shares memory and version counter with what went in, and is no view of it. Autograd makes a view
    of a tensor that such a function returns as it is, and forbids to change that in place: hence the detach.
    """

    @staticmethod
    @undisturbed
    def forward(ctx: Any, received: Received, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the same values for others to be computed from."""
        ctx.received = received
        ctx.set_materialize_grads(False)
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    @undisturbed
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Return what the function makes of the gradients; None where there was none."""
        return (None, *ctx.received(list(gradients)))


class _Rebase(torch.autograd.Function):
    """Give a tensor, which holds its new value already, the history of that value."""

    @staticmethod
    @undisturbed
    def forward(ctx: Any, tensor: Tensor, changed: Tensor) -> Tensor:  # noqa: ARG004 - for the graph
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    @undisturbed
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:  # noqa: ARG004
        return None, gradients[0]


# Past what Function.apply does for torch.func, in which hooks on gradients are refused.
_apply = super(torch.autograd.Function, Isolate).apply


def isolate(received: Received, tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors of the same values and memory, whose gradients go through `received` before they go on."""
    return list(_apply(received, *tensors))  # type: ignore[no-untyped-call]


def rebase(tensor: Tensor, isolated: Tensor) -> None:
    """Let `tensor`, of which `isolated` was set apart and then changed in place, have the history of the change.

    The memory is the same, so that the value is there; without this the graph would know nothing of it, and who goes
    on with `tensor` would get the gradients of the old value.
    """
    with torch.autograd._unsafe_preserve_version_counter(tensor):  # type: ignore[attr-defined]  # the value does not change here
        _Rebase.apply(tensor, isolated)  # type: ignore[no-untyped-call]
