"""What changed of the things that are frozen, and why it probably did."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from hookline.freezing.digest import digests
from hookline.freezing.fingerprint import Fingerprint, version
from hookline.freezing.ledger import entry
from hookline.freezing.level import Level


def differences(prints: Iterable[Fingerprint], level: Level) -> list[str]:
    """Return a line for each tensor that is not what it was, or that something is about to change."""
    several = list(prints)
    tensors = [each.slot.tensor for each in several]
    present = [tensor for tensor in tensors if tensor is not None]
    hashed = iter(digests(present))
    lines = []
    for each, tensor in zip(several, tensors, strict=True):
        if tensor is None:
            lines.append(f"{each.slot.path}: is not there any more")
        elif next(hashed) != each.digest:
            lines.append(f"{each.slot.path}: {each.amount(tensor)}: {_cause(each, tensor)}")
        else:
            lines += _threats(each, tensor)
    modules = {id(each.slot.module): each.slot for each in several}
    lines += [
        f"{slot.path.rpartition('.')[0] or '.'}: is in training mode: its .training was set directly"
        for slot in modules.values()
        if entry(slot.module).handles.get("mode") and slot.module.training and level.sets_mode(slot.module)
    ]
    return lines


def _cause(was: Fingerprint, now: Tensor) -> str:
    slot = was.slot
    if entry(slot.module).loads > was.loads:
        return "weights were loaded"
    if now.dtype != was.dtype:
        return "the model was converted to another dtype"
    if slot.kind == "buffer":
        return _cause_of_buffer(was, now)
    if was.tensor() is not now:
        return "another tensor was put in its place"
    if now.requires_grad:
        return "requires_grad was switched back to True, so that it trained"
    if now.grad is not None:
        return "it has a gradient (stale: put there after freezing), which an optimizer applied"
    if version(now) == was.version:
        return "it was written past autograd: through .data, numpy, or a fused kernel"
    return "it was written in place, as by an optimizer whose gradient has been cleared since"


def _cause_of_buffer(was: Fingerprint, now: Tensor) -> str:
    if was.slot.module.training:
        return "statistics moved: the module was run in training mode"
    if was.tensor() is not now:
        return "another tensor was put in its place, as by a module that assigns to it when it runs"
    return "statistics moved: the module writes it when it runs, or was in training mode for a while"


def _threats(was: Fingerprint, now: Tensor) -> list[str]:
    """Say what will change a tensor that has not changed yet."""
    if was.slot.kind == "parameter" and now.requires_grad:
        return [f"{was.slot.path}: has not changed yet, but requires_grad was switched back to True"]
    if was.slot.kind == "parameter" and now.grad is not None:
        return [f"{was.slot.path}: has not changed yet, but has a gradient, which an optimizer would apply"]
    return []
