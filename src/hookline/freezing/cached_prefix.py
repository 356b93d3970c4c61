"""The stored output of a frozen beginning, and what trains from it."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from hookline.address import map_leaves
from hookline.freezing.shards import Shards
from hookline.freezing.tail import Tail


class FeatureDataset(Dataset[Any]):
    """One item for each sample: its features, and what was kept beside them; in the order of the data set.

    An item is `(features, *kept)`; features is a tensor, or a tuple of them where the last frozen module gives several.
    """

    def __init__(self, shards: Shards, kept: Any, features: int) -> None:
        self._shards = shards
        self._kept = map_leaves(lambda _, leaf: _PLACE if isinstance(leaf, Tensor) else leaf, kept)
        self._features = features
        self._leaves = features + _places(kept)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} samples, got index {index}.")
        tensors = self._shards.sample(index % len(self), self._leaves)
        features = tuple(tensors[: self._features])
        rest = iter(tensors[self._features :])
        kept = map_leaves(lambda _, leaf: next(rest) if leaf == _PLACE else leaf, self._kept)
        return (features[0] if len(features) == 1 else features, *kept)


class CachedPrefix:
    """The features of a data set, and the rest of the model to train from them; made by `Frozen.cache`.

    ```python
    cached = frozen.cache(loader, "features")
    for features, target in DataLoader(cached.dataset, 64, shuffle=True):
        loss = criterion(cached.tail(features), target)
    ```

    Attributes:
        dataset: one item `(features, *kept)` for each sample.
        tail: a module that is called with features and gives what the model gives; its parameters are the model's.
        path: the last frozen module, whose output is stored.
        prefix_seconds: what the frozen beginning took for a sample.
        read_seconds: what reading a stored sample takes.
    """

    def __init__(self, dataset: FeatureDataset, tail: Tail, path: str, seconds: dict[str, float], read: float) -> None:
        self.dataset = dataset
        self.tail = tail
        self.path = path
        self.prefix_seconds = seconds["prefix"]
        self.read_seconds = read
        self._made_seconds = seconds["prefix"] + seconds["write"]

    @property
    def break_even(self) -> float:
        """After how many epochs caching has paid for itself; infinite when reading takes longer than computing."""
        saved = self.prefix_seconds - self.read_seconds
        return self._made_seconds / saved if saved > 0 else float("inf")

    def __repr__(self) -> str:
        return (
            f"<CachedPrefix of {len(self.dataset)} samples up to {self.path!r}: {self.prefix_seconds * 1e3:.2f} ms a "
            f"sample computed, {self.read_seconds * 1e3:.2f} ms read; pays from {self.break_even:.1f} epochs on>"
        )


_PLACE = "hookline: a tensor of the sample"


def _places(kept: Any) -> int:
    found: list[None] = []
    map_leaves(lambda _, leaf: found.append(None) if isinstance(leaf, Tensor) else None, kept)
    return len(found)
