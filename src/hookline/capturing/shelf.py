"""Where captured values lie: in memory, and past the budget in files."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hookline.address import leaves
from hookline.capturing.budget import bytes_in, human
from hookline.capturing.skeleton import put_together, taken_apart
from hookline.capturing.snapshot import is_shared
from hookline.errors import CaptureError


class Kept:
    """One captured value.

    Attributes:
        recomputed: whether the call was activation checkpointing's second run.
        order: values are kept in ascending order of this; of those that are alike the latest comes last.
    """

    __slots__ = ("_file", "_size", "_value", "order", "recomputed")

    def __init__(self, value: Any, recomputed: bool, order: tuple[int, int]) -> None:
        self._value = value
        self._file: Path | None = None
        self._size: int | None = None
        self.recomputed = recomputed
        self.order = order

    @property
    def size(self) -> int:
        """Bytes of the tensors; found when it is first asked for, and kept when they move."""
        if self._size is None:
            self._size = bytes_in(self._value)
        return self._size

    @property
    def value(self) -> Any:
        """The value; tensors that were moved to a file are memory maps of it."""
        if self._file is None:
            return self._value
        return put_together(self._value, torch.load(self._file, mmap=True, weights_only=True))

    @property
    def where(self) -> str:
        """Where the value lies: "disk", "shared" with the model while nobody writes to it, or "memory"."""
        if self._file is not None:
            return "disk"
        tensors = [leaf for _, leaf in leaves(self._value) if isinstance(leaf, Tensor)]
        return "shared" if tensors and all(map(is_shared, tensors)) else "memory"

    def move_to(self, file: Path) -> None:
        """Move the tensors to a file."""
        size = self.size  # while the tensors are here
        skeleton, tensors = taken_apart(self._value)
        try:
            # Clones: a view would take its whole base along.
            torch.save([tensor.detach().clone() for tensor in tensors], file)
        except (OSError, RuntimeError) as error:
            file.unlink(missing_ok=True)
            raise CaptureError(
                f"could not move {human(size)} of captured values to {file.parent} ({error}). What was captured "
                "so far is kept. Free space there, set TMPDIR to another folder, or raise budget=."
            ) from error
        self._value, self._file = skeleton, file


class Shelf:
    """Keeps values within a number of bytes of memory: past it the oldest go to files in a temporary folder.

    The folder goes when the shelf does.
    """

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self._in_memory: deque[Kept] = deque()
        self._bytes = 0
        self._folder: Path | None = None
        self._numbers = itertools.count()

    def keep(self, value: Any, *, recomputed: bool = False, order: tuple[int, int] = (0, 0)) -> Kept:
        """Return the value as one that this shelf looks after."""
        kept = Kept(value, recomputed, order)
        if self.budget is not None:
            self._in_memory.append(kept)
            self._bytes += kept.size
            while self._bytes > self.budget and self._in_memory:
                oldest = self._in_memory.popleft()
                self._bytes -= oldest.size
                if oldest.size:
                    oldest.move_to(self._file())
        return kept

    def drop(self, kept: Kept) -> None:
        """Forget a value that is not needed any more."""
        if self.budget is not None and kept in self._in_memory:
            self._in_memory.remove(kept)
            self._bytes -= kept.size
        if kept._file is not None:
            kept._file.unlink(missing_ok=True)

    def _file(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hookline-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / f"{next(self._numbers)}.pt"
