"""What the hooks of a group matched, and how often they ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hookline.core.hook import describe_function
from hookline.table import aligned

if TYPE_CHECKING:
    from hookline.hooks.registration import Registration


@dataclass(frozen=True)
class ReportRow:
    """One hook at one site.

    Attributes:
        hook: the function's name and where it is defined.
        kind: "before", "around" or "after".
        where: what the user asked for.
        address: the site that it matched.
        module: the name of the module's class.
        fired: how often the hook ran there, outside compiled code.
        compiled: whether it ran in compiled code, where runs are not counted.
        milliseconds: the time spent in the hook there, outside compiled code.
        state: "on", "off" (disabled) or "removed".
    """

    hook: str
    kind: str
    where: str
    address: str
    module: str
    fired: int
    compiled: bool
    milliseconds: float
    state: str


@dataclass(frozen=True)
class HooksReport:
    """The rows of a report, in the order of registration; prints as a table."""

    rows: tuple[ReportRow, ...]

    @classmethod
    def of(cls, registrations: Iterable[Registration]) -> HooksReport:
        """Return the report as of now."""
        return cls(tuple(row for made in registrations for row in _rows(made)))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python: `{"hooks": [{"address": ..., "fired": ..., ...}, ...]}`."""
        return {"hooks": [asdict(row) for row in self.rows]}

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[ReportRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        if not self.rows:
            return "no hooks"
        header = ("kind", "address", "module", "fired", "ms", "state", "hook")
        return aligned(
            header,
            [
                (
                    row.kind,
                    row.address,
                    row.module,
                    f"{row.fired}+" if row.compiled else row.fired,
                    f"{row.milliseconds:.3f}",
                    row.state,
                    row.hook,
                )
                for row in self.rows
            ],
        )


def _rows(made: Registration) -> Iterator[ReportRow]:
    state = "removed" if made.removed else "on" if made.enabled else "off"
    for record in made:
        yield ReportRow(
            hook=describe_function(made.function),
            kind=made.kind,
            where=made.where,
            address=str(record.address),
            module=type(record.module).__name__,
            fired=record.fired,
            compiled=record.compiled,
            milliseconds=record.nanoseconds / 1e6,
            state=state,
        )
