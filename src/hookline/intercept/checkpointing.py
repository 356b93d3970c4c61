"""The calls that activation checkpointing repeats in the backward pass: which they repeat, and with which hooks.

The two kinds of `torch.utils.checkpoint` leave traces by which a region is known again: the one (use_reentrant=False)
a frame object in the hooks that it puts on saved tensors, the other the context of its autograd function. Notes of the
calls in a region are kept on that object, and go with the graph.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointFunction

from hookline.core import Hook, watching
from hookline.core.numbering import Repeated
from hookline.errors import RecomputeError

_top_hooks = torch._C._autograd._top_saved_tensors_default_hooks
_current_pass = torch._C._current_graph_task_id
_forward_mode = torch._C._is_fwd_grad_enabled
_NOTES = "hookline_calls"


class _Notes:
    """The calls in one region: for each site their numbers, and how many a repetition has come to.

    Attributes:
        changers: the hooks that changed what a call gets or gives, and the names of what they are on.
    """

    __slots__ = ("changers", "come_to", "numbers", "run")

    def __init__(self) -> None:
        self.changers: dict[Hook, str] = {}
        self.numbers: dict[object, list[int]] = {}
        self.run: object = None
        self.come_to: dict[object, int] = {}

    def next(self, calls: object, run: object) -> int | None:
        """Return the number of the call that is repeated now, the next of that site in this repetition."""
        if run != self.run:
            self.run, self.come_to = run, {}
        position = self.come_to.get(calls, 0)
        self.come_to[calls] = position + 1
        numbers = self.numbers.get(calls, [])
        return numbers[position] if position < len(numbers) else None


def note_call(calls: object, number: int) -> None:
    """Remember that a call of that number was made, if this is a region that will be repeated."""
    if _forward_mode() and _top_hooks(True) is None:  # the usual case
        return
    notes = _notes_of_region()
    if notes is not None:
        notes.numbers.setdefault(calls, []).append(number)


def repeated_call(calls: object, number: int) -> int:
    """Return the number of the forward call that this one, in the backward pass, repeats.

    Args:
        calls: what the calls were noted for: a site, or a hook that counts them.
        number: what to return when there is no note of the call.
    """
    notes = _notes_of_repetition()
    found = None if notes is None else notes.next(calls, torch._C._current_graph_task_id())
    return number if found is None else Repeated(found)


def is_thrown_away() -> bool:
    """Return whether this call, in the backward pass, only makes saved tensors anew: nothing goes back through it."""
    return _held_by_hook("target_frame_ref") is not None


def changed(hook: Hook, module: nn.Module) -> None:
    """Take note that a hook has changed what a call gets or gives, if the call is one that will be repeated.

    Raises:
        RecomputeError: this is the repetition, and the hook was not there the first time.
    """
    if torch.compiler.is_dynamo_compiling() or torch.is_inference_mode_enabled():
        return
    forward = _current_pass() == -1
    # The usual case. (Autograd functions run their forward without forward-mode gradients, torch.no_grad leaves those.)
    if forward and _forward_mode() and _top_hooks(True) is None:
        return
    if getattr(hook.about, "only_looks", False):
        return
    if forward:
        notes = _notes_of_region()
        if notes is not None:
            notes.changers[hook] = _described(hook, module)
        return
    notes = _notes_of_repetition()
    if notes is not None and hook not in notes.changers:
        raise RecomputeError(
            f"activation checkpointing repeats a call of {_described(hook, module)}, and the hook {hook.describe()} "
            "changes it, which was not there in the forward pass: the gradients would be those of another function. "
            "Put the hook on before the model runs."
        )


watching.changed = changed


def _described(hook: Hook, module: nn.Module) -> str:
    return repr(str(getattr(hook.about, "path", type(module).__name__)))


def _notes_of_region() -> _Notes | None:
    """Return the notes of the region in which this is called in the forward pass; None outside."""
    region, attribute = _held_by_hook("frame"), "recompute_fn"
    if region is None and not _forward_mode():  # so an autograd function may run it
        region, attribute = _context_of(CheckpointFunction.forward), "run_function"
    if region is None:
        return None
    notes: _Notes | None = getattr(region, _NOTES, None)
    if notes is None:
        notes = _Notes()
        setattr(region, _NOTES, notes)
        setattr(region, attribute, partial(_repeat, notes, getattr(region, attribute)))
    return notes


def _notes_of_repetition() -> _Notes | None:
    """Return the notes of the region that is repeated in the backward pass; None if it has none."""
    frame = _held_by_hook("target_frame_ref")
    return getattr(frame() if frame is not None else _context_of(CheckpointFunction.backward), _NOTES, None)


def _repeat(notes: _Notes, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a region again, with all hooks that changed it the first time."""
    for hook, where in notes.changers.items():
        if hook.removed:
            raise RecomputeError(
                "activation checkpointing repeats the forward pass in backward(), and a hook that changed, or ran "
                f"around, a call of {where} has been taken off since: the gradients would be those of another "
                "function. Call backward() before the hook is removed, inside its `with` block."
            )
    return function(*args, **kwargs)


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
