"""Which classes are hooked classes, and how a module comes to have one."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from hookline.errors import HookRefusedError

MARK = "__hookline__"
_set_class = object.__dict__["__class__"].__set__


class Made(NamedTuple):
    """What a hooked class was made from."""

    base: type[nn.Module]
    methods: frozenset[str]
    """The methods whose calls are caught."""
    shadowed: frozenset[str]
    """Those of them that an attribute of the same name on the instance may hide."""
    keys: tuple[str, ...]
    """The keys of the sites that a module of this class can have."""
    single: bool
    """Whether that is one, and the only one: no hooked class lies beneath."""


def made_from(cls: type) -> Made | None:
    """Return what `cls` was made from, or None when it is not a hooked class itself."""
    made: Made | None = cls.__dict__.get(MARK)
    return made


def caught_by(cls: type) -> frozenset[str]:
    """Return the methods that hooked classes anywhere in the ancestry of `cls` catch."""
    return frozenset().union(*(made.methods for each in cls.__mro__ if (made := made_from(each))))


def set_class(module: nn.Module, cls: type[Any]) -> None:
    """Change the class of `module`, past its own `__setattr__` and our `__class__`."""
    try:
        _set_class(module, cls)
    except TypeError as error:  # the layouts differ
        raise HookRefusedError(
            f"{type(module).__name__} cannot be hooked: Python does not let its instances change class ({error}). "
            "Hook the module that contains it, or use the module's own register_forward_hook."
        ) from error
