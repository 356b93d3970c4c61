"""Number the calls at a site, also while they are compiled or repeated."""

from __future__ import annotations

import itertools
from collections.abc import Callable

IN_TRACE = -1
"""Stands for the number of a call in compiled code, until it is asked for."""


class Repeated(int):
    """The number of a call that repeats an earlier one."""

    __slots__ = ()


def _not_compiling() -> bool:
    return False


def _no_backward() -> int:
    return -1


# What the engine has to know of where a call is made. Plain Python has none of it; torch fills it in.
_compiling: Callable[[], bool] = _not_compiling
_backward: Callable[[], int] = _no_backward
_number_in_trace: Callable[[object], int] = id


def surroundings(
    *, compiling: Callable[[], bool], backward: Callable[[], int], number_in_trace: Callable[[object], int]
) -> None:
    """Say how to find out where a call is made.

    Args:
        compiling: returns whether a compiler is tracing the call.
        backward: returns the number of the backward pass that is under way, -1 for none: the calls made in one
            repeat earlier ones, for activation checkpointing.
        number_in_trace: counts what it is asked for, from 0 in each trace.
    """
    global _compiling, _backward, _number_in_trace
    _compiling, _backward, _number_in_trace = compiling, backward, number_in_trace


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
        it is `IN_TRACE`: a number that went on from run to run would be a constant of the code, which would be
        compiled anew for each.
        """
        if _compiling():
            return IN_TRACE
        if _backward() != -1:
            return Repeated(max(self.latest, 0))
        self.latest = number = next(self._numbers)  # one step of C code: no two threads get the same
        return number


def number_in_trace(hook: object) -> int:
    """Return how many calls of the trace under way `hook` has asked the number of."""
    return _number_in_trace(hook)
