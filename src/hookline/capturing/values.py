"""The values of one site, wherever they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from hookline.capturing.budget import bytes_in


class Values(Protocol):
    """What `Features` needs of a site."""

    @property
    def names(self) -> tuple[str, ...]:
        """The addresses of the site, one for each path of its module."""

    @property
    def fired(self) -> int:
        """How many calls were seen."""

    @property
    def gathers(self) -> bool:
        """Whether there is one result over all calls."""

    @property
    def module(self) -> str:
        """The name of the module's class."""

    def values(self, *, recomputed: bool) -> tuple[Any, ...]:
        """The values that are kept, in the order of the calls."""

    def places(self) -> list[tuple[str, int]]:
        """For each value where it lies, and its bytes."""

    def why_silent(self) -> str:
        """Say why the site was never called."""

    @property
    def structure_hash(self) -> str:
        """The hash of the model's structure."""


@dataclass(frozen=True)
class HeldValues:
    """Values that were made from others: loaded, or moved to another device."""

    names: tuple[str, ...]
    fired: int
    gathers: bool
    module: str
    structure_hash: str
    held: tuple[Any, ...] = field(repr=False)

    @classmethod
    def of(cls, site: Values, held: tuple[Any, ...]) -> HeldValues:
        """Return these values as those of `site`."""
        return cls(site.names, site.fired, site.gathers, site.module, site.structure_hash, held)

    def values(self, *, recomputed: bool) -> tuple[Any, ...]:
        """Return the values; recomputed calls are not held."""
        return () if recomputed else self.held

    def places(self) -> list[tuple[str, int]]:
        """Return "memory" and the bytes of each value."""
        return [("memory", bytes_in(value)) for value in self.held]

    def why_silent(self) -> str:
        """Say what is known of a site without values."""
        return "nothing is known of the run any more."
