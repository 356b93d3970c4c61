"""What an address, or another way of saying where, means in one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from torch import nn

from hookline.address.spelling import Address


@dataclass(frozen=True, slots=True)
class Target:
    """One module that was selected, and what is meant there.

    Attributes:
        path: the module's first path; "." is the model itself.
        paths: all its paths, when it is registered under several (tied modules).
        module: the module.
        address: the address of just this place.
    """

    path: str
    paths: tuple[str, ...]
    module: nn.Module
    address: Address

    def __str__(self) -> str:
        return str(self.address)


class Selection(Sequence[Target]):
    """The targets in the order in which the model registers its modules; prints one a line."""

    __slots__ = ("_targets",)

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = tuple(targets)

    @property
    def paths(self) -> tuple[str, ...]:
        """The first path of each target."""
        return tuple(target.path for target in self._targets)

    @overload
    def __getitem__(self, index: int) -> Target: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...
    def __getitem__(self, index: Any) -> Any:
        return Selection(self._targets[index]) if isinstance(index, slice) else self._targets[index]

    def __len__(self) -> int:
        return len(self._targets)

    def __str__(self) -> str:
        lines = []
        for target in self._targets:
            also = f"  (also {', '.join(target.paths[1:])})" if len(target.paths) > 1 else ""
            lines.append(f"{target}  {type(target.module).__name__}{also}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        shown = ", ".join(str(target) for target in self._targets[:4])
        more = f", and {len(self) - 4} more" if len(self) > 4 else ""
        return f"<Selection of {len(self)}: {shown}{more}>"
