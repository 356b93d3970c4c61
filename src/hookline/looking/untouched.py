"""A block that leaves a model and the random numbers as they were, whatever runs in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hookline.capturing.snapshot import snapshot


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Restore buffers (running means, caches) and the state of the random number generators after the block.

    Parameters and gradients are not watched over: a forward under `torch.no_grad()` changes neither.

    Args:
        model: the module whose buffers, those of its submodules too, are restored bit for bit.
    """
    before = [
        (module, name, buffer, None if buffer is None else snapshot(buffer))
        for module in model.modules()
        for name, buffer in module._buffers.items()
    ]
    with torch.random.fork_rng(*_generators(model)):
        try:
            yield
        finally:
            for module, name, buffer, value in before:
                module._buffers[name] = buffer
                if buffer is not None and value is not None and not _same(buffer, value):
                    with torch.no_grad():
                        buffer.copy_(value)


def _generators(model: nn.Module) -> tuple[list[int], bool]:
    """Return the accelerators whose generators are restored: those that the model lies on."""
    tensors = [*model.parameters(), *model.buffers()]
    found = {tensor.device.index or 0 for tensor in tensors if tensor.device.type == "cuda"}
    return sorted(found), True


def _same(buffer: Tensor, value: Tensor) -> bool:
    """Return whether two tensors are the same, NaN for NaN; writing only then keeps a version counter as it was."""
    if buffer.is_meta:
        return True
    return bool(((buffer == value) | ((buffer != buffer) & (value != value))).all())  # noqa: PLR0124 - NaN
