"""What a capture matched and holds."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hookline.capturing.budget import human
from hookline.capturing.values import Values
from hookline.table import aligned


@dataclass(frozen=True)
class CaptureRow:
    """One site.

    Attributes:
        address: where it is.
        module: the name of the module's class.
        calls: how many calls were seen.
        recomputed: how many more activation checkpointing made.
        values: how many values are kept.
        bytes: the bytes of their tensors. Shared ones cost none as long as nobody writes to them.
        where: "shared" with the model, "memory", "disk", or several of these.
    """

    address: str
    module: str
    calls: int
    recomputed: int
    values: int
    bytes: int
    where: str


@dataclass(frozen=True)
class CaptureReport:
    """The rows of a report, one for each site; prints as a table."""

    rows: tuple[CaptureRow, ...]

    @classmethod
    def of(cls, sites: Mapping[str, Values]) -> CaptureReport:
        """Return the report as of now."""
        return cls(tuple(_row(name, site) for name, site in sites.items()))

    @property
    def bytes(self) -> int:
        """The bytes of all values."""
        return sum(row.bytes for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python."""
        return {"sites": [asdict(row) for row in self.rows], "bytes": self.bytes}

    def to_html(self) -> str:
        """Return the table as HTML, for notebooks."""
        head = "".join(f"<th>{name}</th>" for name in _HEADER)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in _cells(row)) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __str__(self) -> str:
        total = f"{len(self.rows)} sites, {human(self.bytes)}"
        return f"{aligned(_HEADER, [_cells(row) for row in self.rows])}\n{total}"


_HEADER = ("address", "module", "calls", "values", "size", "where")


def _cells(row: CaptureRow) -> tuple[object, ...]:
    calls = f"{row.calls} (+{row.recomputed})" if row.recomputed else row.calls
    return row.address, row.module, calls, row.values, human(row.bytes), row.where


def _row(name: str, site: Values) -> CaptureRow:
    places = site.places()
    where = " + ".join(dict.fromkeys(place for place, _ in places)) or "nowhere"
    recomputed = len(site.values(recomputed=True)) if not site.gathers else 0
    return CaptureRow(name, site.module, site.fired, recomputed, len(places), sum(size for _, size in places), where)
