"""What a frozen tensor was, to tell whether it still is."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hookline.freezing.digest import digests
from hookline.freezing.layout import Slot
from hookline.freezing.ledger import entry

_SAMPLED = 1024


@dataclass(frozen=True)
class Fingerprint:
    """The hash of a tensor, and a few of its values.

    Attributes:
        slot: the place of the tensor.
        digest: the hash of its bytes.
        tensor: the tensor that was there.
        version: how often it had been written to, as PyTorch counts; None when it does not.
        loads: how often weights had been loaded into the module.
        sample: up to 1024 of its values, evenly spread, float64 or complex128.
        size: the number of its elements.
        dtype, shape: of the tensor.
    """

    slot: Slot
    digest: str
    tensor: weakref.ref[Tensor]
    version: int | None
    loads: int
    sample: Tensor | None
    size: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def amount(self, now: Tensor) -> str:
        """Say by how much the tensor differs from what it was."""
        if now.dtype != self.dtype or tuple(now.shape) != self.shape:
            return f"is {now.dtype} {tuple(now.shape)}, was {self.dtype} {self.shape}"
        sample = sampled(now)
        if self.sample is None or sample is None:
            return "differs"
        change = (sample - self.sample).abs().nan_to_num(nan=float("inf"))
        if sample.numel() < self.size and not bool(change.any()):
            return f"differs, in none of {sample.numel():,} of its {self.size:,} values"
        least = "" if sample.numel() == self.size else "at least "
        return f"differs by {least}{change.max().item():.3g}"


def fingerprints(slots: Sequence[Slot]) -> list[Fingerprint]:
    """Return the fingerprint of what is in each place now."""
    there = [(slot, tensor) for slot in slots if (tensor := slot.tensor) is not None]
    hashes = digests(tensor for _, tensor in there)
    return [_fingerprint(slot, tensor, hashed) for (slot, tensor), hashed in zip(there, hashes, strict=True)]


def _fingerprint(slot: Slot, tensor: Tensor, hashed: str) -> Fingerprint:
    return Fingerprint(
        slot=slot,
        digest=hashed,
        tensor=weakref.ref(tensor),
        version=version(tensor),
        loads=entry(slot.module).loads,
        sample=sampled(tensor),
        size=tensor.numel(),
        dtype=tensor.dtype,
        shape=tuple(tensor.shape),
    )


def version(tensor: Tensor) -> int | None:
    """Return how often PyTorch saw the tensor written to; inference tensors are not counted."""
    return None if tensor.is_inference() else tensor._version


def sampled(tensor: Tensor) -> Tensor | None:
    """Return up to 1024 values, evenly spread, as float64 or complex128 on the CPU; None of a tensor without memory."""
    if tensor.is_meta or tensor.layout is not torch.strided or hasattr(tensor, "__tensor_flatten__"):
        return None
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    step = max(1, -(-tensor.numel() // _SAMPLED))
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    # to() gives a float64 tensor on the CPU back as it is: the sample must have memory of its own.
    return tensor.detach().reshape(-1)[::step].to("cpu", wide, copy=True)
