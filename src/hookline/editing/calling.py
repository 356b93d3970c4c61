"""A model called with an input that is written as one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn


def called(model: nn.Module, inputs: Any) -> Any:
    """Return the model's output for a tensor, a tuple of positional arguments, or a dict of keyword arguments."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)
