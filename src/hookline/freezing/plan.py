"""A freeze as JSON, to be kept beside a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from hookline.address.paths import unwrapped
from hookline.errors import FreezeError, NotFrozenError
from hookline.freezing.digest import digests
from hookline.freezing.fingerprint import Fingerprint
from hookline.freezing.layout import Layout, Part, Slot
from hookline.structure import structure_hash

_FORMAT = 1
_KEYS = ("structure", "level", "dropout", "asked", "frozen", "weights")


def described(
    layout: Layout, asked: Part, part: Part, options: dict[str, Any], prints: Iterable[Fingerprint]
) -> dict[str, Any]:
    """Return a freeze as what JSON can hold; see `Frozen.plan`."""
    return {
        "hookline freeze": _FORMAT,
        "structure": structure_hash(unwrapped(layout.model)),
        **options,
        "asked": _paths(layout, asked),
        "frozen": _paths(layout, part),
        "weights": {each.slot.path: each.digest for each in prints},
    }


def read(given: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return a plan that is given as such or as the name of a JSON file.

    Raises:
        FreezeError: it is no plan, or one of another version.
    """
    plan = given if isinstance(given, Mapping) else json.loads(Path(given).read_text(encoding="utf-8"))
    version = plan.get("hookline freeze") if isinstance(plan, Mapping) else None
    if version is None or any(key not in plan for key in _KEYS):
        raise FreezeError("this is no plan that Frozen.plan() made.")
    if version != _FORMAT:
        raise FreezeError(f"the plan has format {version}; this version of hookline reads {_FORMAT}.")
    return plan


def check_structure(model: nn.Module, plan: Mapping[str, Any]) -> None:
    """Raise FreezeError unless the model has the structure of the one that the plan was made of."""
    if structure_hash(unwrapped(model)) != plan["structure"]:
        raise FreezeError(
            "the plan was made of a model of another structure: other modules, shapes or dtypes. Build the model as it "
            "was built then; before it is wrapped or converted, if it was so then."
        )


def part(layout: Layout, paths: Mapping[str, list[str]]) -> Part:
    """Return the modules and parameters that have the paths.

    Raises:
        FreezeError: the model has none at one of them.
    """
    modules = {place.paths[0]: place.module for place in layout.places}
    slots = {slot.path: slot for slot in layout.slots}
    missing = [*(set(paths["modules"]) - modules.keys()), *(set(paths["parameters"]) - slots.keys())]
    if missing:
        raise FreezeError(f"the plan names what the model does not have: {', '.join(map(repr, sorted(missing)))}.")
    return Part(
        {id(modules[path]): modules[path] for path in paths["modules"]},
        {slots[path].key: slots[path] for path in paths["parameters"]},
    )


def check_weights(slots: Iterable[Slot], plan: Mapping[str, Any]) -> None:
    """Raise NotFrozenError if a tensor is not what it was when the plan was made."""
    several = [slot for slot in slots if slot.tensor is not None]
    hashed = digests(slot.tensor for slot in several if slot.tensor is not None)
    other = [slot.path for slot, now in zip(several, hashed, strict=True) if plan["weights"].get(slot.path) != now]
    if other:
        raise NotFrozenError(
            f"{len(other)} tensors are not what they were when the plan was made: {', '.join(other[:6])}"
            f"{', ...' if len(other) > 6 else ''}. Load the checkpoint first, or, where other weights are meant, pass "
            "strict=False."
        )


def _paths(layout: Layout, part: Part) -> dict[str, list[str]]:
    return {
        "modules": [place.paths[0] for place in layout.places if id(place.module) in part.modules],
        "parameters": [slot.path for slot in layout.slots if slot.key in part.slots],
    }
