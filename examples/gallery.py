"""Draw one picture of each kind, in both themes, of trained networks: `python examples/gallery.py FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import hookline
from hookline.cli.demo import SENTENCE, photo_model, sentence_model

Picture = tuple[str, hookline.Features, str | None, str | None, dict[str, Any]]


def of_a_photo() -> Iterator[Picture]:
    """Yield what EfficientNet-Lite0 makes of a photo of a cat."""
    model, inputs, options = photo_model("chelsea")
    places = ["_conv_stem", "_blocks.*", "_conv_head", "_conv_head:output.grad", "_blocks.4:output.grad"]
    with hookline.capture(model, *places) as features:
        scores = model(*inputs.args)
        best = int(scores.argmax())
        scores[0, best].backward()
    assert inputs.photos is not None
    photo, label = inputs.photos[0], options["labels"][best]
    yield "maps", features, "_blocks.2", None, {"cells": 24}
    yield "maps-by-gradient", features, "_blocks.4", "maps", {"order": "gradient", "cells": 12}
    yield "overlay", features, "_blocks.4", None, {"photo": photo}
    yield "cam", features, "_conv_head", "cam", {"photo": photo, "label": label}
    yield "cam-smooth", features, "_conv_head", "cam", {"photo": photo, "label": label, "smooth": True}
    yield "gradient", features, "_blocks.4", "gradient", {"photo": photo, "label": label}
    yield "histogram", features, "_blocks.2", "histogram", {}
    yield "depth", features, None, None, {}


def of_a_sentence() -> Iterator[Picture]:
    """Yield what a text encoder makes of a sentence."""
    model, inputs, _ = sentence_model(SENTENCE)
    named = {info.address for info in hookline.functions(model, *inputs.args, **inputs.kwargs)}
    softmax = sorted(address for address in named if address.endswith("/softmax"))
    with torch.no_grad(), hookline.capture(model, "encoder.layer.?", *softmax) as features:
        model(*inputs.args, **inputs.kwargs)
    tokens = list(inputs.tokens)
    yield "attention", features, None, "attention", {}
    yield "head", features, softmax[2], None, {"head": 5, "tokens": tokens}
    layers = [name for name in features if not name.endswith("softmax") and features.calls(name)]
    yield "matrix", features, layers[-1], "matrix", {"tokens": tokens}
    yield "tokens", features, None, "tokens", {"tokens": tokens}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for pictures in (of_a_photo(), of_a_sentence()):
        for name, features, address, kind, options in pictures:
            for theme in ("light", "dark"):
                features.plot(address, kind, theme=theme, **options).savefig(folder / f"{name}-{theme}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
