"""Freeze a part of a model, and prove that it stays frozen."""

from hookline.freezing.frozen import Frozen
from hookline.freezing.optimizer_state import Group
from hookline.freezing.start import freeze

__all__ = ["Frozen", "Group", "freeze"]
