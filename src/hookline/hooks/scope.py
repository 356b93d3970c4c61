"""Which groups of hooks take part in the calls of this thread or asyncio task."""

from __future__ import annotations

from contextvars import ContextVar, Token


class Scope:
    """Whether one group takes part in the calls of the present context: the one where `enter` was called.

    Attributes:
        applies: asked on each call; the variable's own getter, which is C code.
    """

    __slots__ = ("_token", "_variable", "applies")

    def __init__(self) -> None:
        self._variable = ContextVar("hookline_scope", default=False)
        self._token: Token[bool] | None = None
        self.applies = self._variable.get

    def enter(self) -> None:
        """Take part in calls that are made in this context, and in tasks that are started from it."""
        self._token = self._variable.set(True)

    def leave(self) -> None:
        """Undo `enter`."""
        if self._token is None:
            return
        try:
            # Not set(False): a context keeps every variable that is set in it, for ever.
            self._variable.reset(self._token)
        except ValueError:  # in another context than `enter`
            self._variable.set(False)
        self._token = None
