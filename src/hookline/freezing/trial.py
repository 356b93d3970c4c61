"""One batch on which it is tried whether a frozen beginning can be cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hookline.address import leaves, map_leaves
from hookline.address.paths import unwrapped
from hookline.capturing import features
from hookline.errors import FreezeError
from hookline.freezing.cut import find_cut
from hookline.freezing.example import Example, undisturbed
from hookline.freezing.layout import Layout
from hookline.freezing.level import is_dropout
from hookline.freezing.probing import hashed
from hookline.freezing.run import record
from hookline.freezing.samples import Samples, rows
from hookline.freezing.stand_ins import Recorded
from hookline.freezing.tail import Tail

if TYPE_CHECKING:
    from hookline.freezing.frozen import Frozen

_CLOSE = 1e-3  # of the largest value: kernels sum in another order for another number of samples
_EQUAL = 1e-6  # of the largest value: the same kernels on the same samples; on some devices they sum in any order


class Trial:
    """The first batch, run through a model whose frozen beginning is to be cached.

    Attributes:
        batch: the first batch.
        count: how many samples it has.
        example: the model's arguments for it.
        cut: the last frozen module, and what lies before it.
        features: what that module gives, one tensor for each leaf.
        tail: the rest of the model.

    Raises:
        FreezeError: cached features would be wrong; the message says why.
    """

    def __init__(self, frozen: Frozen, samples: Samples) -> None:
        self.frozen = frozen
        self.samples = samples
        self.model = unwrapped(frozen.model)  # neither compiled nor in a wrapper of its own
        self.device = next(iter(self.model.parameters())).device
        self.count = min(max(2, samples.batch_size), len(samples))  # of one alone nothing shows which axis is theirs
        self.batch = samples.batch(range(self.count))
        self.example = self.arguments(self.batch)
        rows(samples.kept(self.batch), self.count, "what is kept beside the features", constants=False)
        layout = Layout(self.model)
        self.cut = find_cut(layout, frozen._holding.part, record(layout, self.example, training=True))
        self._check_level(layout)
        self.features = self._checked_features()
        self.tail = self._checked_tail()

    def arguments(self, batch: object) -> Example:
        """Return the arguments of the model for a batch, on the model's device."""
        given = self.samples.example(batch)
        args, kwargs = map_leaves(
            lambda _, leaf: leaf.to(self.device) if isinstance(leaf, Tensor) else leaf, [given.args, given.kwargs]
        )
        return Example(args, kwargs)

    def compute(self, example: Example) -> list[Tensor]:
        """Return the tensors that the last frozen module gives; the rest of the model is not run."""
        with torch.no_grad():
            captured = features(self.model, *example.args, at=self.cut.module, **example.kwargs)
        (value,) = captured.values()
        return [leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor)]

    def _check_level(self, layout: Layout) -> None:
        if self.frozen.level != "function":
            raise FreezeError(
                f"level={self.frozen.level!r} lets the frozen part compute in training otherwise than in inference; "
                "only features of level='function' are the same each epoch."
            )
        for module in self.cut.prefix.modules.values():
            if is_dropout(module) and module.training and getattr(module, "p", True):
                raise FreezeError(
                    f"{layout.path(module)!r} drops values at random each time (dropout=True): the features differ "
                    "from epoch to epoch. Freeze with dropout=False."
                )

    def _checked_features(self) -> list[Tensor]:
        path = self.cut.path
        with undisturbed(self.model, training=True):
            first, again = self.compute(self.example), self.compute(self.example)
            if hashed(first) != hashed(again):
                raise FreezeError(
                    f"the output of {path!r} differs between two runs on one input: something up to there is random (a "
                    "functional dropout?) or keeps a state, so that it is not the same each epoch."
                )
            rows(first, self.count, f"the output of {path!r}")
            alone = self.compute(self.arguments(self.samples.batch([0])))
        if not close(alone, [each[:1] for each in first]):
            raise FreezeError(
                f"the output of {path!r} for a sample depends on the others in its batch (a norm that uses the "
                "statistics of the batch?), so that it is not the same each epoch."
            )
        return first

    def _checked_tail(self) -> Tail:
        failed: Exception | None = None
        with undisturbed(self.model, training=False), torch.no_grad():
            wanted = self.example.run(self.model)
            one = self.arguments(self.samples.batch([0]))
            wanted_of_one = one.run(self.model)
            recorded = Recorded(self.model, self.cut, self.example, one, self.count)
            # Code outside of modules may write in place to what it is given, which needs memory of its own.
            for dense in (False, True):
                tail = Tail(self.model, self.frozen, self.cut, recorded, dense=dense)
                try:
                    given, more = tail.depends_on_more(*self.features)
                    same = not more and close(_tensors(given), _tensors(wanted), _EQUAL)
                    if same and close(_tensors(tail(*(each[:1] for each in self.features))), _tensors(wanted_of_one)):
                        return tail
                except Exception as error:
                    failed = error
        reason = f" ({type(failed).__name__}: {failed})" if failed else ""
        raise FreezeError(
            f"what comes after {self.cut.path!r} needs more than its output, such as the input or an earlier output (a "
            f"skip connection), and cannot be trained from stored features{reason}. Freeze less or more, so that the "
            "frozen part ends where one value goes on."
        ) from failed


def close(first: Sequence[Tensor], second: Sequence[Tensor], tolerance: float = _CLOSE) -> bool:
    """Return whether tensors are equal up to the order in which their values were summed; NaN equals nothing."""
    return len(first) == len(second) and all(
        one.shape == other.shape
        and torch.allclose(one, other, tolerance, tolerance * float(other.abs().max()) if other.numel() else 0.0)
        for one, other in zip(first, second, strict=True)
    )


def _tensors(value: object) -> list[Tensor]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor)]
