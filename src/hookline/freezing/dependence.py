"""Whether a result depends on the values of certain tensors."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hookline.address import leaves

# What these give has the shape of what they are given, and none of its values.
_SHAPE_ONLY = ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_")


class Dependence(TorchDispatchMode):
    """Follows tensors that are marked through every operation of a block.

    Attributes:
        steered: whether a number was read out of one that depends on them, by which Python code can decide anything.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steered = False
        self._marked: dict[int, Tensor] = {}  # the tensors too: so that no id is used again

    def mark(self, tensor: Tensor) -> None:
        """Follow this tensor from now on."""
        self._marked[id(tensor)] = tensor

    def of(self, value: Any) -> bool:
        """Return whether a nested value depends on what was marked."""
        return self.steered or any(id(leaf) in self._marked for _, leaf in leaves(value))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        depends = any(id(leaf) in self._marked for _, leaf in leaves([*args, *(kwargs or {}).values()]))
        result = func(*args, **(kwargs or {}))
        if depends and not func.__name__.startswith(_SHAPE_ONLY):
            for _, leaf in leaves(result):
                if isinstance(leaf, Tensor):
                    self.mark(leaf)
                else:
                    self.steered = True
        return result
