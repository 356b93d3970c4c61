"""What a command works on: a model that is ready to run, and its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from hookline.cli.choices import Mode
from hookline.cli.images import Preparation
from hookline.cli.inputs import Inputs, read_inputs
from hookline.cli.model_spec import load_model
from hookline.cli.weights import load_weights
from hookline.errors import CommandError


@dataclass(frozen=True)
class Request:
    """What the arguments of a command say about its model and input.

    Attributes:
        model: as `load_model` reads it.
        inputs: as `read_inputs` reads them.
        weights: a file with other weights.
        mode: to run in.
        device: to run on; None leaves the model where it is.
        tokenizer: the folder of a tokenizer.
        preparation: how photos become inputs.
    """

    model: str
    inputs: Sequence[str] = ()
    weights: Path | None = None
    mode: Mode = Mode.eval
    device: str | None = None
    tokenizer: Path | None = None
    preparation: Preparation = field(default_factory=Preparation)

    def load(self) -> tuple[nn.Module, list[str]]:
        """Return the model, ready to run, and what was done to it, for people to read."""
        model = load_model(self.model)
        said = []
        if self.weights is not None:
            load_weights(model, self.weights)
            said.append(f"weights: {self.weights}")
        if self.mode is not Mode.as_is and any(each.training != (self.mode is Mode.train) for each in model.modules()):
            model.train(self.mode is Mode.train)
            said.append(f"mode: set to {self.mode.value}; --mode as-is leaves it as {self.model} gave it")
        if self.device is not None:
            model.to(_device(self.device))
        return model, said

    def read(self, model: nn.Module) -> Inputs:
        """Return the input, on the device of the model."""
        return placed(read_inputs(self.inputs, self.preparation, self.tokenizer), model)


def placed(inputs: Inputs, model: nn.Module) -> Inputs:
    """Return the input on the device of the model."""
    first = next((tensor for tensor in (*model.parameters(), *model.buffers())), None)
    return inputs if first is None else inputs.to(first.device)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise CommandError(f"the device {name!r} cannot be used: {str(error).splitlines()[0]:.120}") from error
    return device
