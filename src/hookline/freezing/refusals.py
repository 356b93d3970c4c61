"""Refuse to freeze or thaw where it would quietly go wrong."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from hookline.errors import FreezeError, HookRefusedError
from hookline.freezing.layout import Layout, Part, Slot
from hookline.freezing.ledger import own_flag


def check_change(layout: Layout, before: Part, after: Part) -> None:
    """Raise unless what is frozen may become `after`, where it was `before`. Nothing has been changed yet."""
    added, given_back = after - before, before - after
    _check_python(layout, added)
    _check_lazy(layout, added)
    _check_ties(layout, after)
    changed = [slot for slot in added.slots.values() if slot.trains]
    changed += [slot for slot in given_back.slots.values() if own_flag(slot)]
    _check_not_in_ddp(changed)
    if added:
        _check_checkpointing(layout, after)


def _check_python(layout: Layout, added: Part) -> None:
    for module in added.modules.values():
        if isinstance(module, torch.jit.ScriptModule):
            raise HookRefusedError(
                f"{layout.path(module)!r} runs as TorchScript, which decides its mode outside Python: freeze the "
                "Python module before it is scripted."
            )


def _check_lazy(layout: Layout, added: Part) -> None:
    for slot in (*added.slots.values(), *layout.buffers(added.modules.values())):
        if is_lazy(slot.tensor):  # type: ignore[arg-type]
            raise FreezeError(
                f"{slot.path!r} is of a lazy module and has no values yet: run the model once on an input, then freeze."
            )


def _check_ties(layout: Layout, after: Part) -> None:
    for group in layout.ties():
        inside = [slot for slot in group if slot.key in after.slots]
        outside = [slot for slot in group if slot.key not in after.slots]
        if inside and outside:
            raise FreezeError(
                f"{inside[0].path!r} and {outside[0].path!r} are one tensor (tied), which cannot be frozen in one "
                f"place and train in the other. Name both, or untie them."
            )


def _check_not_in_ddp(changed: Iterable[Slot]) -> None:
    """Raise if a parameter whose flag is to change is in a DistributedDataParallel, which looked at it only once."""
    slots = {id(slot.tensor): slot for slot in changed}
    found = _in_ddp(slots)
    if found:
        gc.collect()  # a wrapper that was dropped lives on in cycles of its own
        found = _in_ddp(slots)
    if found:
        raise FreezeError(
            f"{found.path!r} is in a DistributedDataParallel, which decided when it was made which gradients to "
            "synchronise: one frozen now would make it wait for ever, one thawed now would quietly differ between the "
            "processes. Take the model out (ddp.module) and drop the wrapper, freeze or thaw, and wrap it again."
        )


def _in_ddp(slots: dict[int, Slot]) -> Slot | None:
    inside = (id(parameter) for wrapper in _ddp_wrappers() for parameter in wrapper.parameters())
    return next((slots[key] for key in inside if key in slots), None) if slots else None


def _ddp_wrappers() -> Iterator[nn.Module]:
    # Also those that the caller does not hand us: the model is often ddp.module. None can exist without its module
    # having been imported and a process group; only then are all objects looked through.
    home = sys.modules.get("torch.nn.parallel.distributed")
    if home is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return
    wrapper = home.DistributedDataParallel
    yield from (each for each in gc.get_objects() if issubclass(type(each), wrapper))


def _check_checkpointing(layout: Layout, after: Part) -> None:
    """Raise if the first parameter to train lies in a block under reentrant checkpointing.

    That gives no gradient to a block whose input needs none (torch.utils.checkpoint, `use_reentrant`). Here the order
    of registration stands for the order of the run; a recorded run looks again.
    """
    if not (blocks := {id(inner) for block in _reentrant(layout) for inner in block.modules()}):
        return
    training = [slot for slot in layout.slots if slot.trains and slot.key not in after.slots]
    if training and id(training[0].module) in blocks and any(slot.trains for slot in after.slots.values()):
        raise FreezeError(reentrant_message(training[0].path))


def reentrant_message(path: str) -> str:
    """Return what is wrong with reentrant checkpointing, and the fix."""
    return (
        f"{path!r} would get no gradient: it lies in a block under reentrant activation checkpointing, and all that "
        "comes before it is frozen, so the block's input needs no gradient and reentrant checkpointing gives none. Use "
        "non-reentrant checkpointing: use_reentrant=False (transformers: "
        "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False}))."
    )


def _reentrant(layout: Layout) -> Iterator[nn.Module]:
    for place in layout.places:  # of transformers
        how = getattr(place.module, "_gradient_checkpointing_func", None)
        # Not the models that hold the blocks and carry the same attributes.
        is_block = any(cls.__name__ == "GradientCheckpointingLayer" for cls in type(place.module).__mro__)
        reentrant = isinstance(how, functools.partial) and how.keywords.get("use_reentrant", True)
        if is_block and reentrant and place.module.gradient_checkpointing and not _makes_input_need_grad(layout):
            yield place.module
    home = sys.modules.get("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")  # of torch
    if home is not None:
        for module in layout.model.modules():
            if isinstance(module, home.CheckpointWrapper) and module.checkpoint_impl is home.CheckpointImpl.REENTRANT:
                yield module


def _makes_input_need_grad(layout: Layout) -> bool:
    return any("_require_grads_hook" in place.module.__dict__ for place in layout.places)
