"""An example input of a model, and a run on it that leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from hookline.freezing.ledger import holds_mode


@dataclass(frozen=True)
class Example:
    """The arguments of one call.

    Attributes:
        args: those by position.
        kwargs: those by name.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> Example:
        """Return the example that is given as a tuple of arguments, a dict of named ones, or a single argument."""
        if isinstance(given, tuple):
            return cls(given)
        if isinstance(given, Mapping):
            return cls((), dict(given))
        return cls((given,))

    def run(self, model: nn.Module) -> Any:
        """Return what the model gives."""
        return model(*self.args, **self.kwargs)


@contextmanager
def undisturbed(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Let a block run the model in one mode, and leave modes, buffers and random numbers as they were.

    What a freeze keeps in inference mode stays there. Compiled code is not used: nothing is compiled for this.
    """
    modules = [module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule)]
    modes = [module.training for module in modules]
    buffers = [dict(module._buffers) for module in modules]
    scripted = (each for each in model.modules() if isinstance(each, torch.jit.ScriptModule))
    kept = [(buffer, buffer.clone()) for each in scripted for buffer in each.buffers(recurse=False)]
    gpus = {tensor.device for tensor in model.parameters() if tensor.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(gpus)), torch.compiler.set_stance("force_eager"):
        try:
            for module, own in zip(modules, buffers, strict=True):
                # Past train(): that is for the user's own code, and a freeze takes note of what it says.
                module.training = training and not holds_mode(module)
                module._buffers.update({name: None if each is None else each.clone() for name, each in own.items()})
            yield
        finally:
            for module, mode, own in zip(modules, modes, buffers, strict=True):
                module.training = mode
                module._buffers.update(own)
            for buffer, value in kept:  # TorchScript does not look at what stands in for them
                buffer.copy_(value)
