"""One call, as one hook sees it."""

from __future__ import annotations

from typing import Any

from hookline.core.hook import Hook
from hookline.core.numbering import IN_TRACE, Repeated, number_in_trace


class Call:
    """What a hook is handed: the arguments before the call, and the output after it.

    Assigning to `args`, `kwargs` or `output` changes what the next hook, and in the end the called function
    or its caller, gets.

    Attributes:
        hook: the hook that is being run.
        module: what is called.
        args: the positional arguments, a tuple.
        kwargs: the keyword arguments, a dict of this call's own.
        output: the result; reading it before there is one is an error.
    """

    output: Any

    __slots__ = ("_number", "args", "hook", "kwargs", "module", "output")

    def __init__(self, hook: Hook, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], number: int) -> None:
        self.hook = hook
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self._number = number

    @property
    def number(self) -> int:
        """0 for the first call of this module since the hook was put on it, then 1, 2, ...

        In code that torch.compile has compiled, 0 is the first call in each run of the compiled code, and only
        the calls for which the hook asks are counted.
        """
        number = self._number
        if number >= 0:
            return number - self.hook.first
        # In compiled code what is asked for becomes a constant, and the code is compiled anew when that changes: so
        # `first` is not looked at, and the number is found only when it is asked for.
        if number == IN_TRACE:
            self._number = number = IN_TRACE - 1 - number_in_trace(self.hook)
        return IN_TRACE - 1 - number

    @property
    def recomputed(self) -> bool:
        """Whether this call repeats an earlier one, for activation checkpointing."""
        return isinstance(self._number, Repeated)

    @property
    def path(self) -> str:
        """The path of the module in the model that the hook was registered with."""
        return str(self.hook.about.path)

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths of the module, when it is registered under several (tied modules)."""
        return tuple(self.hook.about.paths)

    @property
    def arguments(self) -> Any:
        """The arguments by name, as the module's own signature binds them; assigning to one replaces it.

        `call.arguments["mask"]` reads, `call.arguments["mask"] = other` writes, whether it came by position or name.
        """
        return self.hook.about.arguments(self)

    @property
    def value(self) -> Any:
        """What the hook's address names: one argument, one part of the output, or all of either."""
        return self.hook.about.read(self)

    @value.setter
    def value(self, value: Any) -> None:
        self.hook.about.write(self, value)

    @property
    def has_output(self) -> bool:
        """Whether there is an output yet."""
        try:
            object.__getattribute__(self, "output")
        except AttributeError:
            return False
        return True

    def __getattr__(self, name: str) -> Any:
        # Only reached for an attribute that is not set: `output`, before there is one.
        if name == "output":
            raise AttributeError("this call has no output yet: hooks that run before the call see only its arguments.")
        raise AttributeError(f"a Call has no {name!r}.")

    def __repr__(self) -> str:
        return (
            f"<Call {self.number} of {type(self.module).__name__}, {len(self.args)} args, kwargs {list(self.kwargs)}>"
        )
