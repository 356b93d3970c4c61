"""What the model was shown, and what it says: the photo, the likeliest classes, the tokens."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hookline.address import leaves
from hookline.errors import HookTypeError, MissingExtraError
from hookline.looking.report.packing import packed, rounded
from hookline.looking.report.sample import value_range


@dataclass(frozen=True)
class Hero:
    """The input and the answer.

    Attributes:
        photo: uint8, shape (3, height, width), or None.
        classes: the likeliest classes, each with its probability.
        tokens: the words of the input.
        cam: what in the photo speaks for the likeliest class, shape (height, width), or None.
        cam_said: what `cam` is, for people to read.
    """

    photo: Tensor | None
    classes: tuple[tuple[str, float], ...]
    tokens: tuple[str, ...]
    cam: Tensor | None = None
    cam_said: str = ""

    def packed(self, number: int) -> tuple[dict[str, Any] | None, list[str]]:
        """Return what the page's script has to know of the map over the photo, and its values."""
        if self.cam is None or self.photo is None:
            return None, []
        height, width = self.cam.shape
        low, high, _ = value_range(rounded(self.cam))
        picture = {
            "kind": "maps",
            "shape": [1, height, width],
            "channels": [0],
            "words": {},
            "cell": "Grad-CAM",
            "step": [1, 1],
            "index": ["y", "x"],
            "low": min(low, 0.0),
            "high": max(high, self.cam.max().item()),
            "signed": False,
            "tokens": False,
            "data": number,
        }
        return picture, [packed(self.cam)]

    def to_dict(self) -> dict[str, Any] | None:
        """Return what the template shows; None when there is nothing."""
        if self.photo is None and not self.classes and not self.tokens:
            return None
        found: dict[str, Any] = {
            "photo": None,
            "classes": self.classes,
            "tokens": self.tokens,
            "cam": self.cam is not None,
            "note": "softmax of the model's output",
        }
        if self.photo is not None:
            _, height, width = self.photo.shape
            caption = f"The input as the model gets it, {width} x {height} pixels."
            found |= {
                "photo": png(self.photo),
                "width": width,
                "height": height,
                "alt": "the photo that the model was given",
            }
            found["caption"] = f"{caption} {self.cam_said}".strip()
        return found


def likeliest(output: Any, labels: Sequence[str], *, item: int = 0, number: int = 5) -> list[tuple[str, float]]:
    """Return the likeliest classes with their probabilities, the softmax of the scores.

    Args:
        output: what a classifier returned: scores (batch, classes), or a structure that holds such a tensor.
        labels: a name for each class.
        item: which of the batch.
        number: how many.

    Raises:
        HookTypeError: there is no such tensor in it.
    """
    top = scores(output, len(labels))[item].float().softmax(-1).topk(min(number, len(labels)))
    return [(labels[index], share) for share, index in zip(top.values.tolist(), top.indices.tolist(), strict=True)]


def scores(output: Any, classes: int) -> Tensor:
    """Return the scores in what a classifier returned, shape (batch, classes).

    Raises:
        HookTypeError: there is no such tensor in it.
    """
    for _, leaf in leaves(output):
        if isinstance(leaf, Tensor) and leaf.dim() == 2 and leaf.shape[1] == classes:
            return leaf
    raise HookTypeError(f"the model's output has no score for each of the {classes} labels.")


def png(photo: Tensor) -> str:
    """Return a photo, uint8 of shape (3, height, width), as a data URI."""
    try:
        from PIL import Image  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("photos need pillow: pip install 'hookline[look]'.") from None
    out = io.BytesIO()
    Image.fromarray(photo.to("cpu", torch.uint8).permute(1, 2, 0).contiguous().numpy()).save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
