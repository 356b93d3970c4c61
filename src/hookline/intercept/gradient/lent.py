"""Outputs that share memory with an argument, which the caller still has.

A module that returns its input (nn.Identity, dropout in eval mode) or a view of it (nn.Flatten) gives its caller two
ways to one piece of memory. Each has its own gradient, and a later change in place of one is a change of both. So
the argument is given a node of its own in the graph, which stands between its past and all that is done with it from
here on, and the outputs are views of it, as autograd knows them: what is changed in place then is right by itself.
The node sees what of the gradient came by way of the outputs and what did not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor

from hookline.intercept.gradient.backward_pass import current_pass
from hookline.intercept.gradient.isolation import insert
from hookline.intercept.undisturbed import undisturbed

if TYPE_CHECKING:
    from hookline.intercept.gradient.watched import Watched


class Lent:
    """A tensor that the caller can have (an argument, or the base of views), and the outputs that share its memory.

    Args:
        watched: the call.
        base: the tensor, no view and no leaf.
        argument: the argument of the call, `base` or a view of it, if what the module was given was set apart.
        isolated: what it was given.
        place: the number of the argument among the inputs whose gradients are wanted.
    """

    __slots__ = (
        "_apart",
        "_argument",
        "_base",
        "_fired",
        "_lent",
        "_outputs",
        "_pass",
        "_place",
        "_probe",
        "_version",
        "_watched",
    )

    def __init__(
        self,
        watched: Watched,
        base: Tensor,
        argument: Tensor | None = None,
        isolated: Tensor | None = None,
        place: int | None = None,
    ) -> None:
        self._watched = watched
        self._place = place
        self._outputs: dict[int, _Geometry] = {}
        self._pass = -1
        self._apart: Tensor | None = None
        self._fired: set[int] = set()
        insert(self._received, base, isolated)
        self._probe, self._version = _version_counter_of(base), base._version
        self._base = base
        own = base.view_as(base)
        own.register_hook(self._by_way_of_outputs)  # type: ignore[no-untyped-call]
        # A part of the base: what goes on to it is a part of the gradient.
        self._argument = None if argument is None or argument is base else _geometry(argument, base)
        self._lent = own if argument is None or argument is base else _viewed(argument, own)

    def view(self, number: int, output: Tensor, root: Tensor) -> Tensor:
        """Return an output as a view of the base, with the hooks on its gradient.

        Args:
            number: of the output.
            output: what the module returned: `root`, or a view of it.
            root: the base, or what was given in the place of the argument.
        """
        new = self._lent.view_as(self._lent) if output is root else _viewed(output, self._lent)
        self._outputs[number] = _geometry(output, self._base)
        new.register_hook(partial(self._at_output, number))  # type: ignore[no-untyped-call]
        return new

    @undisturbed
    def _at_output(self, number: int, gradient: Tensor | None) -> Tensor | None:
        self._of_this_pass().add(number)
        return self._watched.output_received(number, gradient)

    @undisturbed
    def _by_way_of_outputs(self, gradient: Tensor | None) -> None:
        self._of_this_pass()
        self._apart = gradient

    @undisturbed
    def _received(self, total: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Take all the gradient of the base from behind the module; return what goes to its past, and to the module."""
        if total is None:
            return None, None
        fired = self._of_this_pass()
        apart, self._apart = self._apart, None
        if self._probe._version == self._version:
            return self._told_apart(total, apart)
        # Changed in place: what comes now comes by way of the change, and has passed by the hooks on the outputs.
        for number, geometry in self._outputs.items():
            if number not in fired:
                gradient = _part(total, geometry)
                new = self._watched.output_received(number, gradient)
                if new is not None and new is not gradient:
                    total = total.clone()
                    _part(total, geometry).copy_(new)
        if self._place is None:
            return total, None
        if self._argument is None:
            return None, total
        rest = total.clone()
        part = _part(rest, self._argument).clone()
        _part(rest, self._argument).zero_()
        return rest, part

    def _told_apart(self, total: Tensor, apart: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Tell what came by way of the outputs from what did not."""
        if self._place is None:
            return total, None
        if self._argument is None:
            # All goes by the module's way, so that the sum is what it would be without us, bit for bit.
            self._watched.elsewhere[self._place] = total if apart is None else total - apart
            return None, total
        return (total, None) if apart is None else (total - apart, _part(apart, self._argument))

    def _of_this_pass(self) -> set[int]:
        """Return the outputs that have had their gradient in the pass that is under way."""
        task = current_pass()
        if task != self._pass:
            self._pass, self._fired, self._apart = task, set(), None
        return self._fired

    def close(self) -> None:
        """Let go of the tensors: the graph has them."""
        del self._base, self._lent


class _Geometry(NamedTuple):
    """A view as numbers."""

    of: tuple[tuple[int, ...], tuple[int, ...]]
    view: tuple[tuple[int, ...], tuple[int, ...], int]


def _viewed(view: Tensor, base: Tensor) -> Tensor:
    """Return the view of another base, which is laid out like that of `view`."""
    return cast("Tensor", view._view_func(base))  # type: ignore[attr-defined]


def _geometry(output: Tensor, root: Tensor) -> _Geometry:
    offset = int(output.storage_offset() - root.storage_offset())
    return _Geometry((tuple(root.shape), root.stride()), (tuple(output.shape), output.stride(), offset))


def _part(total: Tensor, geometry: _Geometry) -> Tensor:
    """Return the part of a gradient of the whole that belongs to a view; a view of it, if that is laid out alike."""
    if total.stride() != geometry.of[1] or total.storage_offset():
        total = torch.empty_strided(*geometry.of, dtype=total.dtype, device=total.device).copy_(total)
    return total.as_strided(*geometry.view)


def _version_counter_of(tensor: Tensor) -> Tensor:
    """Return an empty tensor that tells whether the memory of `tensor` was written to, and does not hold it."""
    probe = tensor.detach()
    probe.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return probe
