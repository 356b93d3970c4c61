"""The operations of an edit, and their formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hookline.address import leaves
from hookline.capturing import Features, Stats
from hookline.editing.counted_noise import normal
from hookline.editing.operation import Operation, broadcasts, computes
from hookline.errors import EditError, HookTypeError

Number = Callable[[], int]

zero = Operation("zero")
"""Put 0 in the place of the value: `hookline.zero[:, 7]` ablates channel 7."""


@computes("zero")
def _zero(part: Tensor, number: Number) -> Tensor:  # noqa: ARG001
    return torch.zeros_like(part)


def scale(k: float | Tensor) -> Operation:
    """Multiply by `k`: a number, or a tensor that broadcasts to the value."""
    return Operation("scale", {"k": _operand("k", k)})


@computes("scale")
def _scale(part: Tensor, number: Number, k: Any) -> Tensor:  # noqa: ARG001
    return torch.mul(part, _broadcasting("scale", k, part))


def add(vector: float | Tensor) -> Operation:
    """Add a number, or a tensor that broadcasts to the value: steering, with `vector` of shape (d_model,)."""
    return Operation("add", {"vector": _operand("vector", vector)})


@computes("add")
def _add(part: Tensor, number: Number, vector: Any) -> Tensor:  # noqa: ARG001
    return torch.add(part, _broadcasting("add", vector, part))


def replace(value: float | Tensor) -> Operation:
    """Put a number, or a tensor that broadcasts to the value, in its place."""
    return Operation("replace", {"value": _operand("value", value)})


@computes("replace")
def _replace(part: Tensor, number: Number, value: Any) -> Tensor:  # noqa: ARG001
    return value if isinstance(value, Tensor) else torch.full_like(part, value)


def patch(features: Features, address: str | None = None) -> Operation:
    """Put in what was captured on another run.

    Args:
        features: of `hookline.capture` or `hookline.load_features`.
        address: where it was captured; None for the address of the edit. A place that was called several times gives
            the value of the call of the same number; one that was called once gives it to every call.
    """
    if not isinstance(features, Features):
        raise HookTypeError(f"patch() takes the features of a capture, got {type(features).__name__}.")
    return Operation("patch", {"features": features, "address": address})


@computes("patch")
def _patch(part: Tensor, number: Number, values: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG001
    if len(values) == 1:
        return values[0]
    call = number()
    if call >= len(values):
        raise EditError(f"patch: {len(values)} calls were captured, and this is call {call}, counted from 0.")
    return values[call]


def bound(operation: Operation, address: str) -> Operation:
    """Return the operation with the values themselves in the place of the features that they are taken from.

    Args:
        operation: any; those that take nothing from features are returned as they are.
        address: of the edit.

    Raises:
        CallsError: nothing was captured at the address.
        EditError: what was captured there is not one tensor.
    """
    features = operation.operands.get("features")
    if features is None:
        return operation
    address = operation.operands["address"] or address
    found = features.calls(address)
    if not found:
        features[address]  # raises, and says why nothing was captured
    tensors = tuple(_tensor(value, address) for value in found)
    if operation.name == "patch":
        return dataclasses.replace(operation, operands={"values": tensors})
    samples = torch.cat([tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors])
    value = samples.mean(0, keepdim=True).to(tensors[0].dtype)
    return dataclasses.replace(operation, operands={"value": value, "axis": None})


def mean(over: Features | Stats | Tensor, address: str | None = None) -> Operation:
    """Put the mean of a data set in the place of the value (mean ablation).

    Args:
        over: captured features, the mean of whose calls and samples (axis 0) is taken; `hookline.stats` of the place,
            whose mean is one number a channel; or the mean itself, a tensor that broadcasts to the value.
        address: where it was captured; None for the address of the edit.
    """
    if isinstance(over, Stats):
        return Operation("mean", {"value": over.mean, "axis": over.axis})
    if isinstance(over, Tensor):
        return Operation("mean", {"value": over.detach().clone(), "axis": None})
    if not isinstance(over, Features):
        raise HookTypeError(f"mean(over=) takes features, stats or a tensor, got {type(over).__name__}.")
    return Operation("mean", {"features": over, "address": address})


@computes("mean")
def _mean(part: Tensor, number: Number, value: Tensor, axis: int | None) -> Tensor:  # noqa: ARG001
    if axis is None:
        return value
    shape = [1] * part.dim()
    shape[axis] = -1
    return value.reshape(shape)


def noise(std: float, seed: int) -> Operation:
    """Add normal noise: the same for a call of the same number, on every device, compiled or not.

    torch's own generators, and what else is random in the model, are left as they are.
    """
    if not std >= 0:
        raise HookTypeError(f"std is 0 or more, got {std!r}.")
    return Operation("noise", {"std": float(std), "seed": int(seed)})


@computes("noise")
def _noise(part: Tensor, number: Number, std: float, seed: int) -> Tensor:
    return part + std * normal(part, seed, number())


def clamp(lo: float | None = None, hi: float | None = None) -> Operation:
    """Limit the value to between `lo` and `hi`; None for no limit."""
    if lo is None and hi is None:
        raise HookTypeError("clamp() takes lo, hi or both.")
    return Operation("clamp", {"lo": lo, "hi": hi})


@computes("clamp")
def _clamp(part: Tensor, number: Number, lo: float | None, hi: float | None) -> Tensor:  # noqa: ARG001
    return part.clamp(lo, hi)


def project_out(direction: Tensor, axis: int = -1) -> Operation:
    """Remove the part of the value that lies along a direction: x - (x . d / |d|^2) d.

    Args:
        direction: shape (n,), not 0, n the length of the axis.
        axis: the axis of the value.
    """
    if not isinstance(direction, Tensor) or direction.dim() != 1:
        raise HookTypeError("project_out() takes a direction of shape (n,).")
    if not bool(direction.any()):
        raise HookTypeError("the direction is 0 everywhere, and cannot be projected out.")
    return Operation("project_out", {"direction": direction.detach().clone(), "axis": axis})


@computes("project_out")
def _project_out(part: Tensor, number: Number, direction: Tensor, axis: int) -> Tensor:  # noqa: ARG001
    length = part.shape[axis]
    if direction.shape[0] != length:
        raise EditError(f"project_out: expected a direction of {length}, as axis {axis} has; got {direction.shape[0]}.")
    across = part.movedim(axis, -1)  # (..., n)
    along = (across * direction).sum(-1, keepdim=True) / direction.square().sum()  # (..., 1)
    return (across - along * direction).movedim(-1, axis)


def swap(i: int, j: int, axis: int = -1) -> Operation:
    """Exchange two positions of an axis: two channels, two heads, two tokens."""
    return Operation("swap", {"i": int(i), "j": int(j), "axis": int(axis)})


@computes("swap")
def _swap(part: Tensor, number: Number, i: int, j: int, axis: int) -> Tensor:  # noqa: ARG001
    length = part.shape[axis]
    if not (-length <= i < length and -length <= j < length):
        raise EditError(f"swap: axis {axis} has {length} positions, and {i} and {j} are to be exchanged.")
    order = list(range(length))
    order[i], order[j] = order[j], order[i]
    return part.index_select(axis, torch.tensor(order, device=part.device))


def _broadcasting(name: str, operand: Any, part: Tensor) -> Any:
    """Return the operand if it does not make the value larger."""
    if not isinstance(operand, Tensor):
        return operand
    if not broadcasts(operand, part):
        raise EditError(
            f"{name}: expected an operand that broadcasts to the shape {tuple(part.shape)}, got {tuple(operand.shape)}."
        )
    return operand


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()  # the plan is to mean the same when the tensor has changed
    if isinstance(value, (int, float, complex)):
        return value
    raise HookTypeError(f"{name} is a number or a tensor, got {type(value).__name__}.")


def _tensor(value: Any, address: str) -> Tensor:
    found = [leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor)]
    if len(found) == 1:
        return found[0]
    raise EditError(
        f"{address}: expected one tensor among what was captured, got {len(found)} in a {type(value).__name__}; "
        f"give the address of one of them, such as '{address}.0'."
    )
