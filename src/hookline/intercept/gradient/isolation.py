"""Autograd functions that set a call apart from what else is done with its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from hookline.intercept.undisturbed import undisturbed

Received = Callable[[list["Tensor | None"]], "list[Tensor | None]"]


Split = Callable[["Tensor | None"], "tuple[Tensor | None, Tensor | None]"]


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


class _Insert(torch.autograd.Function):
    """Put a node between the past of a tensor and what is done with it from now on."""

    @staticmethod
    @undisturbed
    def forward(ctx: Any, received: Split, tensor: Tensor, isolated: Tensor | None) -> Tensor:
        ctx.received, ctx.isolates = received, isolated is not None
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    @undisturbed
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        past, isolated = ctx.received(gradients[0])
        return None, past, isolated if ctx.isolates else None


class _Fix(torch.autograd.Function):
    """Return a view that autograd lets nobody change in place."""

    @staticmethod
    @undisturbed
    def forward(ctx: Any, tensor: Tensor) -> Tensor:  # noqa: ARG004
        return tensor.view_as(tensor)

    @staticmethod
    @undisturbed
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:  # noqa: ARG004
        return gradients[0]


def isolate(received: Received, tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors of the same values and memory, whose gradients go through `received` before they go on."""
    return list(_apply(received, *tensors))  # type: ignore[no-untyped-call]


def insert(received: Split, tensor: Tensor, isolated: Tensor | None) -> None:
    """Let the gradient of all that is done with `tensor` from now on go through `received`, and from there to its past.

    Args:
        received: returns what goes on to the past of `tensor`, and what to that of `isolated`.
        tensor: no view and no leaf; it stays the same object.
        isolated: another tensor that is to get gradients, too; or None.
    """
    with torch.autograd._unsafe_preserve_version_counter(tensor):  # type: ignore[attr-defined]
        _Insert.apply(received, tensor, isolated)  # type: ignore[no-untyped-call]


def fixed(tensor: Tensor) -> Tensor:
    """Return a view of the tensor that cannot be changed in place: autograd raises, and says why."""
    return cast("Tensor", _Fix.apply(tensor))  # type: ignore[no-untyped-call]


def rebase(tensor: Tensor, isolated: Tensor) -> None:
    """Let `tensor`, of which `isolated` was set apart and then changed in place, have the history of the change.

    The memory is the same, so that the value is there; without this the graph would know nothing of it, and who goes
    on with `tensor` would get the gradients of the old value.
    """
    with torch.autograd._unsafe_preserve_version_counter(tensor):  # type: ignore[attr-defined]  # the value does not change here
        _Rebase.apply(tensor, isolated)  # type: ignore[no-untyped-call]
