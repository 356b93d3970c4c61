"""What the engine leaves to torch: gradients, and the repetition of calls for them. Plain Python has neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookline.core.hook import Hook
    from hookline.core.site import Site

Leave = Callable[[Any], Any]


def watch(
    site: Site, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], number: int
) -> tuple[tuple[Any, ...], dict[str, Any], Leave | None]:
    """Return the arguments that the function is to get, and what the output has to go through; None for nothing.

    It runs after the hooks before the call, and what it returns after those behind it: gradients are those of what
    the function gets and of what its caller gets.
    """
    raise NotImplementedError("hooks on gradients need torch")


def changed(hook: Hook, module: Any) -> None:
    """Take note that a hook has changed what a call gets or gives; torch fills this in, too."""
