"""The value of a tensor as of now, which nothing that is done later changes."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch

from hookline.address import map_leaves

_PLAIN = (Tensor, nn.Parameter)


def snapshot(tensor: Tensor, *, detach: bool = True) -> Tensor:
    """Return a tensor with the value that `tensor` has now, whatever is done to `tensor` later.

    It shares the memory of `tensor` until one of the two is written to, where torch can do that: then the write
    makes the copy. Elsewhere (memory that numpy or another process owns, sparse, nested, wrapped tensors) the copy
    is made at once.

    Args:
        tensor: any shape, dtype, device and layout. Inside torch.func.vmap the batch is put back as axis 0.
        detach: cut the result off from the autograd graph.
    """
    if _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _unwrapped(tensor)
    if detach and tensor.requires_grad:
        tensor = tensor.detach()
    if type(tensor) in _PLAIN and _lazy_clone_works():
        try:
            return torch._lazy_clone(tensor)
        except RuntimeError:  # no storage that could be shared: NotImplementedError is one, too
            pass
    return tensor.clone()


def snapshot_value(value: Any, *, detach: bool = True) -> Any:
    """Return a nested value with a snapshot of each tensor; objects that hold tensors (a KV cache) are copied."""
    if isinstance(value, Tensor):  # the usual case
        return snapshot(value, detach=detach)
    return map_leaves(lambda _, leaf: _snapshot_leaf(leaf, detach, 0), value)


def is_shared(tensor: Tensor) -> bool:
    """Return whether the tensor still shares its memory with another, until one of them is written to."""
    return type(tensor) in _PLAIN and tensor.layout is torch.strided and torch._C._is_cow_tensor(tensor)  # type: ignore[attr-defined]


_DEEPEST = 8


def _snapshot_leaf(leaf: Any, detach: bool, depth: int) -> Any:
    if isinstance(leaf, Tensor):
        return snapshot(leaf, detach=detach)
    if depth >= _DEEPEST or isinstance(leaf, (nn.Module, type)) or callable(leaf) or not hasattr(leaf, "__dict__"):
        return leaf
    changed = {}
    for name, held in vars(leaf).items():
        new = map_leaves(lambda _, inner: _snapshot_leaf(inner, detach, depth + 1), held)
        if new is not held:
            changed[name] = new
    if not changed:
        return leaf
    twin = copy.copy(leaf)
    vars(twin).update(changed)
    return twin


def _unwrapped(tensor: Tensor) -> Tensor:
    """Take a tensor out of the transforms of torch.func, whose wrappers are dead once the transform is over."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        axis = _functorch.maybe_get_bdim(tensor) if _functorch.is_batchedtensor(tensor) else -1
        tensor = _functorch.get_unwrapped(tensor)
        if axis > 0:
            tensor = tensor.movedim(axis, 0)
    return tensor


@functools.cache
def _lazy_clone_works() -> bool:
    """Return whether torch's copy-on-write clone, which is private, does what we rely on.

    Asked once: it must keep the old value when the original, a view of it or the clone is written to.
    """
    try:
        with torch.no_grad():
            base = torch.arange(4.0)
            part, whole = torch._lazy_clone(base[:2]), torch._lazy_clone(base)
            base.mul_(2)
            base[0] = 7.0
            whole[1] = 9.0
            return part.tolist() == [0.0, 1.0] and whole.tolist() == [0.0, 9.0, 2.0, 3.0] and base[1].item() == 2.0
    except (AttributeError, RuntimeError):
        return False
