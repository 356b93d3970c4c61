"""The address as a value, spelt by `str`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Part = tuple[str | int, ...]

PLAIN_PART = re.compile(r"[^\s.:'\"()/#\[\]]+")
"""A part that is written without quotes."""

INTEGER = re.compile(r"-?[0-9]+")
"""A part that is an index, unless it is in quotes."""

_SPECIAL = re.compile(r"[*?\[\]:/()#\s'\\]")


@dataclass(frozen=True)
class Address:
    """A place in a model: a module, and there a side of its call, a part of that, its gradient.

    Attributes:
        pattern: the module path, with `*`, `?`, `**` and `[..]`; "." is the model itself.
        method: the method whose calls are meant, or None for forward.
        function: a torch function that the module's own forward calls, or None.
        occurrence: which of several calls of that function, from 0; None means all.
        side: "input" or "output"; None when the address does not say.
        part: the way from the side to one part of it: indices and keys, outermost first.
        grad: whether the gradient is meant.
    """

    pattern: str = "."
    method: str | None = None
    function: str | None = None
    occurrence: int | None = None
    side: Literal["input", "output"] | None = None
    part: Part = ()
    grad: bool = False

    def __str__(self) -> str:
        text = self.pattern
        if self.method is not None:
            text = f"{self.method}()" if self.pattern == "." else f"{text}.{self.method}()"
        if self.function is not None:
            text = f"{text}/{self.function}" + (f"#{self.occurrence}" if self.occurrence is not None else "")
        # A part or a gradient is always one of a side: without one it would be read as a module's name.
        side = self.side or ("output" if self.part or self.grad else None)
        if side is not None:
            text = f"{text}:{side}" + "".join(f".{_spell_part(part)}" for part in self.part)
        return text + (".grad" if self.grad else "")

    def at(self, path: str) -> Address:
        """Return this address with the pattern replaced by one module's path."""
        pattern = escape(path) or "."
        return Address(pattern, self.method, self.function, self.occurrence, self.side, self.part, self.grad)


def escape(path: str) -> str:
    """Return the pattern that matches exactly this module path, e.g. `a[:]b` for a module that is named `a:b`."""
    return _SPECIAL.sub(lambda found: f"[{found[0]}]", path)


def _spell_part(part: str | int) -> str:
    if isinstance(part, int):
        return str(part)
    if part != "grad" and PLAIN_PART.fullmatch(part) and not INTEGER.fullmatch(part):
        return part
    escaped = part.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
