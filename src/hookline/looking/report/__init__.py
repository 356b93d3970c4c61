"""The report: one HTML file that shows what a model does with one input."""

from hookline.looking.report.document import Report
from hookline.looking.report.one_run import look

__all__ = ["Report", "look"]
