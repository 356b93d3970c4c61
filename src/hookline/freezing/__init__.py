"""Freeze a part of a model, and prove that it stays frozen."""

from hookline.freezing.cached_prefix import CachedPrefix
from hookline.freezing.frozen import Frozen
from hookline.freezing.optimizer_state import ParameterGroup
from hookline.freezing.report import FreezeReport
from hookline.freezing.schedule import FreezeSchedule
from hookline.freezing.start import freeze

__all__ = ["CachedPrefix", "FreezeReport", "FreezeSchedule", "Frozen", "ParameterGroup", "freeze"]
