"""The structure of a model, and a hash that tells it from others."""

from __future__ import annotations

import hashlib

from torch import nn


def structure(model: nn.Module) -> dict[str, str]:
    """Return for each module path its class and its own parameters and buffers: names, shapes, dtypes."""
    return {path: _line(module) for path, module in model.named_modules(remove_duplicate=False)}


def structure_hash(model: nn.Module) -> str:
    """Return a hash of the structure: equal for models that differ only in their weights. 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for path, line in structure(model).items():
        digest.update(f"{path}\0{line}\n".encode())
    return digest.hexdigest()


def _line(module: nn.Module) -> str:
    tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    held = ", ".join(f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in tensors)
    return f"{type(module).__module__}.{type(module).__qualname__}({held})"
