"""Tensors exchanged for others in nested values that somebody else holds, too."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from torch import Tensor

from hookline.address import children, map_leaves, rebuild


class Exchange:
    """Tensors in the arguments of a call exchanged for others, until the call is over.

    A list or dict that the caller passes is copied for it. What the module does to the copy (appends a state, sets a
    key) is done to the caller's own by `undo`.
    """

    __slots__ = ("_apart", "_copies", "_own")

    def __init__(self, old: list[Tensor], new: list[Tensor]) -> None:
        self._apart = {id(one): other for one, other in zip(old, new, strict=True)}
        self._own: dict[int, Any] = {id(other): one for one, other in zip(old, new, strict=True)}
        self._copies: list[tuple[Any, Any, list[Any]]] = []

    def __call__(self, value: Any) -> Any:
        """Return the value with the tensors exchanged; the value itself where there are none."""
        if isinstance(value, Tensor):
            return self._apart.get(id(value), value)
        inner = children(value)
        if not inner:
            return value
        items = [self(item) for _, item in inner]
        if all(old is new for (_, old), new in zip(inner, items, strict=True)):
            return value
        new = rebuild(value, items)
        if isinstance(value, (list, MutableMapping)):
            self._copies.append((value, new, items))
            self._own[id(new)] = value
        return new

    def undo(self) -> None:
        """Make the changes that were made to copies in the originals, which get their own tensors back."""
        for old, new, given in self._copies:
            now = list(new.values()) if isinstance(new, MutableMapping) else list(new)
            if len(now) == len(given) and all(one is other for one, other in zip(now, given, strict=True)):
                continue
            own = [self._own.get(id(value), value) for value in now]
            if isinstance(new, MutableMapping):
                keys = list(new)
                old.clear()
                old.update(zip(keys, own, strict=True))
            else:
                old[:] = own


def exchanged(value: Any, old: list[Tensor], new: list[Tensor]) -> Any:
    """Return a nested value with tensors exchanged for others; the value itself where they are the same."""
    if all(one is other for one, other in zip(old, new, strict=True)):
        return value
    others = {id(one): other for one, other in zip(old, new, strict=True)}
    return map_leaves(lambda _, leaf: others.get(id(leaf), leaf), value)
