"""How much of a module is frozen: its parameters, its state, or its function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from hookline.errors import HookTypeError
from hookline.freezing.layout import Layout, Part, Slot
from hookline.freezing.ledger import BUFFERS, LOADS, MODE

_NAMES = ("params", "state", "function")


@dataclass(frozen=True)
class Level:
    """What is held of a frozen part.

    Attributes:
        name: "params": parameters. "state": buffers too. "function": also the mode, so that the output in training
            is that in inference.
        dropout: whether dropout keeps to the mode of the model.
    """

    name: str
    dropout: bool

    @classmethod
    def checked(cls, name: Any, *, dropout: Any) -> Level:
        """Return the level, or raise HookTypeError where there is none such."""
        if name not in _NAMES:
            raise HookTypeError(f"level is one of 'params', 'state' and 'function', got {name!r}.")
        if not isinstance(dropout, bool):
            raise HookTypeError(f"dropout is True or False, got {dropout!r}.")
        return cls(name, dropout)

    def held(self, part: Part) -> dict[str, list[nn.Module]]:
        """Return the modules of a part by what of them is held."""
        modules = list(part.modules.values())
        owners = {id(slot.module): slot.module for slot in part.slots.values()}
        if self.name != "params":
            owners |= {id(module): module for module in modules if module._buffers}
        return {
            MODE: [module for module in modules if self.sets_mode(module)],
            BUFFERS: [module for module in modules if self.name == "state" and module._buffers],
            LOADS: list(owners.values()),
        }

    def sets_mode(self, module: nn.Module) -> bool:
        """Return whether the module is kept in inference mode."""
        return self.name == "function" and not (self.dropout and is_dropout(module))

    def proven(self, layout: Layout, part: Part) -> list[Slot]:
        """Return the places of the tensors of a part that must not change."""
        buffers = layout.buffers(part.modules.values()) if self.name != "params" else ()
        return [*part.slots.values(), *buffers]


def is_dropout(module: nn.Module) -> bool:
    """Return whether the module drops values at random: torch's classes, and those of others by their names."""
    name = type(module).__name__.lower()
    return isinstance(module, _DropoutNd) or "drop" in name or "stochasticdepth" in name
