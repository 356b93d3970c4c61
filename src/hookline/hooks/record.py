"""What a group knows of one hook on one module: where it is, and how often it has run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from torch import nn

from hookline.address import Address, Arguments, Target, read, write
from hookline.core import AFTER, AROUND, BEFORE, Call
from hookline.errors import HookResultError

Function = Callable[..., Any]


class Record:
    """One hook on one module, as `Call.hook.about` and as a line of the report.

    Attributes:
        target: the module and its paths.
        fired: how often the hook has run outside compiled code.
        compiled: whether it has run in compiled code, where runs cannot be counted.
        nanoseconds: the time spent in the hook itself, outside compiled code.
        unwatched: of a hook on gradients, why there was nothing to see in the latest call: "" if there was, None if
            there was no call.
    """

    __slots__ = ("_signature", "compiled", "fired", "function", "nanoseconds", "target", "unwatched")

    def __init__(self, target: Target, function: Function) -> None:
        self.target = target
        self.function = function
        self.fired = 0
        self.compiled = False
        self.nanoseconds = 0
        self.unwatched: str | None = None
        self._signature: inspect.Signature | None = None

    @property
    def address(self) -> Address:
        """The address of this very site."""
        return self.target.address

    @property
    def path(self) -> str:
        """The first path of the module."""
        return self.target.path

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths of the module."""
        return self.target.paths

    @property
    def module(self) -> nn.Module:
        """The hooked module."""
        return self.target.module

    @property
    def method(self) -> str:
        """The method whose calls are hooked."""
        return self.address.method or "forward"

    def arguments(self, call: Call) -> CallArguments:
        """Return the arguments of `call` by name."""
        return CallArguments(call, self.signature)

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the method, without self, or of the function."""
        if self._signature is None:
            self._signature = inspect.signature(getattr(self.module, self.method))
        return self._signature

    def learn_signature(self, signature: inspect.Signature) -> None:
        """Take note of the signature of the function that is called, if the address names one."""
        self._signature = signature

    def read(self, call: Call) -> Any:
        """Return what the address names in `call`: all of the output or arguments, or one part."""
        side, part = self.side_of(call), self.address.part
        if side == "output":
            return read(call.output, part, address=str(self.address))
        if not part:
            return call.args
        return read(call.arguments[part[0]], part[1:], address=str(self.address))

    def write(self, call: Call, value: Any) -> None:
        """Replace what the address names in `call`."""
        side, part = self.side_of(call), self.address.part
        if side == "output":
            call.output = write(call.output, part, value, address=str(self.address))
        elif call.hook.phase != BEFORE:
            raise HookResultError(f"{self.address}: the call is over, its arguments cannot be replaced any more.")
        elif not part:
            call.args = value if isinstance(value, tuple) else (value,)
        else:
            head, rest = part[0], part[1:]
            if rest:
                value = write(call.arguments[head], rest, value, address=str(self.address))
            call.arguments[head] = value

    def side_of(self, call: Call) -> str:
        """Return which side the address means: when it does not say, the one that the hook can change."""
        return self.address.side or ("input" if call.hook.phase == BEFORE else "output")


class CallArguments:
    """The arguments of one call by name; assigning to a name replaces that argument."""

    __slots__ = ("_call", "_signature")

    def __init__(self, call: Call, signature: inspect.Signature) -> None:
        self._call = call
        self._signature = signature

    def _bound(self) -> Arguments:
        return Arguments(self._signature, self._call.args, self._call.kwargs)

    def __getitem__(self, name: str | int) -> Any:
        return self._bound()[name]

    def __setitem__(self, name: str | int, value: Any) -> None:
        self._call.args, self._call.kwargs = self._bound().replaced(name, value)

    def __contains__(self, name: object) -> bool:
        return name in self._bound().names

    def __iter__(self) -> Any:
        return iter(self._bound().names)

    def __len__(self) -> int:
        return len(self._bound().names)

    def __repr__(self) -> str:
        return f"<arguments {', '.join(f'{name}={value!r:.40}' for name, value in self._bound().by_name().items())}>"


def recorded(record: Record, phase: int) -> Function:
    """Return the function that runs a group's hook: it counts, and puts back what the address names."""
    function = record.function
    if record.address.part and phase <= AFTER:
        function = _on_part(function)
    if phase == AROUND:
        return _recorded_around(record, function)

    def run(call: Call) -> Any:
        if call._number < 0:  # in compiled code
            record.compiled = True  # written, never read: so the compiled code does not depend on it
            return function(call)
        begun = perf_counter_ns()
        try:
            return function(call)
        finally:
            spent = perf_counter_ns() - begun
            record.fired += 1
            record.nanoseconds += spent

    run.__wrapped__ = record.function  # type: ignore[attr-defined]  # for notes and listings
    return run


def _recorded_around(record: Record, function: Function) -> Function:
    def run(call: Call, proceed: Callable[[], Any]) -> Any:
        if call._number < 0:  # in compiled code
            record.compiled = True
            return function(call, proceed)
        inside = 0

        def timed_proceed() -> Any:
            nonlocal inside
            begun = perf_counter_ns()
            try:
                return proceed()
            finally:
                inside += perf_counter_ns() - begun

        begun = perf_counter_ns()
        try:
            return function(call, timed_proceed)
        finally:
            spent = perf_counter_ns() - begun - inside
            record.fired += 1
            record.nanoseconds += spent

    run.__wrapped__ = record.function  # type: ignore[attr-defined]
    return run


def _on_part(function: Function) -> Function:
    """Let what the function returns replace the part that the address names, not the whole."""

    def run(call: Call) -> None:
        call.hook.about.read(call)  # a part that is not there is an error, whether or not the hook looks at it
        changed = function(call)
        if changed is not None:
            call.value = changed

    return run
