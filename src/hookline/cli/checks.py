"""The checks of `--fail-on`: what in a layer table makes a command exit with 1."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hookline.errors import CommandError
from hookline.looking.layer_table import LayerTable, percent

_SHARES = ("dead", "zero", "nonfinite")
_LIST = "nan, dead>10%, zero>90%, nonfinite>0%, uncalled"


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: "nan", "uncalled", or the name of a share in the table.
        limit: the largest share that passes.
    """

    name: str
    limit: float = 0.0

    def failures(self, table: LayerTable) -> list[str]:
        """Return one line for each place where the check fails."""
        if self.name == "uncalled":
            return [f"uncalled: {each}" for each in table.uncalled]
        column = "nonfinite" if self.name == "nan" else self.name
        found = []
        for row in table.rows:
            share = getattr(row, column)
            if share is not None and share > self.limit:
                what = {"nan": "not finite", "nonfinite": "not finite", "zero": "zero", "dead": "dead channels"}
                found.append(f"{self.name}: {row.address} is {percent(share)} {what[self.name]}")
        return found


def parse_checks(text: str | None) -> tuple[Check, ...]:
    """Return the checks of an option such as `nan,dead>10%`.

    Raises:
        CommandError: it cannot be read.
    """
    return tuple(_check(part.strip()) for part in text.split(",")) if text is not None else ()


def _check(text: str) -> Check:
    if text in {"nan", "uncalled"}:
        return Check(text)
    found = re.fullmatch(r"(\w+)\s*>\s*(\d+(?:\.\d+)?)\s*%", text)
    if not found or found[1] not in _SHARES:
        raise CommandError(f"--fail-on cannot read {text!r}: the checks are {_LIST}.")
    return Check(found[1], float(found[2]) / 100)
