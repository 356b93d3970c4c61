"""The gradients that one backward pass still has to bring to a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge

from hookline.intercept.gradient.backward_pass import await_gradient, will_run
from hookline.intercept.gradient.places import Gradients

if TYPE_CHECKING:
    from hookline.intercept.gradient.watched import Watched


def nodes_of(module: nn.Module) -> list[tuple[str, Node]]:
    """Return the nodes that gather the gradients of the module's trainable parameters, by name."""
    return [
        (name, get_gradient_edge(parameter).node)
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    ]


class Awaited:
    """What one pass has brought of one call so far, until all of it is there.

    Attributes:
        outputs: the gradients of the output, as they were passed on.
        parameter_grads: those of the parameters, by name.
        inputs_done: whether those of the inputs were there.
    """

    __slots__ = ("__weakref__", "_is_over", "_missing", "_watched", "inputs_done", "outputs", "parameter_grads")

    outputs: Gradients

    def __init__(self, watched: Watched, task: int) -> None:
        self._watched = watched
        self.outputs = []
        self.parameter_grads: dict[str, Tensor] = {}
        self.inputs_done = False
        self._is_over = False
        self._missing = int(watched.node is not None and will_run(watched.node) is not False)
        if watched.parameters:
            self._missing += sum(await_gradient(task, node, name, self) for name, node in watched.parameters)

    def add_outputs(self, gradients: Gradients) -> None:
        """Take gradients of the output; those of several tensors may come one by one."""
        if self.outputs:
            gradients = [old if new is None else new for old, new in zip(self.outputs, gradients, strict=True)]
        self.outputs = gradients

    def received(self, name: str, gradient: Tensor | None) -> None:
        """Take the gradient of a parameter."""
        if gradient is not None:
            self.parameter_grads[name] = gradient
        self._one_less()

    def inputs_received(self) -> None:
        """Take note that the gradients of the inputs were there."""
        self.inputs_done = True
        if self._watched.node is not None:
            self._one_less()
        elif self._watched.parameters is None:  # nobody waits for more
            self.end()

    def _one_less(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.end()

    def end(self) -> None:
        """Tell the hooks that wait, once, and let go of everything."""
        if self._is_over:
            return
        self._is_over = True
        self._watched.all_received(self)
        self.outputs = []
        self.parameter_grads = {}
