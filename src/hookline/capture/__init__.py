"""Capture: the true features of a run."""

from hookline.capture.features import Features
from hookline.capture.file import load_features
from hookline.capture.report import CaptureReport, CaptureRow
from hookline.capture.session import capture, features

__all__ = ["CaptureReport", "CaptureRow", "Features", "capture", "features", "load_features"]
