"""How many bytes a forward pass saves for the backward pass, because of one trainable tensor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hookline.freezing.example import Example, undisturbed
from hookline.freezing.layout import Slot
from hookline.freezing.report import Earliest


def saved_bytes(model: nn.Module, example: Example) -> int:
    """Return the bytes of activations that autograd saves in one forward pass in training mode.

    Counted by storage, each once; parameters and buffers are not counted, for they are there anyway. Source: the
    saved-tensors hooks of PyTorch (torch.autograd.graph.saved_tensors_hooks).
    """
    sizes: dict[int, int] = {}
    kept: list[Tensor] = []  # so that no storage is freed and its address used again

    def pack(tensor: Tensor) -> Tensor:
        if tensor.layout is torch.strided and not hasattr(tensor, "__tensor_flatten__"):
            storage = tensor.untyped_storage()
            sizes[storage._cdata] = storage.nbytes()
            kept.append(tensor)
        return tensor

    with undisturbed(model, training=True), torch.enable_grad():
        own = {
            each.untyped_storage()._cdata
            for each in (*model.parameters(), *model.buffers())
            if each.layout is torch.strided and not hasattr(each, "__tensor_flatten__")
        }
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = example.run(model)  # noqa: F841 - holds the graph
        return sum(size for storage, size in sizes.items() if storage not in own)


def cost(model: nn.Module, example: Example, slot: Slot) -> Earliest:
    """Return what a forward pass saves, and what it would save if one more parameter did not train."""
    tensor = slot.tensor
    assert tensor is not None
    saved = saved_bytes(model, example)
    tensor.requires_grad_(False)
    try:
        return Earliest(slot.path, saved, saved_bytes(model, example))
    finally:
        tensor.requires_grad_()
