"""A finding: something about a module that is worth a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hookline.looking.layer_count import NeverCalled
from hookline.looking.layer_table import LayerTable, percent


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        kind: in a word or two.
        level: "bad" breaks a run, "warn" is worth a look, "note" is good to know.
        path: the path of the module, None for the model as a whole.
        address: its address.
        text: what was found, with its numbers.
    """

    kind: str
    level: Literal["bad", "warn", "note"]
    path: str | None
    address: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.address}: {self.text}"


def table_findings(table: LayerTable) -> list[Finding]:
    """Return what the numbers of a layer table show: values that are not finite, dead channels, unused modules."""
    return [*_not_finite(table), *_dead(table), *_uncalled(table)]


def _not_finite(table: LayerTable) -> list[Finding]:
    order = {path: number for number, path in enumerate(table.finished)}
    rows = sorted((row for row in table.rows if row.nonfinite), key=lambda row: order.get(row.path, 0))
    found = []
    for number, row in enumerate(rows):
        first = "the first in execution order: " if number == 0 else ""
        text = f"{first}{percent(row.nonfinite)} of the values are NaN or infinite"
        found.append(Finding("not finite", "bad", row.path, row.address, text))
    return found


def _dead(table: LayerTable) -> list[Finding]:
    found = []
    for row in table.rows:
        if row.dead and row.channels:
            text = f"{round(row.dead * row.channels)} of {row.channels} channels are 0 everywhere"
            found.append(Finding("dead", "warn", row.path, row.address, text))
    return found


def _uncalled(table: LayerTable) -> list[Finding]:
    alike: dict[tuple[str, str], list[NeverCalled]] = {}
    for each in table.uncalled:
        alike.setdefault((each.type, each.why), []).append(each)
    found = []
    for (kind, why), several in alike.items():
        more = f" and {len(several) - 1} more" if len(several) > 1 else ""
        parameters = sum(each.parameters for each in several)
        text = f"{kind}, {parameters:,} parameters: {why}"
        found.append(Finding("not called", "note", None, several[0].path + more, text))
    return found
