"""Which parts train from which epoch on."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from hookline.errors import HookTypeError, MissingExtraError, NoMatchError
from hookline.freezing.layout import Layout, Part
from hookline.freezing.naming import named

if TYPE_CHECKING:
    from hookline.freezing.frozen import Frozen


class FreezeSchedule:
    """What trains from which epoch, or step, on: a function of the epoch alone, so that a resumed run needs no state.

    ```python
    schedule = hookline.freeze(model, ".").schedule({0: "head", 3: "layer4", 5: "layer3"})
    for epoch in range(first_epoch, 10):
        schedule.apply(epoch)
    ```

    Args:
        frozen: what is frozen when nothing is thawed.
        plan: for an epoch what trains from it on; epochs may be in any order.

    Raises:
        NoMatchError: something in the plan names nothing in the model, or nothing that is to be frozen.
        HookTypeError: an epoch is no whole number.
    """

    def __init__(self, frozen: Frozen, plan: Mapping[int, Any]) -> None:
        layout = Layout(frozen.model)
        self._frozen = frozen
        self._thawed: dict[int, Part] = {}
        for epoch in _checked(plan):
            part = named(layout, [plan[epoch]]) & frozen._holding.asked
            if not part:
                raise NoMatchError(f"at {epoch}, nothing that {plan[epoch]!r} names is in what was to be frozen.")
            self._thawed[epoch] = part

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs at which something changes."""
        return tuple(sorted(self._thawed))

    def trainable(self, epoch: int) -> tuple[str, ...]:
        """Return the paths of the parameters that the schedule has thawed at an epoch, in the order of the model."""
        part = self._at(epoch)
        return tuple(slot.path for slot in Layout(self._frozen.model).slots if slot.key in part.slots)

    def apply(self, epoch: int) -> None:
        """Thaw, and freeze again, until just what is to train at an epoch trains. Groups of optimizers never change.

        Raises:
            FreezeError: it cannot be done now, see `Frozen.thaw`; nothing has been changed.
        """
        self._frozen._holding.become(self._frozen._holding.asked - self._at(epoch))

    def lightning_callback(self, *, unit: Literal["epoch", "step"] = "epoch") -> Any:
        """Return a callback for a Lightning trainer that applies the schedule.

        Args:
            unit: what the numbers of the schedule count: epochs, or the steps of the optimizer.

        Raises:
            MissingExtraError: neither `lightning` nor `pytorch_lightning` is installed.
        """
        if unit not in {"epoch", "step"}:
            raise HookTypeError(f"unit is 'epoch' or 'step', got {unit!r}.")
        apply = self.apply

        class Applies(_callback_class()):  # type: ignore[misc]
            """Applies the schedule at the begin of each epoch or step, also of a run that is resumed."""

            def on_train_epoch_start(self, trainer: Any, _module: Any) -> None:
                """Apply what holds in this epoch."""
                if unit == "epoch":
                    apply(trainer.current_epoch)

            def on_train_batch_start(self, trainer: Any, _module: Any, _batch: Any, _index: int) -> None:
                """Apply what holds at this step."""
                if unit == "step":
                    apply(trainer.global_step)

        return Applies()

    def _at(self, epoch: int) -> Part:
        part = Part()
        for first, thawed in self._thawed.items():
            if first <= epoch:
                part |= thawed
        return part


def _checked(plan: Any) -> list[int]:
    if not isinstance(plan, Mapping) or not plan:
        raise HookTypeError(f"a schedule is a dict such as {{0: 'head', 3: 'layer4'}}, got {plan!r:.80}.")
    for epoch in plan:
        if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
            raise HookTypeError(f"the epochs of a schedule are whole numbers from 0 on, got {epoch!r}.")
    return list(plan)


def _callback_class() -> Any:
    for name in ("lightning.pytorch", "pytorch_lightning"):  # the new name and the old one
        with contextlib.suppress(ImportError):
            return importlib.import_module(name).Callback
    raise MissingExtraError("the callback needs Lightning: pip install lightning")
