"""The arguments of a call by the names in the called function's signature."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hookline.errors import PartError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

# By the function below the method, and whether it is bound. Weak: a class that is made anew for each model must not
# be kept alive by what we know of its methods.
_known: weakref.WeakKeyDictionary[Any, dict[bool, tuple[str, ...] | None]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, by name or position.

    A name under `**kwargs` is a name like the others; the name of `*args` means the tuple of all that is under it.
    """

    signature: inspect.Signature
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that can be read, defaults included, in the order of the signature."""
        return tuple(self.by_name())

    def __getitem__(self, name: str | int) -> Any:
        if isinstance(name, int):
            if -len(self.args) <= name < len(self.args):
                return self.args[name]
            name = self._name_at(name)
        values = self.by_name()
        if name not in values:
            raise PartError(f"there is no argument {name!r}; there are: {', '.join(values) or 'none'}.")
        return values[name]

    def replaced(self, name: str | int, value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return `(args, kwargs)` with one argument replaced: by position if it came so, else by name."""
        self[name]  # an unknown name is an error
        if isinstance(name, int):
            if -len(self.args) <= name < len(self.args):
                return self._with(name % len(self.args), value), self.kwargs
            name = self._name_at(name)
        positional = self._positional()
        parameter = self.signature.parameters.get(name)
        if parameter is not None and parameter.kind is parameter.VAR_POSITIONAL:
            # What comes before *args has to come by position too, as soon as something is under it.
            others = {key: held for key, held in self.kwargs.items() if key not in positional}
            return (*map(self.__getitem__, positional), *value), others
        if name in positional:
            position = positional.index(name)
            if position < len(self.args):
                return self._with(position, value), self.kwargs
            if self.signature.parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY:
                return (*map(self.__getitem__, positional[:position]), value), self.kwargs
        return self.args, {**self.kwargs, name: value}

    def _with(self, position: int, value: Any) -> tuple[Any, ...]:
        return (*self.args[:position], value, *self.args[position + 1 :])

    def by_name(self) -> dict[str, Any]:
        """Return all arguments that can be read, defaults included, in the order of the signature."""
        bound = self.signature.bind_partial(*self.args, **self.kwargs)
        bound.apply_defaults()
        values: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                for extra, value in bound.arguments[name].items():
                    values.setdefault(extra, value)  # a positional-only parameter of the same name comes first
            elif name in bound.arguments:
                values[name] = bound.arguments[name]
        return values

    def _positional(self) -> list[str]:
        return positional_names(self.signature)

    def _name_at(self, position: int) -> str:
        """Return the name of the parameter at a position that was not passed by position."""
        positional = self._positional()
        if not 0 <= position < len(positional):
            raise PartError(f"there is no argument {position}: {len(self.args)} came by position.")
        return positional[position]


def positional_names(signature: inspect.Signature) -> list[str]:
    """Return the names of the arguments that can come by position, in their order, without those under `*args`."""
    return [name for name, parameter in signature.parameters.items() if parameter.kind in _POSITIONAL]


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names that an argument of `function` can have, without self if it is a bound method.

    None means that they cannot be told: `**kwargs` lets an argument have any, or there is no signature to read.
    """
    below, is_bound = getattr(function, "__func__", function), inspect.ismethod(function)
    try:
        known = _known.setdefault(below, {})
    except TypeError:  # a callable that cannot be hashed, or weakly referred to
        known = {}
    if is_bound not in known:
        known[is_bound] = _names(function)
    return known[is_bound]


def _names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(parameter.name for parameter in parameters)
