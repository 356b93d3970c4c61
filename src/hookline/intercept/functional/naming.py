"""Names of torch functions as people write them, and of their arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

# What operators call by another name than the function of torch, or in another order of arguments.
_OPERATORS = {"truediv": "div", "itruediv": "div_", "radd": "add", "rmul": "mul", "floordiv": "floor_divide"}
_OPERATORS |= {f"i{name}": f"{name}_" for name in ("add", "sub", "mul", "div", "pow")}


@functools.lru_cache(maxsize=4096)
def name_of(function: Callable[..., Any]) -> str | None:
    """Return the name by which a function is addressed; None for what is none: properties, `len`, `repr`.

    `torch.softmax`, `F.softmax` and `Tensor.softmax` are one name; `+` is `add`, `+=` is `add_`, `@` is `matmul`,
    `1 - x` is `rsub`, `x[0]` is `getitem`.
    """
    name: str = getattr(function, "__name__", "")
    if not (name.startswith("__") and name.endswith("__")):
        return name or None
    bare = name.strip("_")
    if bare in {"get", "set", "delete", "len", "repr", "format", "hash", "bool", "float", "int", "index", "contains"}:
        return None
    return _OPERATORS.get(bare, bare)


def signature_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.Signature:
    """Return the signature of a torch function, for a call with these arguments.

    Of functions that are written in C++ it is made of torch's operator schema, with `input` for what is called `self`
    there, as in torch's documentation. Where there is none, arguments have positions and no names.
    """
    names = tuple(kwargs)
    found = _signature(function, len(args), names)
    return found if found is not None else _POSITIONS


_POSITIONS = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)


@functools.lru_cache(maxsize=4096)
def _signature(function: Callable[..., Any], count: int, names: tuple[str, ...]) -> inspect.Signature | None:
    if inspect.isfunction(inspect.unwrap(function)):
        signature = inspect.signature(function)
        if not any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            return signature
    packet = getattr(torch.ops.aten, name_of(function) or "", None)
    if packet is None:
        return None
    for overload in packet.overloads():
        if overload == "out" or overload.endswith("_out"):
            continue
        signature = _of_schema(getattr(packet, overload)._schema)
        try:
            signature.bind(*range(count), **dict.fromkeys(names))
        except TypeError:
            continue
        return signature
    return None


def _of_schema(schema: Any) -> inspect.Signature:
    parameters = []
    for argument in schema.arguments:
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        name = "input" if argument.name == "self" else argument.name
        parameters.append(inspect.Parameter(name, kind, default=default))
    # A schema may have what has no default behind what has one, which Python forbids.
    for position in range(len(parameters) - 1, 0, -1):
        one, before = parameters[position], parameters[position - 1]
        if one.kind is before.kind and one.default is one.empty and before.default is not before.empty:
            parameters[position - 1] = before.replace(default=inspect.Parameter.empty)
    return inspect.Signature(parameters)
