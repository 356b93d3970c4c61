"""What one freeze holds of a model: a set, which can grow and shrink."""

from __future__ import annotations

import weakref

from torch import nn
from torch.optim import Optimizer

from hookline.core.site import registration
from hookline.errors import FreezeError
from hookline.freezing import optimizer_state
from hookline.freezing.fingerprint import Fingerprint, fingerprints
from hookline.freezing.layout import Key, Layout, Part
from hookline.freezing.ledger import hold, let_go
from hookline.freezing.level import Level
from hookline.freezing.refusals import check_change


class Holding:
    """What one freeze holds.

    Attributes:
        model: the model.
        level: how much of it is held.
        asked: what was to be frozen at first; schedules go back to it.
        part: what is frozen now.
        prints: what each tensor was when it was frozen, by place.
        optimizers: those whose state of frozen parameters is parked.
        ended: whether it holds nothing any more, for good.
    """

    def __init__(self, model: nn.Module, level: Level, asked: Part) -> None:
        self.model = model
        self.level = level
        self.asked = asked
        self.part = Part()
        self.prints: dict[Key, Fingerprint] = {}
        self.optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self.ended = False
        self._holder = object()  # not self: what is noted of a module must not keep the model alive

    def become(self, part: Part) -> None:
        """Freeze and thaw until `part` is what is frozen; on an error nothing has changed."""
        if self.ended and part:
            raise FreezeError("this freeze was removed, for good; call hookline.freeze() again.")
        with registration:  # two threads may freeze parts of one model
            self._become(part)

    def _become(self, part: Part) -> None:
        layout = Layout(self.model)
        check_change(layout, self.part, part)
        added, given_back = part - self.part, self.part - part
        prints = {each.slot.key: each for each in fingerprints(self.level.proven(layout, added))}
        hold(self._holder, self.level.held(added), added.slots.values())
        let_go(self._holder, self.level.held(given_back), given_back.slots.values())
        self.part = part
        for slot in self.level.proven(layout, given_back):
            self.prints.pop(slot.key, None)
        self.prints |= prints
        for optimizer in self.optimizers:
            optimizer_state.park(optimizer, added.slots.values())
        optimizer_state.give_back(given_back.slots.values())
