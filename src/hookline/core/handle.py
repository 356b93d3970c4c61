"""What a registration gives back: the way to take the hook off again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from hookline.core.hook import Hook


class Handle:
    """Takes one hook off with `remove()`, or at the end of a `with` block.

    Dropping the handle takes nothing off, and keeping it does not keep the hooked object alive.
    """

    __slots__ = ("__weakref__", "_owner", "_release", "_where", "hook")

    def __init__(self, hook: Hook, owner: Any, release: Callable[[Any, Hook, Any], None], where: Any) -> None:
        self.hook = hook
        self._owner = weakref.ref(owner)
        self._release = release
        self._where = where

    def remove(self) -> None:
        """Take the hook off, at once; calling this again does nothing."""
        hook = self.hook
        if hook.removed:
            return
        hook.spend()
        owner = self._owner()
        if owner is not None:
            self._release(owner, hook, self._where)

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        if self.hook.removed:
            return "<Handle of a removed hook>"
        owner = self._owner()
        where = "something that is gone" if owner is None else type(owner).__name__
        return f"<Handle of {self.hook.describe()} on {where}>"
