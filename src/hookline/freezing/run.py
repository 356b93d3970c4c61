"""The order in which a model runs its modules and uses its parameters, recorded on one run."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointFunction

from hookline.address import leaves
from hookline.core import AFTER, BEFORE, KWARGS, Hook
from hookline.errors import FreezeError
from hookline.freezing.example import Example, undisturbed
from hookline.freezing.layout import Key, Layout
from hookline.intercept.module_site import attach_all

ENTER, EXIT, USE = "enter", "exit", "use"


@dataclass(frozen=True)
class Event:
    """One thing that happened in a run.

    Attributes:
        kind: a module began or ended, or an operation used a parameter.
        key: the id of the module, or the place of the parameter.
        reentrant: whether it happened inside reentrant activation checkpointing.
    """

    kind: str
    key: Any
    reentrant: bool = False


class Run:
    """What happened in one run of a model, in order."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def first_use(self, slots: Collection[Key]) -> int | None:
        """Return when one of the parameters was first used; None when none was."""
        return next((at for at, each in enumerate(self.events) if each.kind == USE and each.key in slots), None)

    def first_call(self, module: nn.Module) -> int | None:
        """Return when the module was first called; None when it was not."""
        entered = (at for at, each in enumerate(self.events) if each.kind == ENTER and each.key == id(module))
        return next(entered, None)

    def calls(self, module: nn.Module) -> int:
        """Return how often the module was called."""
        return sum(each.kind == ENTER and each.key == id(module) for each in self.events)

    def done_before(self, moment: int | None) -> list[Any]:
        """Return the modules (by id) and parameters (by place) that were in use before the moment and never after."""
        moment = len(self.events) if moment is None else moment
        after = {each.key for each in self.events[moment:]}
        return list(dict.fromkeys(each.key for each in self.events[:moment] if each.key not in after))


def record(layout: Layout, example: Example, *, training: bool = False) -> Run:
    """Run the model once and return what happened; the model is left as it was.

    Raises:
        FreezeError: the model is sharded.
    """
    _check_whole(layout)
    events: list[Event] = []
    slots = {id(slot.tensor): slot.key for slot in reversed(layout.slots)}
    hooks = (hook for place in layout.places for hook in _hooks(place.module, events))
    with undisturbed(layout.model, training=training), warnings.catch_warnings():
        # Of reentrant checkpointing: what it warns of is what the caller is about to find out.
        warnings.filterwarnings("ignore", message="None of the inputs have requires_grad")
        handles = attach_all(hooks)
        try:
            with _Uses(slots, events):
                example.run(layout.model)
        finally:
            for handle in handles:
                handle.remove()
    return Run(events)


def _check_whole(layout: Layout) -> None:
    """Raise FreezeError for sharded parameters: in a run FSDP2 puts others in their place, which nobody knows."""
    home = sys.modules.get("torch.distributed.tensor")
    sharded = (slot for slot in layout.slots if home is not None and isinstance(slot.tensor, home.DTensor))
    if (slot := next(sharded, None)) is not None:
        raise FreezeError(
            f"{slot.path!r} is sharded (a DTensor), and the order in which a sharded model uses its parameters cannot "
            "be recorded: do without an example, or do it before fully_shard."
        )


class _Uses(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operation on a parameter. The dispatcher hands over the very tensors that the model owns."""

    def __init__(self, slots: dict[int, Key], events: list[Event]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slots = slots
        self.events = events

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for _, each in leaves([*args, *(kwargs or {}).values()]):
            if isinstance(each, Tensor) and id(each) in self.slots:
                self.events.append(Event(USE, self.slots[id(each)], _in_reentrant_checkpoint()))
        return func(*args, **(kwargs or {}))


def _hooks(module: nn.Module, events: list[Event]) -> Iterator[tuple[nn.Module, Hook, str]]:
    def enter(called: nn.Module, _args: Any, _kwargs: Any) -> None:
        events.append(Event(ENTER, id(called)))

    def leave(called: nn.Module, _args: Any, _kwargs: Any, _output: Any) -> None:
        events.append(Event(EXIT, id(called)))

    if not isinstance(module, torch.jit.ScriptModule):
        yield module, Hook(BEFORE, enter, KWARGS), "forward"
        yield module, Hook(AFTER, leave, KWARGS), "forward"


def _in_reentrant_checkpoint() -> bool:
    # Nothing that torch tells shows it; but its function is on the stack.
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code is CheckpointFunction.forward.__code__:
            return True
        frame = frame.f_back
    return False
