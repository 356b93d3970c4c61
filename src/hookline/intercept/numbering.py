"""Tell the engine whether torch is compiling a call, or repeating it."""

from __future__ import annotations

import weakref

import torch
from torch._guards import TracingContext

from hookline.core.numbering import surroundings

_traced: weakref.WeakKeyDictionary[TracingContext, dict[int, int]] = weakref.WeakKeyDictionary()


def _number_in_trace(hook: object) -> int:
    """Count, from 0 in each trace, what the compiler has come across in the code that it is tracing."""
    context = TracingContext.try_get()
    assert context is not None
    seen = _traced.setdefault(context, {})
    seen[id(hook)] = number = seen.get(id(hook), -1) + 1
    return number


# What torch.compiler.assume_constant_result does, without the second that importing torch._dynamo takes: the
# compiler calls the function itself and takes the result for a constant.
_number_in_trace._dynamo_marked_constant = True  # type: ignore[attr-defined]

surroundings(
    compiling=torch.compiler.is_dynamo_compiling,
    backward=torch._C._current_graph_task_id,
    number_in_trace=_number_in_trace,
)
