"""Match module paths against the pattern of an address."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

_WILD = re.compile(r"[*?\[]")


def is_literal(pattern: str) -> bool:
    """Return whether the pattern has no wildcard, so that it can match one path at most."""
    return not _WILD.search(pattern)


@functools.lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that tells whether a module path ("" for the model itself) matches.

    `*` and `?` stay within one name, `**` stands for any number of whole names, none included.
    """
    if pattern == ".":
        return lambda path: not path
    if is_literal(pattern):
        return lambda path: path == pattern
    return re.compile(_regex(pattern), re.DOTALL).fullmatch


def _regex(pattern: str) -> str:
    """Translate to a regex in which each name is followed by a dot or the end, so that nothing can match two ways."""
    regex = ""
    split = _split(pattern)
    names = [name for position, name in enumerate(split) if name != "**" or split[position - 1 : position] != ["**"]]
    for position, name in enumerate(names):
        last = position == len(names) - 1
        if name == "**":
            # Names before more names end in a dot; at the end the dot comes first, unless ** is all there is.
            if last:
                regex = regex.removesuffix(r"\.") + (r"(?:\..*)?" if regex else ".*")
            else:
                regex += r"(?:[^.]+\.)*"
        else:
            regex += _name_regex(name) + ("" if last else r"\.")
    return regex


def _split(pattern: str) -> list[str]:
    """Split at dots, but not at one inside [..]."""
    return re.findall(r"(?:\[!?.[^\]]*\]|[^.\[])+", pattern, re.DOTALL)


def _name_regex(name: str) -> str:
    if name == "*":
        return "[^.]+"  # a name is never empty
    regex = ""
    for piece in re.findall(r"\[!?.[^\]]*\]|\*+|.", name, re.DOTALL):
        if piece.startswith("["):
            inner = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("^", "\\^")
            inner = re.sub(r"([&~|])", r"\\\1", inner)
            # A set is of one name's characters: it never matches the dot between names.
            regex += f"(?!\\.)[^{inner[1:]}]" if inner.startswith("!") and len(inner) > 1 else f"[{inner}]"
        elif piece.startswith("*"):
            regex += "[^.]*"
        else:
            regex += "[^.]" if piece == "?" else re.escape(piece)
    return regex
