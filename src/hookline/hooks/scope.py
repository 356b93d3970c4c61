"""Which groups of hooks take part in the calls of this thread or asyncio task."""

from __future__ import annotations

from contextvars import ContextVar

# One variable for all groups, not one each: a ContextVar is never given back to the memory.
_entered: ContextVar[frozenset[int]] = ContextVar("hookline_entered", default=frozenset())


def enter(group: object) -> None:
    """Let `group` take part in calls that are made in this context, and in tasks that are started from it."""
    _entered.set(_entered.get() | {id(group)})


def leave(group: object) -> None:
    """Undo `enter`, in whatever order several groups leave."""
    _entered.set(_entered.get() - {id(group)})


class Applies:
    """Tells whether a group takes part in the calls of the present context."""

    __slots__ = ("_group",)

    def __init__(self, group: object) -> None:
        self._group = id(group)

    def __call__(self) -> bool:
        """Return whether the group has been entered here."""
        return self._group in _entered.get()
