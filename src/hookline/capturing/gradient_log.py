"""The gradients of one site, put together from those of its tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from hookline.address import Address, Target, read
from hookline.address.signature import positional_names
from hookline.core import OUTPUT_GRADIENT
from hookline.intercept.gradient import GradientCall, Places
from hookline.intercept.gradient.backward_pass import at_end, current_pass
from hookline.intercept.gradient.wanted import signature_at

Take = Callable[[Any, tuple[int, int]], None]


class GradientLog:
    """Hands on the gradients of one call in one backward pass as one value, of the structure of what they belong to.

    Attributes:
        target: the site.
        signature: of the function that the address names, once it was called.
        unwatched: why there was nothing to see in the latest call: "" if there was, None if there was no call.
    """

    __slots__ = ("__weakref__", "_open", "_take", "signature", "target", "unwatched")

    def __init__(self, target: Target, take: Take) -> None:
        self.target = target
        self.unwatched: str | None = None
        self.signature: inspect.Signature | None = None
        self._take = take
        # By backward pass, there by call. A pass that ends by an error hands nothing on.
        self._open: dict[int, dict[tuple[int, int], tuple[GradientCall, list[Tensor | None]]]] = {}

    @property
    def address(self) -> Address:
        """The site's address."""
        return self.target.address

    @property
    def path(self) -> str:
        """The first path of the module."""
        return self.target.path

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths of the module."""
        return self.target.paths

    def learn_signature(self, signature: inspect.Signature) -> None:
        """Take note of the signature of the function that is called, if the address names one."""
        self.signature = signature

    def receive(self, call: GradientCall) -> None:
        """Be the hook on the gradient of one tensor."""
        order = (call.backward_pass, call.number)
        places = call.places
        if len(places.parts) == 1:  # the usual case: the one tensor is all there is
            self._take(self._value(call, places, [call.grad]), order)
            return
        task = current_pass()
        if task not in self._open:
            self._open.clear()
            self._open[task] = {}
            at_end(task, self)
        _, gradients = self._open[task].setdefault(order, (call, [None] * len(places.parts)))
        gradients[call.place] = call.grad

    def end(self, task: int) -> None:
        """Hand on what the pass has brought."""
        for order, (call, gradients) in self._open.pop(task, {}).items():
            self._take(self._value(call, call.places, gradients), order)

    def _value(self, call: GradientCall, places: Places, gradients: list[Tensor | None]) -> Any:
        """Return the gradients in the structure of what the address names."""
        part = self.address.part
        if call.hook.phase == OUTPUT_GRADIENT:
            return read(places.filled_container(gradients), part, address=str(self.address))
        filled = places.filled(gradients)
        if all(isinstance(key, int) for key in places.keys) and not part:
            return filled
        names = positional_names(signature_at(self, call.module))
        by_name = {
            names[key] if isinstance(key, int) and key < len(names) else key: value
            for key, value in zip(places.keys, filled, strict=True)
        }
        if not part:
            return by_name
        key = names[part[0]] if isinstance(part[0], int) and 0 <= part[0] < len(names) else part[0]
        return read(by_name.get(key), part[1:], address=str(self.address))
