"""The names that somebody who mistyped one may have meant."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable

_COMPARED = 2000


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return the `count` names that are most like `name`, the most alike first.

    Paths that end in the same name come first. Comparing costs some 20 us a name, so when there are very many
    only those that share most letters with `name` are compared.
    """
    letters = set(name)
    last = name.rpartition(".")[2]
    several = list(dict.fromkeys(names))
    if len(several) > _COMPARED:
        several = heapq.nlargest(
            _COMPARED,
            several,
            key=lambda other: (
                (other.rpartition(".")[2] == last) + len(letters & set(other)) / len(letters | set(other))
            ),
        )
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(name)

    def likeness(other: str) -> float:
        matcher.set_seq1(other)
        return matcher.ratio() + 0.25 * (other.rpartition(".")[2] == last)

    return heapq.nlargest(count, several, key=likeness)
