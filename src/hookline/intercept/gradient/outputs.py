"""Hooks on the gradients of the tensors that a module returns."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hookline.intercept.gradient.isolation import fixed, isolate
from hookline.intercept.gradient.lent import Lent
from hookline.intercept.gradient.places import Gradients
from hookline.intercept.gradient.watched import Watched
from hookline.intercept.undisturbed import undisturbed


class Origin(NamedTuple):
    """An argument of the call whose memory an output may share.

    Attributes:
        argument: the tensor that the caller has.
        isolated: what the module was given in its place, if it was set apart.
        place: its number among the inputs.
        passed: what the module was given, if it did not change it: returned, it has users elsewhere.
    """

    argument: Tensor
    isolated: Tensor | None
    place: int | None
    passed: Tensor | None


def hooked_output(watched: Watched, number: int, tensor: Tensor) -> Tensor:
    """Return a tensor that the module made with our hook on it, or another in its place.

    A parameter, which it did not make, becomes a view: it has other users. A hook on a view that it made would be lost
    when that is changed in place: the hook goes to what is viewed if the view is all of it (the output of nn.Linear is
    such a view), else the view is set apart.
    """
    if tensor.is_leaf:
        tensor = tensor.view_as(tensor)
    elif tensor._is_view():
        base = tensor._base
        if base is None or base.is_leaf or base.numel() != tensor.numel() or not _are_laid_out_alike(base, tensor):
            return isolate(partial(_alone, watched, number), [tensor])[0]
        _register_first(base, partial(_by_base, watched, number, tensor.shape))
        return tensor
    _register_first(tensor, partial(watched.output_received, number))
    return tensor


def hooked_outputs(watched: Watched, tensors: list[Tensor], origins: dict[int, Origin]) -> list[Tensor]:
    """Return the tensors of an output with our hooks on them, or in their places others that are the caller's alone.

    Args:
        watched: the call.
        tensors: what the module returned; each requires a gradient.
        origins: the arguments, by the id of what the module was given.
    """
    roots = [_root(tensor, origins) for tensor in tensors]
    if watched.plan.together and len(tensors) > 1:
        apart = isolate(watched.outputs_received, tensors)
        # A change in place of one that shares its memory would be unknown to whoever has the other.
        return [new if _is_alone(root, roots, origins) else fixed(new) for new, root in zip(apart, roots, strict=True)]
    lent: dict[int, Lent | None] = {}
    new = []
    for number, (tensor, root) in enumerate(zip(tensors, roots, strict=True)):
        if _is_alone(root, roots, origins):
            new.append(hooked_output(watched, number, tensor))
        else:
            new.append(_shared(watched, number, tensor, root, origins, lent))
    for each in lent.values():
        if each is not None:
            each.close()
    return new


def _is_alone(root: Tensor | None, roots: list[Tensor | None], origins: dict[int, Origin]) -> bool:
    """Return whether nobody else has the memory of an output: the base of a view that the module made is its alone."""
    return root is None or (id(root) not in origins and sum(other is root for other in roots) == 1)


def _are_laid_out_alike(base: Tensor, tensor: Tensor) -> bool:
    """Return whether a view is its base in another shape."""
    return base.dtype == tensor.dtype and base.is_contiguous() and tensor.is_contiguous()


@undisturbed
def _by_base(watched: Watched, number: int, shape: torch.Size, gradient: Tensor | None) -> Tensor | None:
    """Run the hooks on the gradient of what is viewed, in the shape of the view."""
    if gradient is None:
        return None
    shaped = gradient.reshape(shape)
    new = watched.output_received(number, shaped)
    return None if new is None or new is shaped else new.reshape(gradient.shape)


@undisturbed
def _alone(watched: Watched, number: int, gradients: Gradients) -> Gradients:
    return [watched.output_received(number, gradients[0])]


def _root(tensor: Tensor, origins: dict[int, Origin]) -> Tensor | None:
    """Return the tensor whose memory an output shares; None for one whose memory is its own."""
    if tensor._is_view():
        return tensor._base
    origin = origins.get(id(tensor))
    return tensor if origin is not None and origin.passed is tensor else None


def _shared(
    watched: Watched,
    number: int,
    tensor: Tensor,
    root: Tensor | None,
    origins: dict[int, Origin],
    lent: dict[int, Lent | None],
) -> Tensor:
    """Return another tensor for an output that has users elsewhere, or memory in common with something."""
    origin = origins.get(id(root)) if root is not None else None
    if root is not None and id(root) not in lent:
        lent[id(root)] = _lent(watched, root, origin)
    lender = lent.get(id(root))
    if lender is not None and root is not None and root.dtype == tensor.dtype:
        return lender.view(number, tensor, root)
    # Autograd lets nobody change a leaf in place; what is a view of one here can be changed no more than it.
    view = tensor.view_as(tensor) if origin is None or origin.isolated is None else fixed(tensor)
    _register_first(view, partial(watched.output_received, number))
    return view


def _lent(watched: Watched, root: Tensor, origin: Origin | None) -> Lent | None:
    argument = root if origin is None else origin.argument
    base = argument._base if argument._is_view() else argument
    if base is None or base.is_leaf or base.dtype != argument.dtype:
        return None
    if origin is None or origin.isolated is None:
        return Lent(watched, base, argument)
    return Lent(watched, base, argument, origin.isolated, origin.place)


def _register_first(tensor: Tensor, function: Any) -> None:
    """Put a hook on a tensor before those that are there: the outer module's backward hooks come first."""
    hooks = tensor._backward_hooks
    if hooks is None and type(tensor) is Tensor and (node := tensor.grad_fn) is not None:
        # What Tensor.register_hook does, without a handle: it goes with the graph.
        tensor._backward_hooks = OrderedDict([(function, function)])
        node._register_hook_dict(tensor)
        return
    tensor.register_hook(function)  # type: ignore[no-untyped-call]
    hooks = tensor._backward_hooks
    if hooks is not None and len(hooks) > 1:
        items = list(hooks.items())  # the engine goes by the order in which the keys were put in
        hooks.clear()
        hooks.update([items[-1], *items[:-1]])
