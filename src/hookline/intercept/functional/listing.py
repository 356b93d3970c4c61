"""The torch functions that the modules of a model call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from hookline.address import escape
from hookline.core import AROUND, CALL, Hook
from hookline.intercept.functional.naming import signature_of
from hookline.intercept.functional.own_calls import run_listening
from hookline.intercept.hookable import check_module
from hookline.intercept.module_site import attach_all
from hookline.table import aligned


@dataclass(frozen=True)
class FunctionInfo:
    """A function that a module calls itself.

    Attributes:
        address: how to name it, such as `"attn/softmax"`, or `"attn/matmul#1"` for one of several.
        function: its name.
        arguments: the names of its arguments, as in `":input.query"`; empty where they have positions only.
        output: what it returned, in short.
        calls: how often the module called it in the run: with more than one, each also has an address of its own.
    """

    address: str
    function: str
    arguments: tuple[str, ...]
    output: str
    calls: int


class FunctionList(tuple[FunctionInfo, ...]):
    """The functions, in the order of their calls; prints as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "no function was called"
        rows = [(info.address, ", ".join(info.arguments) or "by position", info.output) for info in self]
        return aligned(("address", "arguments", "output"), rows)


def functions(model: nn.Module, *inputs: Any, **kwargs: Any) -> FunctionList:
    """Run `model(*inputs, **kwargs)` and return the torch functions that each module calls in its own forward.

    They can be hooked, captured and edited at `"path/function"`. What a fused kernel or compiled code does inside is no
    call of a function. The grad mode is the caller's.

    Raises:
        HookTypeError, HookRefusedError: the model is no module, or one of its modules cannot be hooked.
    """
    check_module(model)
    listeners = {module: _Listener(path) for path, module in model.named_modules()}
    handles = attach_all(
        (module, Hook(AROUND, listener.run, CALL, priority=float("-inf"), about=listener), "forward")
        for module, listener in listeners.items()
    )
    try:
        model(*inputs, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    calls = sorted(call for listener in listeners.values() for call in listener.calls)
    often = {(path, name): sum(1 for other in calls if other[1:3] == (path, name)) for _, path, name, *_ in calls}
    return FunctionList(
        FunctionInfo(
            f"{path}/{name}" + (f"#{occurrence}" if often[path, name] > 1 else ""),
            name,
            arguments,
            output,
            often[path, name],
        )
        for _, path, name, occurrence, arguments, output in calls
    )


_Seen = tuple[int, str, str, int, tuple[str, ...], str]


class _Listener:
    only_looks = True
    order = 0

    def __init__(self, path: str) -> None:
        self.path = path or "."
        self.calls: list[_Seen] = []

    def run(self, call: Any, proceed: Callable[[], Any]) -> Any:
        return run_listening(self, call.module, "forward", proceed)

    def wants(self, _: str) -> bool:
        return True

    def call(
        self,
        _: nn.Module,
        name: str,
        occurrence: int,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        _Listener.order = order = _Listener.order + 1
        output = function(*args, **kwargs)
        parameters = signature_of(function, args, kwargs).parameters.values()
        names = tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        path = "." if self.path == "." else escape(self.path)
        self.calls.append((order, path, name, occurrence, names, _short(output)))
        return output


def _short(output: Any) -> str:
    if isinstance(output, Tensor):
        return f"{tuple(output.shape)} {str(output.dtype).removeprefix('torch.')}"
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], Tensor):
        return f"{type(output).__name__} of {len(output)}: {_short(output[0])}, ..."
    return type(output).__name__
