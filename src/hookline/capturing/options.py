"""How to capture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hookline.address import map_leaves
from hookline.capturing.reduction import accumulates, check_reduce, maker
from hookline.errors import HookTypeError

Keep = Literal["all", "last"]


@dataclass(frozen=True)
class Options:
    """The checked options of one capture."""

    detach: bool
    device: torch.device | None
    dtype: torch.dtype | None
    last: bool
    stop: bool
    function: Callable[[Any], Any] | None
    accumulator: Callable[[], Any] | None

    @classmethod
    def checked(
        cls,
        *,
        detach: bool,
        to: torch.device | str | int | None,
        dtype: torch.dtype | None,
        reduce: Any,
        keep: Keep,
        stop: bool,
        sites: int,
    ) -> Options:
        """Return the options, or raise `HookTypeError` for one that makes no sense."""
        if keep not in ("all", "last"):
            raise HookTypeError(f"keep is 'all' or 'last', got {keep!r}.")
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise HookTypeError(f"dtype is a torch.dtype such as torch.float16, got {dtype!r}.")
        check_reduce(reduce)
        gathers = accumulates(reduce)
        return cls(
            detach=detach,
            device=None if to is None else torch.device(to),
            dtype=dtype,
            last=keep == "last",
            stop=stop,
            function=reduce if reduce is not None and not gathers else None,
            accumulator=maker(reduce, sites) if gathers else None,
        )

    @property
    def keeps_all(self) -> bool:
        """Whether every value is kept as it is."""
        changes = self.device is not None or self.dtype is not None or self.function is not None
        return not (changes or self.last or self.accumulator is not None)

    def converted(self, value: Any) -> Any:
        """Return the value with its tensors on the device and of the dtype that were asked for."""
        return value if self.device is None and self.dtype is None else converted(value, self.device, self.dtype)


def converted(value: Any, device: torch.device | str | None, dtype: torch.dtype | None) -> Any:
    """Return the value with its tensors moved, and converted: indices and masks are no numbers to be rounded."""

    def convert(_: Any, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return leaf.to(device=device, dtype=dtype if leaf.is_floating_point() or leaf.is_complex() else None)

    return map_leaves(convert, value)
