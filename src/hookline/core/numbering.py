"""Count the calls at a site."""

from __future__ import annotations

import itertools


class Calls:
    """Hands out 0, 1, 2, ...; safe to share between threads.

    Attributes:
        latest: the number that was handed out last; -1 at the start.
    """

    __slots__ = ("_numbers", "latest")

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.latest = -1

    def take(self) -> int:
        """Return the number of the call that begins now."""
        self.latest = number = next(self._numbers)  # one step of C code: no two threads get the same
        return number
