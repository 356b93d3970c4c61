"""Number a call, also while torch compiles or recomputes."""

from __future__ import annotations

import weakref

import torch
from torch._guards import TracingContext

from hookline.core.numbering import Calls

_in_backward = torch._C._current_graph_task_id
_traced: weakref.WeakKeyDictionary[TracingContext, dict[int, int]] = weakref.WeakKeyDictionary()


def number_call(calls: Calls) -> tuple[int, bool]:
    """Return the number of the call that begins now, and whether it repeats an earlier one.

    A call that is made during a backward pass is activation checkpointing's: it does not count, and has the number
    of the latest call that did.

    In compiled code the count begins at 0 in each run of the compiled code, and is given as `~number` (see
    `Call.number`). A number that went on from run to run would be a constant of the compiled code, which would be
    compiled anew for each.
    """
    if torch.compiler.is_compiling():
        return ~_number_in_trace(calls), False
    if _in_backward() != -1:
        return max(calls.latest, 0), True
    return calls.take(), False


def _number_in_trace(calls: Calls) -> int:
    """Return how many calls of this site the compiler has come across before in the code it is tracing."""
    context = TracingContext.try_get()
    if context is None:  # torch.export without Dynamo
        return calls.take()
    seen = _traced.setdefault(context, {})
    seen[id(calls)] = number = seen.get(id(calls), -1) + 1
    return number


# What torch.compiler.assume_constant_result does, without the second that importing torch._dynamo takes: the
# compiler calls the function itself and takes the result for a constant.
_number_in_trace._dynamo_marked_constant = True  # type: ignore[attr-defined]
