"""Match module paths against the pattern of an address."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator

_WILD = re.compile(r"[*?\[]")
_PIECE = re.compile(r"\[!?.[^\]]*\]|.", re.DOTALL)
_NAME = re.compile(r"(?:\[!?.[^\]]*\]|[^.\[])+", re.DOTALL)  # a dot inside [..] does not end it
_RANGE = re.compile(r"(.)-(.)|(.)", re.DOTALL)

# What follows a name. It leaves no choice where a name ends, so that nothing can match in two ways.
_END = r"(?:\.|\Z)"


def is_literal(pattern: str) -> bool:
    """Return whether the pattern has no wildcard, so that it can match one path at most."""
    return not _WILD.search(pattern)


def names_of(pattern: str) -> list[str]:
    """Return the names between the dots of a pattern."""
    return _NAME.findall(pattern)


def ranges(inner: str) -> list[tuple[str, str]]:
    """Return the characters of the set `[inner]` as (first, last) pairs, of equal ones for a single character."""
    return [(low or one, high or one) for low, high, one in _RANGE.findall(inner)]


@functools.lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that tells whether a module path ("" for the model itself) matches.

    `*` and `?` stay within one name, `**` stands for any number of whole names, none included. The time it takes
    grows with the product of the two lengths at most, whatever the pattern.
    """
    if pattern == ".":
        return lambda path: not path
    if is_literal(pattern):
        return lambda path: path == pattern
    return re.compile(_regex(pattern), re.DOTALL).fullmatch


def _regex(pattern: str) -> str:
    """Translate `first.**.middle.**.last`; without `**` there is the first alone."""
    groups = itertools.count()
    runs: list[str] = [""]
    for name in names_of(pattern):
        if name == "**":
            runs.append("")
        else:
            runs[-1] += _name_regex(name, groups) + _END
    first, *others = runs
    if not others:
        return first
    *middles, last = others
    middle = "".join(_shortest(r"(?:[^.]+\.)*?" + run, groups) for run in middles if run)
    return first + middle + (r"(?:[^.]+\.)*" + last if last else ".*")


def _name_regex(name: str, groups: Iterator[int]) -> str:
    """Translate `first*middle*last`; without `*` there is the first alone."""
    if name == "*":
        return "[^.]+"  # a name is never empty
    runs: list[str] = [""]
    for piece in _PIECE.findall(name):
        if piece == "*":
            runs.append("")
        else:
            runs[-1] += _character_regex(piece)
    first, *others = runs
    if not others:
        return first
    *middles, last = others
    return first + "".join(_shortest("[^.]*?" + run, groups) for run in middles if run) + "[^.]*" + last


def _shortest(regex: str, groups: Iterator[int]) -> str:
    """Return a regex that takes the shortest match and never comes back for a longer one.

    What follows starts with a wildcard that could take up the rest anyway. To come back would make the time grow with
    the power of the number of wildcards. (Python has atomic groups from 3.11 on; a look-ahead is never re-entered.)
    """
    name = f"g{next(groups)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"


def _character_regex(piece: str) -> str:
    """Translate `?`, `[..]` or one character."""
    if piece == "?":
        return "[^.]"
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece[1] == "!" and len(piece) > 3
    inner = "".join(
        re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}"
        for low, high in ranges(piece[2 if negated else 1 : -1])
        if low <= high
    )
    if negated:
        return f"[^.{inner}]"  # a set is of one name's characters: it never matches the dot between names
    return f"[{inner}]" if inner else "(?!)"
