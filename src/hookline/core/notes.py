"""Say in an error that a hook raised it, and which."""

from __future__ import annotations

from typing import Any

from hookline.core.hook import CALL, Hook

_RUNS = (
    "before",
    "around",
    "after",
    "on the output's gradients of",
    "on the input's gradients of",
    "after the backward pass of",
)


def annotate(error: BaseException, hook: Hook | None, module: Any, number: int) -> None:
    """Add a note to `error` that names the hook, where it is defined, and what was called.

    The error keeps its type and traceback. Python 3.10 has no notes: there the text joins the message.
    """
    if hook is None:  # interrupted before the first hook
        return
    where = getattr(hook.about, "path", None)
    called = type(module).__name__ if where is None else f"{str(where)!r} ({type(module).__name__})"
    # Hooks that are not handed a Call are on sites that need not count.
    call = f", call {number - hook.first}" if hook.convention == CALL and number >= 0 else ""
    note = f"hookline: raised by the hook {hook.describe()} that runs {_RUNS[hook.phase]} {called}{call}."
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n{note}", *error.args[1:])
