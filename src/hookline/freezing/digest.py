"""A hash of the bytes of a tensor."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

_CHUNK = 1 << 26  # of what lies on another device, how many bytes are brought over at a time


def digest(tensor: Tensor) -> str:
    """Return a hash of dtype, shape and bytes: blake2b, 32 hexadecimal digits. The device does not matter.

    Memory of the CPU is read in place. Of tensors of other kinds the inner tensors are hashed: values and indices of
    sparse ones, the local part of a DTensor. A meta tensor has no bytes.
    """
    state = hashlib.blake2b(digest_size=16)
    _feed(state, tensor.detach())
    return state.hexdigest()


def digests(tensors: Iterable[Tensor]) -> list[str]:
    """Return the hash of each, computed in several threads: hashing lets go of Python's lock."""
    several = list(tensors)
    if sum(tensor.nbytes for tensor in several if tensor.layout is torch.strided) < _CHUNK:
        return [digest(tensor) for tensor in several]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(digest, several))


def _feed(state: Any, tensor: Tensor) -> None:
    state.update(f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout}".encode())
    if tensor.is_meta:
        return
    for inner in _inner(tensor):
        _feed(state, inner)
    if tensor.layout is torch.strided and not hasattr(tensor, "__tensor_flatten__") and not tensor.is_quantized:
        _feed_bytes(state, tensor.resolve_conj().resolve_neg().contiguous())


def _inner(tensor: Tensor) -> list[Tensor]:
    """Return the plain tensors that make up one that is not plain."""
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        parts = (getattr(tensor, name) for name in names)
        return [part for part in parts if isinstance(part, Tensor)]  # a DTensor names its mesh too
    if tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        return [whole.indices(), whole.values()]
    if tensor.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor.int_repr(), tensor.dequantize()] if tensor.is_quantized else []


def _feed_bytes(state: Any, tensor: Tensor) -> None:
    if tensor.device.type == "cpu":
        # Through the address: numpy() would need numpy, and has no bfloat16.
        state.update((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr()) if tensor.nbytes else b"")
        return
    flat = tensor.reshape(-1).view(torch.uint8)
    for begin in range(0, flat.numel(), _CHUNK):
        _feed_bytes(state, flat[begin : begin + _CHUNK].cpu())
