"""An input as the shell names it: a photo, a folder, a file of tensors, random numbers or a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hookline.address import map_leaves
from hookline.cli import tensor_files
from hookline.cli.images import Preparation, image_files, photos
from hookline.cli.text import tokenized
from hookline.errors import CommandError


@dataclass(frozen=True)
class Inputs:
    """What a model is called with.

    Attributes:
        args: the positional arguments.
        kwargs: the keyword arguments.
        said: what was done to get there, for people to read.
        photos: the photos as the network sees them, uint8 of shape (batch, 3, height, width), or None.
        names: the names of the photos.
        tokens: the tokens of a sentence.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    photos: Tensor | None = None
    names: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()

    def __add__(self, other: Inputs) -> Inputs:
        return Inputs(
            self.args + other.args,
            self.kwargs | other.kwargs,
            self.said + other.said,
            other.photos if self.photos is None else self.photos,
            self.names or other.names,
            self.tokens or other.tokens,
        )

    def to(self, device: torch.device) -> Inputs:
        """Return the same with all tensors on a device."""

        def moved(_: Any, leaf: Any) -> Any:
            return leaf.to(device) if isinstance(leaf, Tensor) else leaf

        args, kwargs = map_leaves(moved, (self.args, self.kwargs))
        return Inputs(args, kwargs, self.said, self.photos, self.names, self.tokens)


def read_inputs(specs: Sequence[str], preparation: Preparation, tokenizer: Path | None) -> Inputs:
    """Return what the `--input` options name, each one positional argument, or several by name.

    Raises:
        CommandError: one of them cannot be read; the message says which and why.
    """
    if not specs:
        raise CommandError(
            "an input is missing: --input photo.jpg, a folder of photos, x.npy, x.pt, x.safetensors, "
            "random:1x3x224x224 or text:'A sentence.'"
        )
    return sum((_read(spec, preparation, tokenizer) for spec in specs), Inputs())


def _read(spec: str, preparation: Preparation, tokenizer: Path | None) -> Inputs:
    if spec.startswith("random:"):
        return _random(spec)
    if spec.startswith("text:"):
        kwargs, tokens = tokenized(spec.removeprefix("text:"), tokenizer)
        return Inputs(kwargs=kwargs, said=(f"text: {len(tokens)} tokens",), tokens=tokens)
    path = Path(spec)
    if path.suffix.lower() in tensor_files.SUFFIXES:
        return _tensors(path)
    return _photos(path, preparation)


def _random(spec: str) -> Inputs:
    found = re.fullmatch(r"random:(\d+(?:x\d+)*)", spec)
    if not found:
        raise CommandError(f"{spec!r} is no shape: write random:1x3x224x224.")
    shape = [int(size) for size in found[1].split("x")]
    # A generator of its own: the same numbers each time, and nobody else's are used up.
    value = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return Inputs((value,), said=(f"random: {found[1]}, normal, mean 0, std 1, seed 0",))


def _tensors(path: Path) -> Inputs:
    value = tensor_files.read_tensors(path)
    if isinstance(value, dict) and len(value) == 1 and path.suffix == ".safetensors":
        value = next(iter(value.values()))
    if isinstance(value, dict):
        return Inputs(kwargs=value, said=(f"{path.name}: arguments by name, {', '.join(map(str, value))}",))
    args = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return Inputs(args, said=(f"{path.name}: {', '.join(map(_described, args))}",))


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{'x'.join(map(str, value.shape)) or 'scalar'} {str(value.dtype).removeprefix('torch.')}"
    return type(value).__name__


def _photos(path: Path, preparation: Preparation) -> Inputs:
    if path.is_dir():
        files, others = image_files(path)
        name = f"{path.name}: {len(files)} photos" + (f" ({others} other files left out)" if others else "")
    else:
        files, name = [path], path.name
    pixels = photos(files, preparation)
    said = f"{name}: {preparation}"
    return Inputs((preparation.scaled(pixels),), {}, (said,), pixels, tuple(file.name for file in files))
