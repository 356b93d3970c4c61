"""The names that somebody who mistyped one may have meant."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable

_COMPARED = 2000


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return the `count` names that are most like `name`, the most alike first.

    The last name of a path counts twice. Comparing costs some 40 us a name, so when there are very many
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
    whole, ends = difflib.SequenceMatcher(autojunk=False), difflib.SequenceMatcher(autojunk=False)
    whole.set_seq2(name)
    ends.set_seq2(last)

    def likeness(other: str) -> float:
        whole.set_seq1(other)
        ends.set_seq1(other.rpartition(".")[2])
        return whole.ratio() + 0.25 * ends.ratio()

    return heapq.nlargest(count, several, key=likeness)
