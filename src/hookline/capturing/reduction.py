"""Keep less than the value: run it through a function, or gather statistics."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from hookline.address import map_leaves
from hookline.errors import HookTypeError


@runtime_checkable
class Accumulator(Protocol):
    """What gathers a result over the calls of one site: `stats` makes such objects, and so may you."""

    def update(self, value: Any) -> None:
        """Take in the tensor of one call."""

    def result(self) -> Any:
        """Return the result over all calls so far."""


class Gathered:
    """One accumulator for each tensor of a site's value."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._accumulators: dict[tuple[str | int, ...], Accumulator] = {}
        self._last: Any = None

    def update(self, value: Any) -> None:
        """Take in the value of one call."""
        self._last = map_leaves(self._take, value)

    def result(self) -> Any:
        """Return the value with each tensor replaced by what its accumulator gathered."""
        return map_leaves(lambda part, leaf: self._accumulators[part].result() if leaf is _TAKEN else leaf, self._last)

    def _take(self, part: tuple[str | int, ...], leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if part not in self._accumulators:
            self._accumulators[part] = self._make()
        self._accumulators[part].update(leaf.detach())
        return _TAKEN


_TAKEN = object()


def accumulates(reduce: Any) -> bool:
    """Return whether `reduce` gathers over calls, as an object with `update` and `result` or a class of such."""
    return hasattr(reduce, "update") and hasattr(reduce, "result")


def maker(reduce: Any, sites: int) -> Any:
    """Return a function that makes a fresh accumulator.

    Raises:
        HookTypeError: `reduce` is one object, which cannot gather for several sites apart, or nothing of the kind.
    """
    if isinstance(reduce, type):
        return reduce
    if hasattr(reduce, "fresh"):
        return reduce.fresh
    if sites == 1:
        return lambda: reduce
    raise HookTypeError(
        f"{type(reduce).__name__} is one accumulator, and {sites} sites are captured: give its class, or an object "
        "with a method fresh() that makes one for each site."
    )


def check_reduce(reduce: Any) -> None:
    """Raise `HookTypeError` unless `reduce` is a function of one value, or gathers."""
    if reduce is None or accumulates(reduce):
        return
    if not callable(reduce):
        raise HookTypeError(
            f"reduce is a function of the value, or has update() and result(); got {type(reduce).__name__}."
        )
    try:
        inspect.signature(reduce).bind(None)
    except TypeError as error:
        raise HookTypeError(f"reduce is called with one value, which does not fit its signature: {error}.") from None
    except ValueError:  # a built-in without a signature
        return
