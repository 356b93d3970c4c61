"""Features of samples in safetensors files, written so that a killed run loses nothing that was written."""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from hookline.errors import FreezeError, MissingExtraError

_FORMAT = 1
_INDEX = "index.json"


class Shards:
    """A folder of features: files of samples in order, and an index, which counts only what is there whole.

    Args:
        folder: made if it is not there.
        key: what the features depend on, by name; a folder of other features is refused.

    Raises:
        MissingExtraError: safetensors is not installed.
        FreezeError: the folder holds features that depend on something else, or other files.
    """

    def __init__(self, folder: Path, key: dict[str, str]) -> None:
        _safetensors()
        self.folder = folder
        self._open: dict[str, Any] = {}
        self._index: dict[str, Any] = {"format": _FORMAT, "key": key, "seconds": {}, "shards": []}
        if (folder / _INDEX).exists():
            self._index = self._read(key)
        elif folder.exists() and any(each.suffix != ".partial" for each in folder.iterdir()):
            raise FreezeError(f"{str(folder)!r} holds other files, and no index of features: name an empty folder.")

    def __len__(self) -> int:
        return sum(shard["count"] for shard in self._index["shards"])

    @property
    def hashes(self) -> list[str]:
        """The hash of the input of each sample."""
        return [each for shard in self._index["shards"] for each in shard["inputs"]]

    @property
    def seconds(self) -> dict[str, float]:
        """What was measured while the features were made."""
        return self._index["seconds"]  # type: ignore[no-any-return]

    def append(self, samples: Sequence[list[Tensor]], inputs: Sequence[str], seconds: dict[str, float]) -> None:
        """Write the tensors of some samples to a file of their own; all of them are there then, or none."""
        first = len(self)
        tensors = {
            f"{first + at}.{leaf}": tensor.detach().cpu().contiguous().clone()
            for at, sample in enumerate(samples)
            for leaf, tensor in enumerate(sample)
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"features-{first:09d}.safetensors"
        partial = self.folder / f"{name}.partial"
        _safetensors().torch.save_file(tensors, partial)
        os.replace(partial, self.folder / name)  # noqa: PTH105 - whoever reads sees nothing or the whole file
        self._index["shards"].append({"file": name, "first": first, "count": len(samples), "inputs": list(inputs)})
        self._index["seconds"] = seconds
        partial = self.folder / f"{_INDEX}.partial"
        partial.write_text(json.dumps(self._index), encoding="utf-8")
        os.replace(partial, self.folder / _INDEX)  # noqa: PTH105

    def sample(self, index: int, leaves: int) -> list[Tensor]:
        """Return the tensors of one sample."""
        shards = self._index["shards"]
        shard = shards[bisect.bisect_right(shards, index, key=lambda each: each["first"]) - 1]
        file = self._open.get(shard["file"])
        if file is None:
            file = _safetensors().safe_open(str(self.folder / shard["file"]), framework="pt")
            self._open[shard["file"]] = file
        return [file.get_tensor(f"{index}.{leaf}") for leaf in range(leaves)]

    def __getstate__(self) -> dict[str, Any]:
        # For the workers of a DataLoader, each of which opens the files itself.
        return {**self.__dict__, "_open": {}}

    def _read(self, key: dict[str, str]) -> dict[str, Any]:
        index: dict[str, Any] = json.loads((self.folder / _INDEX).read_text(encoding="utf-8"))
        if index.get("format") != _FORMAT:
            raise FreezeError(f"{str(self.folder)!r} has format {index.get('format')}; this version reads {_FORMAT}.")
        other = [name for name, value in key.items() if index["key"].get(name) != value]
        if other:
            raise FreezeError(
                f"{str(self.folder)!r} holds features of other {' and '.join(other)}: they are not those of this "
                "model. Delete the folder, or name another one."
            )
        missing = [each["file"] for each in index["shards"] if not (self.folder / each["file"]).exists()]
        if missing:
            raise FreezeError(f"{str(self.folder)!r} lacks {', '.join(missing)}: delete the folder and cache anew.")
        return index


def _safetensors() -> Any:
    try:
        import safetensors  # noqa: PLC0415 - an extra
        import safetensors.torch  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("caching features needs safetensors: pip install 'hookline[save]'") from error
    return safetensors
