"""Capture: the true features of a run."""

from hookline.capturing.feature_map import Features
from hookline.capturing.file import load_features
from hookline.capturing.report import CaptureReport, CaptureRow
from hookline.capturing.session import capture, features
from hookline.capturing.statistics import Stats, stats

__all__ = ["CaptureReport", "CaptureRow", "Features", "Stats", "capture", "features", "load_features", "stats"]
