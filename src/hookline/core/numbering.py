"""Number the calls at a site, also while they are compiled or repeated."""

from __future__ import annotations

import itertools
from collections.abc import Callable


class Repeated(int):
    """The number of a call that repeats an earlier one."""

    __slots__ = ()


class Surroundings:
    """What the engine has to know of where a call is made. Plain Python has none of it; torch fills it in.

    Attributes:
        compiling: whether a compiler is tracing the call.
        repeating: whether the call repeats an earlier one, as activation checkpointing does.
        number_in_trace: the number of a call that is being traced, from 0 in each trace.
    """

    compiling: Callable[[], bool] = staticmethod(lambda: False)
    repeating: Callable[[], bool] = staticmethod(lambda: False)
    number_in_trace: Callable[[Calls], int] = staticmethod(lambda calls: calls.take())


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
        """Return the number of the call that begins now.

        A repeated call does not count, and has the number of the latest that did, as `Repeated`. In compiled code
        the count begins at 0 in each run of that code, and comes as `~number` (see `Call.number`): a number that
        went on from run to run would be a constant of the code, which would be compiled anew for each.
        """
        if Surroundings.compiling():
            return ~Surroundings.number_in_trace(self)
        if Surroundings.repeating():
            return Repeated(max(self.latest, 0))
        self.latest = number = next(self._numbers)  # one step of C code: no two threads get the same
        return number
