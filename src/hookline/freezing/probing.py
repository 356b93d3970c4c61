"""Whether frozen modules give in training what they give in inference, tried on an example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hookline.address import leaves
from hookline.core import AROUND, CALL, Hook
from hookline.freezing.digest import digest
from hookline.freezing.example import Example, undisturbed
from hookline.freezing.layout import Layout, Part
from hookline.freezing.naming import outermost
from hookline.intercept.module_site import attach_all


class Probe:
    """What the frozen modules gave for the inputs they have been tried on."""

    def __init__(self) -> None:
        self._outputs: dict[tuple[int, int, str], str] = {}

    def differences(self, layout: Layout, part: Part, example: Example) -> list[str]:
        """Run the model on the example in training mode; return a line for each frozen module that is no function.

        It gives another output than in inference mode on the same input, or than in an earlier trial on the same input.
        """
        lines: dict[str, None] = {}

        def compare(call: Any, proceed: Callable[[], Any]) -> None:
            given = hashed([call.args, call.kwargs])
            trained = hashed(proceed())
            with _in_inference(call.module):
                inferred = hashed(proceed())
            path = layout.path(call.module)
            key = (id(call.module), call.number, given)
            if trained != inferred:
                lines[f"{path}: its output in training mode is not that in inference mode"] = None
            elif self._outputs.setdefault(key, inferred) != inferred:
                lines[f"{path}: its output is not what it was at an earlier check on the same input"] = None

        modules = [each for each in outermost(layout, part) if isinstance(each, nn.Module)]
        handles = attach_all((module, Hook(AROUND, compare, CALL), "forward") for module in modules)
        try:
            with undisturbed(layout.model, training=True), torch.no_grad():
                example.run(layout.model)
        finally:
            for handle in handles:
                handle.remove()
        return list(lines)


def hashed(value: Any) -> str:
    """Return a hash of the tensors in a nested value."""
    return " ".join(digest(each) for _, each in leaves(value) if isinstance(each, Tensor))


@contextmanager
def _in_inference(module: nn.Module) -> Iterator[None]:
    modes = [(each, each.training) for each in module.modules()]
    try:
        for each, _ in modes:
            each.training = False
        yield
    finally:
        for each, mode in modes:
            each.training = mode
