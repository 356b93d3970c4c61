"""Features in a safetensors file.

The tensors are named `address#call.leaf`. The metadata holds one JSON document under "hookline": the version of this
format, the hash of the model's structure, and for each site its addresses, calls, and the structure of each value.
Named tuples, dataclasses and `ModelOutput`s are written as the mappings that they are; loading needs none of their
classes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hookline.address import children
from hookline.capturing.feature_map import Features
from hookline.capturing.values import Values
from hookline.errors import CaptureError, MissingExtraError

_FORMAT = 1
_CONSTANTS = (bool, int, float, str, type(None))


def save(sites: Mapping[str, Values], path: Path) -> None:
    """Write the values of all sites; see `Features.save`."""
    write_file = _safetensors().torch.save_file
    tensors: dict[str, Tensor] = {}
    described = {name: _described(name, site, tensors) for name, site in sites.items()}
    model = next((site.structure_hash for site in sites.values()), "")
    document = {"format": _FORMAT, "structure": model, "sites": described}
    partial = path.with_name(path.name + ".partial")
    try:
        write_file(tensors, partial, metadata={"hookline": json.dumps(document)})
        os.replace(partial, path)  # noqa: PTH105 - whoever reads sees the old file or the whole new one
    except Exception as error:
        partial.unlink(missing_ok=True)
        raise CaptureError(f"could not write {path}: {error}") from error


def load_features(path: str | Path) -> Features:
    """Return the features that `Features.save` wrote to `path`; each tensor is read when it is asked for.

    Raises:
        MissingExtraError: safetensors is not installed.
        FileNotFoundError: there is no such file.
        CaptureError: it is no file of features.
    """
    opener = _safetensors().safe_open
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        file = opener(str(path), framework="pt")
        document = json.loads((file.metadata() or {})["hookline"])
    except (KeyError, ValueError, OSError, RuntimeError, _safetensors().SafetensorError) as error:
        raise CaptureError(f"{str(path)!r} is no file that Features.save() wrote ({error}).") from error
    if document["format"] != _FORMAT:
        raise CaptureError(f"{str(path)!r} has format {document['format']}; this version of hookline reads {_FORMAT}.")
    return Features(
        {name: _FileValues(file, document["structure"], **site) for name, site in document["sites"].items()}
    )


@dataclass(frozen=True)
class _FileValues:
    """The values of one site in a file."""

    file: Any
    structure_hash: str
    names: tuple[str, ...]
    fired: int
    gathers: bool
    module: str
    calls: list[Any]

    def values(self, *, recomputed: bool) -> tuple[Any, ...]:
        """Read the values; recomputed calls are not in files."""
        return () if recomputed else tuple(self._built(node) for node in self.calls)

    def places(self) -> list[tuple[str, int]]:
        """Return "disk" and the bytes of each value."""
        return [("disk", _bytes(node)) for node in self.calls]

    def why_silent(self) -> str:
        """Say what the file knows of a site without values."""
        return "the file has no value for it."

    def _built(self, node: Any) -> Any:
        kind, held = node["is"], node["of"]
        if kind == "tensor":
            return self.file.get_tensor(held["name"])
        if kind == "constant":
            return held
        if kind == "mapping":
            return {key: self._built(inner) for key, inner in held}
        return (tuple if kind == "tuple" else list)(self._built(inner) for inner in held)


def _described(name: str, site: Values, tensors: dict[str, Tensor]) -> dict[str, Any]:
    values = site.values(recomputed=False)
    calls = [_node(value, f"{name}#{number}", tensors) for number, value in enumerate(values)]
    return {"names": site.names, "fired": site.fired, "gathers": site.gathers, "module": site.module, "calls": calls}


def _node(value: Any, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Describe a value as JSON, and put its tensors among `tensors`."""
    if isinstance(value, Tensor):
        if value.layout is not torch.strided or value.is_meta or value.is_quantized or value.is_nested:
            kind = "meta" if value.is_meta else "nested" if value.is_nested else str(value.layout)
            raise CaptureError(f"{name} is a {kind} tensor, which safetensors cannot hold; capture it with reduce=.")
        # Of its own memory, whole: safetensors refuses tensors that share theirs.
        tensors[name] = value.detach().resolve_conj().resolve_neg().contiguous().clone()
        shape, dtype = list(value.shape), str(value.dtype).removeprefix("torch.")
        return {"is": "tensor", "of": {"name": name, "shape": shape, "dtype": dtype, "bytes": value.nbytes}}
    inner = children(value)
    if inner is None:
        if isinstance(value, _CONSTANTS):
            return {"is": "constant", "of": value}
        raise CaptureError(
            f"{name} is of type {type(value).__name__}, which cannot be saved; capture its parts that are tensors."
        )
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"is": kind, "of": [_node(item, f"{name}.{key}", tensors) for key, item in inner]}
    return {"is": "mapping", "of": [(key, _node(item, f"{name}.{key}", tensors)) for key, item in inner]}


def _bytes(node: Any) -> int:
    kind, held = node["is"], node["of"]
    if kind == "tensor":
        return int(held["bytes"])
    if kind == "constant":
        return 0
    return sum(_bytes(inner[1] if kind == "mapping" else inner) for inner in held)


def _safetensors() -> Any:
    try:
        import safetensors  # noqa: PLC0415 - an extra
        import safetensors.torch  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("saving features needs safetensors: pip install 'hookline[save]'") from error
    return safetensors
