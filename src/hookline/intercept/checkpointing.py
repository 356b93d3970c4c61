"""Which forward call a call repeats that activation checkpointing makes in the backward pass.

The two kinds of `torch.utils.checkpoint` leave traces by which a region is known again: the one (use_reentrant=False)
a frame object in the hooks that it puts on saved tensors, the other the context of its autograd function. Notes of the
calls in a region are kept on that object, and go with the graph.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointFunction

from hookline.core.numbering import Calls, Repeated

_top_hooks = torch._C._autograd._top_saved_tensors_default_hooks
_NOTES = "hookline_calls"


class _Notes:
    """The calls in one region: for each site their numbers, and how many a repetition has come to."""

    __slots__ = ("come_to", "numbers", "run")

    def __init__(self) -> None:
        self.numbers: dict[Calls, list[int]] = {}
        self.run: object = None
        self.come_to: dict[Calls, int] = {}

    def next(self, calls: Calls, run: object) -> int | None:
        """Return the number of the call that is repeated now, the next of that site in this repetition."""
        if run != self.run:
            self.run, self.come_to = run, {}
        position = self.come_to.get(calls, 0)
        self.come_to[calls] = position + 1
        numbers = self.numbers.get(calls, [])
        return numbers[position] if position < len(numbers) else None


def note_call(calls: Calls, number: int) -> None:
    """Remember that a call of that number was made, if this is a region that will be repeated."""
    region = _held_by_hook("frame")
    if region is None and not torch.is_grad_enabled():  # so the autograd function runs it
        region = _context_of(CheckpointFunction.forward)
    if region is not None:
        notes = getattr(region, _NOTES, None)
        if notes is None:
            notes = _Notes()
            setattr(region, _NOTES, notes)
        notes.numbers.setdefault(calls, []).append(number)


def repeated_call(calls: Calls, number: int) -> int:
    """Return the number of the forward call that this one, in the backward pass, repeats.

    Args:
        calls: the site's.
        number: what to return when there is no note of the call.
    """
    frame = _held_by_hook("target_frame_ref")
    region = frame() if frame is not None else _context_of(CheckpointFunction.backward)
    notes = getattr(region, _NOTES, None)
    found = None if notes is None else notes.next(calls, torch._C._current_graph_task_id())
    return number if found is None else Repeated(found)


def is_thrown_away() -> bool:
    """Return whether this call, in the backward pass, only makes saved tensors anew: nothing goes back through it."""
    return _held_by_hook("target_frame_ref") is not None


def _held_by_hook(name: str) -> Any:
    """Return what the innermost hook on saved tensors holds in a variable of that name; None if it has none."""
    hooks = _top_hooks(True)
    if hooks is None:
        return None
    pack = inspect.unwrap(hooks[0])
    names = getattr(getattr(pack, "__code__", None), "co_freevars", ())
    return pack.__closure__[names.index(name)].cell_contents if name in names else None


def _context_of(function: Callable[..., Any]) -> Any:
    """Return the context of the autograd function that is running; None if it is not."""
    code = function.__code__
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return frame.f_locals["ctx"]
        frame = frame.f_back
    return None
