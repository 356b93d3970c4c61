"""What changed of the things that are frozen, and why it probably did."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

from hookline.freezing.digest import digests
from hookline.freezing.fingerprint import Fingerprint, version
from hookline.freezing.layout import Layout, Part
from hookline.freezing.ledger import entry
from hookline.freezing.level import Level


def changes(prints: Collection[Fingerprint]) -> list[str]:
    """Return a line for each tensor that is not what it was."""
    there = [(each, tensor) for each in prints if (tensor := each.slot.tensor) is not None]
    lines = [f"{each.slot.path}: is not there any more" for each in prints if each.slot.tensor is None]
    for (each, tensor), now in zip(there, digests(tensor for _, tensor in there), strict=True):
        if now != each.digest:
            lines.append(f"{each.slot.path}: {each.amount(tensor)}: {_cause(each, tensor)}")
    return lines


def threats(layout: Layout, part: Part, level: Level) -> list[str]:
    """Return a line for each thing that has come undone, so that something frozen is about to change."""
    lines = []
    for slot in part.slots.values():
        if slot.trains:
            lines.append(f"{slot.path}: its requires_grad was switched back to True")
        elif slot.tensor is not None and slot.tensor.grad is not None:
            lines.append(f"{slot.path}: has a gradient, which an optimizer would apply")
    gone = {id(slot.module): slot for slot in reversed(part.slots.values()) if slot.module not in layout}
    lines += [
        f"{slot.path}: its module is not in the model any more, and what took its place is not frozen"
        for slot in gone.values()
    ]
    return lines + [
        f"{layout.path(module)}: is in training mode: its .training was set directly"
        for module in part.modules.values()
        if module in layout and module.training and level.sets_mode(module)
    ]


def _cause(was: Fingerprint, now: Tensor) -> str:
    slot = was.slot
    if entry(slot.module).loads > was.loads:
        return "weights were loaded"
    if now.dtype != was.dtype:
        return "the model was converted to another dtype"
    if slot.kind == "buffer":
        return _cause_of_buffer(was, now)
    if was.tensor() is not now:
        return "another tensor was put in its place (by an assignment, or by sharding the model after freezing it)"
    if now.requires_grad:
        return "its requires_grad is True, so that it trained"
    if now.grad is not None:
        return "it has a gradient (stale, or put there after freezing), which an optimizer applied"
    if version(now) == was.version:
        return "it was written past autograd: through .data, numpy, or a fused kernel"
    return "it was written in place, as by an optimizer whose gradient has been cleared since"


def _cause_of_buffer(was: Fingerprint, now: Tensor) -> str:
    if was.slot.module.training:
        return "statistics moved: the module was run in training mode"
    if was.tensor() is not now:
        return "another tensor was put in its place, as by a module that assigns to it when it runs"
    return "statistics moved: the module writes it when it runs, or was in training mode for a while"
