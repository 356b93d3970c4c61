"""The backward pass that is under way: what arrives at its nodes, and its end."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.autograd.graph import Node

from hookline.intercept.undisturbed import undisturbed

current_pass = torch._C._current_graph_task_id
"""Return the number of the backward pass that is under way in this thread; -1 for none."""

_under_way: dict[int, _Pass] = {}


class Waiting(Protocol):
    """What has to be told of the gradient of a parameter."""

    def received(self, name: str, gradient: Tensor | None) -> None:
        """Take the gradient of the parameter of that name."""


class Ending(Protocol):
    """What has to be told that a pass is over."""

    def end(self, task: int) -> None:
        """Deal with what the pass did not reach."""


class _Pass:
    """Who waits for what. All are held weakly: the graph keeps them, and a pass that ends by an error calls nobody."""

    __slots__ = ("ends", "handles", "waiting")

    def __init__(self) -> None:
        self.ends: list[weakref.ref[Ending]] = []
        self.waiting: dict[Node, list[tuple[str, weakref.ref[Waiting]]]] = {}
        self.handles: list[Any] = []

    def close(self) -> None:
        """Take everything off the graph."""
        for handle in self.handles:
            handle.remove()


def at_end(task: int, what: Ending) -> None:
    """Let `what.end(task)` be called when the pass `task`, which is under way, is over."""
    _pass(task).ends.append(weakref.ref(what))


def await_gradient(task: int, node: Node, name: str, what: Waiting) -> bool:
    """Let `what.received(name, gradient)` be called when `node` of a parameter has run; return False if it will not.

    Of several that wait for one node the last comes first: the inner modules are reached after the outer.
    """
    runs = will_run(node)
    if runs is False:
        return False
    this = _pass(task)
    waiting = this.waiting.get(node)
    if waiting is None:
        waiting = this.waiting[node] = []
        if runs:
            this.handles.append(node.register_hook(partial(_node_ran, waiting)))
        else:
            # torch.autograd.grad takes the gradient away before the node: a hook on the tensor sees it all the same.
            variable: Tensor = node.variable  # type: ignore[attr-defined]
            this.handles.append(variable.register_hook(partial(_arrived, waiting)))  # type: ignore[no-untyped-call]
    waiting.append((name, weakref.ref(what)))
    return True


def will_run(node: Node) -> bool | None:
    """Return whether the pass under way will run `node`; None when it will only take the gradient that arrives there.

    That is so for the tensors for which `torch.autograd.grad` was asked.
    """
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:
        return None


def _pass(task: int) -> _Pass:
    this = _under_way.get(task)
    if this is None:
        for failed, other in list(_under_way.items()):
            if not any(ref() for ref in other.ends):
                _under_way.pop(failed, other).close()
        this = _under_way[task] = _Pass()
        Variable._execution_engine.queue_callback(partial(_end, task))
    return this


@undisturbed
def _node_ran(waiting: list[tuple[str, weakref.ref[Waiting]]], _: Any, gradients: tuple[Tensor | None, ...]) -> None:
    _arrived(waiting, gradients[0])


@undisturbed
def _arrived(waiting: list[tuple[str, weakref.ref[Waiting]]], gradient: Tensor | None) -> None:
    while waiting:
        name, ref = waiting.pop()
        what = ref()
        if what is not None:
            what.received(name, gradient)


@undisturbed
def _end(task: int) -> None:
    this = _under_way.pop(task, None)
    if this is None:
        return
    this.close()
    for ref in reversed(this.ends):  # inner modules first, here too
        ending = ref()
        if ending is not None:
            ending.end(task)
