"""Functions that torch.compile leaves to Python, with all that they call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_frames = torch._C._dynamo.eval_frame
_Function = TypeVar("_Function", bound=Callable[..., Any])


def undisturbed(function: _Function) -> _Function:
    """Let no compiler look inside `function`: compiled code ends before it and goes on behind it.

    What torch.compiler.disable does, without the second that importing torch._dynamo takes, and at no cost to a call.
    """
    if hasattr(_frames, "set_code_exec_strategy"):
        skip = _frames._FrameAction.SKIP  # this frame, and those that it calls
        _frames.set_code_exec_strategy(function.__code__, _frames._FrameExecStrategy(skip, skip))
        run = function
    else:  # before torch 2.7
        run = _without_frame_evaluation(function)
    run._torchdynamo_disable = True  # type: ignore[attr-defined]
    run._torchdynamo_disable_msg = "hookline: hooks on gradients and on functions run in Python"  # type: ignore[attr-defined]
    return run


def _without_frame_evaluation(function: _Function) -> _Function:
    @functools.wraps(function)
    def run(*args: Any) -> Any:
        before = _frames.set_eval_frame(None)
        try:
            return function(*args)
        finally:
            _frames.set_eval_frame(before)

    return run  # type: ignore[return-value]
