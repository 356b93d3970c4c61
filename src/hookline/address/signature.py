"""The arguments of a call by the names in the called function's signature."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from hookline.errors import PartError


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, by name or position.

    A name under `**kwargs` is a name like the others; what is under `*args` has positions only.
    """

    signature: inspect.Signature
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that can be read, defaults included, in the order of the signature."""
        return tuple(self._values())

    def __getitem__(self, name: str | int) -> Any:
        if isinstance(name, int):
            if -len(self.args) <= name < len(self.args):
                return self.args[name]
            name = self._name_at(name)
        values = self._values()
        if name not in values:
            raise PartError(f"there is no argument {name!r}; there are: {', '.join(values) or 'none'}.")
        return values[name]

    def replaced(self, name: str | int, value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return `(args, kwargs)` with one argument replaced: by position if it came so, else by name."""
        self[name]  # an unknown name is an error
        positional = self._positional()
        if isinstance(name, str) and name in positional and positional.index(name) < len(self.args):
            name = positional.index(name)
        if isinstance(name, int):
            if -len(self.args) <= name < len(self.args):
                position = name % len(self.args)
                return (*self.args[:position], value, *self.args[position + 1 :]), self.kwargs
            name = self._name_at(name)
        return self.args, {**self.kwargs, name: value}

    def _values(self) -> dict[str, Any]:
        bound = self.signature.bind_partial(*self.args, **self.kwargs)
        bound.apply_defaults()
        values: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                values.update(bound.arguments[name])
            elif parameter.kind is not parameter.VAR_POSITIONAL and name in bound.arguments:
                values[name] = bound.arguments[name]
        return values

    def _positional(self) -> list[str]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [name for name, parameter in self.signature.parameters.items() if parameter.kind in kinds]

    def _name_at(self, position: int) -> str:
        """Return the name of the parameter at a position that was not passed by position."""
        positional = self._positional()
        if not 0 <= position < len(positional):
            raise PartError(f"there is no argument {position}: {len(self.args)} came by position.")
        return positional[position]


def named_parameters(signature: inspect.Signature) -> tuple[str, ...] | None:
    """Return the names that an argument can have, or None when `**kwargs` lets it have any."""
    parameters = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL)
