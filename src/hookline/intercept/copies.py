"""Copies and pickles of a hooked module: unhooked, and of the original class."""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Callable
from typing import Any

from torch import nn

from hookline.intercept.made import made_from, set_class
from hookline.intercept.state import PREFIX, has_sites, without_hooks

_DEEPEST = 4


def reduce_ex(base: type[nn.Module]) -> Callable[[nn.Module, int], Any]:
    """Return a `__reduce_ex__` that gives what `base` would give for the unhooked module."""

    def __reduce_ex__(self: nn.Module, protocol: int) -> Any:  # noqa: N807
        return _as_plain_call(_cleaned(base.__reduce_ex__(self, protocol)))

    return __reduce_ex__


def copier(base: type[nn.Module], name: str) -> Callable[..., Any]:
    """Return a `__copy__` or `__deepcopy__` that unhooks what the one of `base` returns."""

    def copy(self: nn.Module, *args: Any) -> Any:
        result = getattr(base, name)(self, *args)
        if result is not self and isinstance(result, nn.Module):
            if has_sites(result):
                clean = without_hooks(result.__dict__)
                result.__dict__.clear()
                result.__dict__.update(clean)
            made = made_from(type(result))
            if made is not None:
                set_class(result, made.base)
        return result

    return copy


def _as_plain_call(reduced: Any) -> Any:
    """Rewrite `copyreg.__newobj__`, for which pickle demands the object's present class, as a call of `__new__`."""
    if isinstance(reduced, tuple) and reduced[0] is copyreg.__newobj__:  # type: ignore[attr-defined]
        cls = reduced[1][0]
        return (cls.__new__, *reduced[1:])
    return reduced


def _cleaned(value: Any, depth: int = 0) -> Any:
    """Replace hooked classes by their originals, and module states by hookless ones, in a reduce value.

    A `__getstate__` may pack the state into something else: plain containers are looked into.
    """
    if isinstance(value, type):
        made = made_from(value)
        return made.base if made else value
    if isinstance(value, dict) and any(isinstance(key, str) and key.startswith(PREFIX) for key in value):
        return without_hooks(value)
    if depth < _DEEPEST:
        if type(value) is tuple or type(value) is list:
            items = [_cleaned(item, depth + 1) for item in value]
            return value if all(map(operator.is_, items, value)) else type(value)(items)
        if type(value) is dict:
            clean = {key: _cleaned(item, depth + 1) for key, item in value.items()}
            return value if all(map(operator.is_, clean.values(), value.values())) else clean
    return value
