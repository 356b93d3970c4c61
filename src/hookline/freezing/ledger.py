"""Who holds what frozen: freezes are sets, so that overlapping ones end in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from hookline.core import AFTER, ARGS, AROUND, CALL, Handle, Hook
from hookline.freezing.layout import Slot
from hookline.intercept.module_site import attach_all

Holders = set[object]

MODE, BUFFERS, LOADS = "mode", "buffers", "loads"


@dataclass
class Flag:
    """The own `requires_grad` of one parameter, and who holds it at False."""

    own: bool
    holders: Holders = field(default_factory=set)


@dataclass
class Entry:
    """What is held of one module.

    Attributes:
        own_mode: the mode that the module would have now if nothing held it.
        holders: who holds its mode, its buffers, and who watches weights being loaded into it.
        handles: the hooks by which that is done.
        flags: what is held of its own parameters, by name.
        loads: how often weights were loaded into it.
    """

    own_mode: bool = False
    holders: dict[str, Holders] = field(default_factory=lambda: {MODE: set(), BUFFERS: set(), LOADS: set()})
    handles: dict[str, Handle] = field(default_factory=dict)
    flags: dict[str, Flag] = field(default_factory=dict)
    loads: int = 0

    def stay_in_eval(self, module: nn.Module, _args: Any, _output: Any) -> None:
        """After `train()`: note the mode that was set, and go back to inference."""
        self.own_mode = module.training
        module.training = False

    def count_load(self, _module: nn.Module, _args: Any, _output: Any) -> None:
        """After `_load_from_state_dict()`."""
        self.loads += 1


_ENTRIES: MutableMapping[nn.Module, Entry] = WeakIdKeyDictionary()


def entry(module: nn.Module) -> Entry:
    """Return what is held of a module; an empty entry, if nothing is."""
    return _ENTRIES.get(module) or Entry()


def holds_mode(module: nn.Module) -> bool:
    """Return whether a freeze keeps the module in inference mode."""
    return bool(entry(module).holders[MODE])


def held(slot: Slot) -> bool:
    """Return whether a freeze keeps the parameter from training."""
    flag = entry(slot.module).flags.get(slot.name)
    return flag is not None and bool(flag.holders)


def own_flag(slot: Slot) -> bool:
    """Return the `requires_grad` that the parameter has when nothing holds it."""
    flag = entry(slot.module).flags.get(slot.name)
    return slot.trains if flag is None else flag.own


def hold(holder: object, modules: dict[str, list[nn.Module]], slots: Iterable[Slot]) -> None:
    """Hold the mode, the buffers or the loading of the modules, and the parameters: all of it, or on an error nothing.

    Gradients of the parameters are cleared at once: an optimizer would still apply them.

    Raises:
        HookRefusedError: a module cannot be hooked.
    """
    entries = {id(module): (module, _entry(module)) for several in modules.values() for module in several}
    new = [
        (each, kind)
        for kind, several in modules.items()
        for module in several
        if not (each := entries[id(module)])[1].holders[kind]
    ]
    handles = attach_all((module, *_HOOKS[kind](held_of)) for (module, held_of), kind in new)
    for ((module, held_of), kind), handle in zip(new, handles, strict=True):
        held_of.handles[kind] = handle
        if kind == MODE:
            held_of.own_mode, module.training = module.training, False
    for kind, several in modules.items():
        for module in several:
            entries[id(module)][1].holders[kind].add(holder)
    _hold_flags(holder, list(slots))


def let_go(holder: object, modules: dict[str, list[nn.Module]], slots: Iterable[Slot]) -> None:
    """Give up what `holder` holds; what nobody holds any more is what it would be now."""
    for kind, several in modules.items():
        for module in several:
            held_of = _entry(module)
            held_of.holders[kind].discard(holder)
            if not held_of.holders[kind] and (handle := held_of.handles.pop(kind, None)):
                handle.remove()
                if kind == MODE:
                    module.training = held_of.own_mode
    for slot in slots:
        flag = _entry(slot.module).flags[slot.name]
        flag.holders.discard(holder)
        if not flag.holders:
            del _entry(slot.module).flags[slot.name]
            if slot.tensor is not None:
                slot.tensor.requires_grad_(flag.own)


def _hold_flags(holder: object, slots: list[Slot]) -> None:
    # All are read before one is written: two places can hold one tensor.
    owns = [own_flag(slot) for slot in slots]
    for slot, own in zip(slots, owns, strict=True):
        _entry(slot.module).flags.setdefault(slot.name, Flag(own)).holders.add(holder)
        tensor = slot.tensor
        if tensor is not None:
            tensor.requires_grad_(False)
            tensor.grad = None


def _entry(module: nn.Module) -> Entry:
    found = _ENTRIES.get(module)
    if found is None:
        _ENTRIES[module] = found = Entry()
    return found


def _with_copies_of_buffers(call: Any, proceed: Callable[[], Any]) -> Any:
    """Around a call: let it write to copies of the module's own buffers."""
    buffers = call.module._buffers
    own = dict(buffers)
    buffers.update({name: None if each is None else each.clone() for name, each in own.items()})
    try:
        return proceed()
    finally:
        buffers.update(own)


_HOOKS: dict[str, Callable[[Entry], tuple[Hook, str]]] = {
    MODE: lambda held_of: (Hook(AFTER, held_of.stay_in_eval, ARGS), "train"),
    LOADS: lambda held_of: (Hook(AFTER, held_of.count_load, ARGS), "_load_from_state_dict"),
    BUFFERS: lambda _: (Hook(AROUND, _with_copies_of_buffers, CALL), "forward"),
}
