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

    def converted(self, value: Any) -> Any:
        """Return the value with its tensors on the device and of the dtype that were asked for."""
        if self.device is None and self.dtype is None:
            return value
        return map_leaves(lambda _, leaf: self._converted(leaf) if isinstance(leaf, Tensor) else leaf, value)

    def _converted(self, tensor: Tensor) -> Tensor:
        # Indices and masks are no numbers to be rounded.
        dtype = self.dtype if tensor.is_floating_point() or tensor.is_complex() else None
        return tensor.to(device=self.device, dtype=dtype)
