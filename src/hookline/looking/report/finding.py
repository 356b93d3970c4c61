"""What in one run is worth a look, the gravest first."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hookline.looking.layer_count import NeverCalled
from hookline.looking.layer_table import LayerRow, LayerTable, number, percent
from hookline.looking.report.channel_flags import ChannelFlags
from hookline.looking.report.site import Site


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        kind: in a word or two.
        level: "bad" breaks a run, "warn" is worth a look, "note" is good to know.
        path: the path of the module, None for several.
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


def findings(table: LayerTable, sites: Sequence[Site]) -> list[Finding]:
    """Return what was found.

    Args:
        table: the layer table.
        sites: the modules whose channels are looked at, with their flags.
    """
    order = {path: position for position, path in enumerate(table.finished)}
    by_end = sorted(sites, key=lambda site: order.get(site.path, len(order)))
    return [
        *_not_finite(table, order),
        *_scale(table),
        *_channels(by_end, "saturated", "warn", "lie at a bound"),
        *_channels(by_end, "dead", "warn", "are 0 everywhere"),
        *_channels(by_end, "constant", "note", "have one value everywhere"),
        *_equal(by_end),
        *_not_called(table),
    ]


def fires_in_less_than(inputs: int) -> float:
    """Return the share of inputs below which a unit that never fired in so many of them fires, at 95 % confidence.

    p with (1 - p)**inputs = 0.05; about 3 / inputs.
    """
    return 1.0 - math.pow(0.05, 1.0 / inputs)


def _not_finite(table: LayerTable, order: dict[str, int]) -> list[Finding]:
    rows = sorted((row for row in table.rows if row.nonfinite), key=lambda row: order.get(row.path, 0))
    found = []
    for position, row in enumerate(rows):
        first = "the first in execution order, " if position == 0 else ""
        text = f"{first}{percent(row.nonfinite)} of the values are NaN or infinite"
        found.append(Finding("not finite", "bad", row.path, row.address, text))
    return found


# Within a factor of a thousand of what is usual in the model: normalised networks stay within ten.
_FACTOR = 1000.0


def _scale(table: LayerTable) -> list[Finding]:
    """Return the first module whose values are far larger, and the first whose are far smaller, than is usual."""
    containers = {row.path.rpartition(".")[0] or "." for row in table.rows if row.path != "."}
    rows = [row for row in table.rows if row.path not in containers and row.rms]
    if len(rows) < 3:
        return []
    usual = statistics.median(row.rms for row in rows if row.rms)
    large = [row for row in rows if row.rms and row.rms > usual * _FACTOR]
    small = [row for row in rows if row.rms and row.rms < usual / _FACTOR]
    return [*_first_of("exploding scale", large, usual), *_first_of("vanishing scale", small, usual)]


def _first_of(kind: str, rows: Sequence[LayerRow], usual: float) -> list[Finding]:
    if not rows:
        return []
    more = f", and {len(rows) - 1} modules more" if len(rows) > 1 else ""
    text = f"rms {number(rows[0].rms)}, where the median of the model is {number(usual)}{more}"
    return [Finding(kind, "warn", rows[0].path, rows[0].address, text)]


def _channels(by_end: Sequence[Site], kind: str, level: Literal["warn", "note"], what: str) -> list[Finding]:
    """Return the modules with channels of a kind, the largest share first.

    Channels that a module only hands on (padding, dropout, a container's last part) are found once, where they began.
    """
    began: dict[tuple[int, tuple[int, ...]], list[tuple[str, str, ChannelFlags]]] = {}
    for site in by_end:
        for source, flags in zip(site.sources, site.channel_flags, strict=True):
            channels = getattr(flags, kind) if flags is not None else ()
            if flags is not None and channels:
                began.setdefault((flags.channels, channels), []).append((site.path, source.address, flags))
    found = []
    for (total, channels), places in began.items():
        path, address, flags = places[0]
        text = f"{len(channels)} of {total} channels {what}"
        if kind == "dead":
            text += _bound(flags.inputs)
        more = len({place for place, _, _ in places}) - 1
        text += f"; handed on by {more} module{'s' * (more != 1)}" if more else ""
        found.append((len(channels) / total, Finding(kind, level, path, address, text)))
    return [finding for _, finding in sorted(found, key=lambda pair: -pair[0])]


def _bound(inputs: int) -> str:
    if inputs == 1:
        return " in this input"
    return f" in all {inputs} inputs: each fires in less than {fires_in_less_than(inputs):.2g} of inputs (95 % sure)"


def _equal(by_end: Sequence[Site]) -> list[Finding]:
    began: dict[tuple[tuple[int, ...], ...], Finding] = {}
    for site in by_end:
        for source, flags in zip(site.sources, site.channel_flags, strict=True):
            if flags is not None and flags.equal and flags.equal not in began:
                shown = ", ".join(" = ".join(map(str, group)) for group in flags.equal[:4])
                more = f" and {len(flags.equal) - 4} groups more" if len(flags.equal) > 4 else ""
                text = f"channels are the same value by value: {shown}{more}"
                began[flags.equal] = Finding("duplicate", "note", site.path, source.address, text)
    return list(began.values())


def _not_called(table: LayerTable) -> list[Finding]:
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
