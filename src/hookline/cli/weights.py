"""A weights file: a state dict that is read and put into a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hookline.cli.tensor_files import read_tensors
from hookline.errors import CommandError


def load_weights(model: nn.Module, file: Path) -> None:
    """Put the weights of a `.pt`, `.pth` or `.safetensors` file into the model; all of them fit, or none is put in.

    Raises:
        CommandError: the file is no state dict, or it does not fit; the message names the first difference.
    """
    state = read_tensors(file)
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise CommandError(f"{file} holds no state dict, which is a dict from names to tensors.")
    problem = _difference(model.state_dict(), state)
    if problem:
        raise CommandError(f"the weights of {file} do not fit the model: {problem}.")
    model.load_state_dict(state)


def _difference(wanted: dict[str, Any], got: dict[str, Tensor]) -> str:
    missing = [name for name in wanted if name not in got]
    surplus = [name for name in got if name not in wanted]
    if missing:
        return f"{_several(missing)} of the model {_verb(missing)} missing in the file" + (
            f", and {_several(surplus)} of the file {_verb(surplus)} not in the model" if surplus else ""
        )
    if surplus:
        return f"{_several(surplus)} of the file {_verb(surplus)} not in the model"
    for name, value in wanted.items():
        if isinstance(value, Tensor) and value.shape != got[name].shape:
            return f"{name!r} has shape {tuple(value.shape)} in the model and {tuple(got[name].shape)} in the file"
    return ""


def _several(names: list[str]) -> str:
    return repr(names[0]) if len(names) == 1 else f"{names[0]!r} and {len(names) - 1} more"


def _verb(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
